"""The forward metadata of a batch as an engine's attention kernels take it, from a fresh allocator.

Example: requests in rows 5 and 9 add 6 tokens (past 0) and 3 tokens (past 3): boundaries [0, 6, 9],
lengths [6, 6], positions 0-5 and 3-5; then one token each: [0, 1, 2], [7, 7], [6, 6].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator.address.question import RequestSpec
from simulator.basis.assumptions import assumptions_of
from simulator.basis.errors import InputError
from simulator.engine.cache_layout import POOL_KINDS
from simulator.engine.phase import phase_of
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry, bind_layout
from simulator.engine.profile import EngineProfile, find_profile, layout_of
from simulator.engine.sizing_rules import BlockSizing
from workloads.deepseek_v4.config import ModelConfig
from workloads.step_shape import StepShape

MOST_ROWS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """Page ids of every request of the batch, in logical order; `freed` where one was returned.

    `pools` share it; `ids` says which other tables draw from the same free pages. `slots` are those
    of the packed rows' tokens: page x `page_tokens` + position mod `page_tokens`.
    """

    name: str
    pools: tuple[str, ...]
    page_tokens: int
    ids: str
    pages: tuple[tuple[int, ...], ...]
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An entry that a packed row writes: its slot, and the byte where it begins in its layer."""

    packed_row: int
    entry: int
    slot: int
    byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWrites:
    """One pool: where its rows lie, and what the step writes into each of its layers.

    `table` is the page table that leads there; None where slots follow from the request's row. Of
    a pool whose layers are spread over several tables there is one of these for each.
    """

    pool: str
    table: str | None
    kind: str
    layers: int
    ratio: int
    page_rows: int
    row_bytes: int
    page_bytes: int
    rule: str
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexIds:
    """Compressed entries that a packed row attends to in layers with an indexer.

    `ids` None: more are visible than are picked, so that values decide.
    """

    packed_row: int
    visible: int
    ids: tuple[int, ...] | None
    slots: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardMetadata:
    """Tables of one step. `phase`: prefill, decode, or verify (drafts of each request)."""

    phase: str
    boundaries: tuple[int, ...]
    lengths: tuple[int, ...]
    past: tuple[int, ...]
    request_rows: tuple[int, ...]
    positions: tuple[int, ...]
    row_requests: tuple[int, ...]
    compressed_lengths: Mapping[str, tuple[int, ...]]
    kernel_lengths: Mapping[str, tuple[int, ...]]
    tables: tuple[PageTable, ...]
    pools: tuple[PoolWrites, ...]
    index_pool: str | None
    index_ids: tuple[IndexIds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddresses:
    """A step and the one after it, in which every request adds one token."""

    engine: str
    model: str
    origin: str
    reserved_pages: int
    reserved_rows: int
    freed: int
    steps: tuple[ForwardMetadata, ...]
    assumptions: tuple[str, ...] = ()


@dataclass(slots=True)
class _Ids:
    """Free pages in ascending order; returned ones go behind all others, so are not met here."""

    next_id: int

    def take(self) -> int:
        found, self.next_id = self.next_id, self.next_id + 1
        return found


@dataclass(slots=True)
class _Group:
    """Pools with one page table: reach 0 keeps the whole context."""

    name: str
    pools: tuple[str, ...]
    page_tokens: int
    reach: int
    ids: _Ids
    shared: str
    pages: dict[int, list[int]] = field(default_factory=dict)

    def grow(self, request: int, past: int, tokens: int, freed: int) -> None:
        """Return what is out of reach of the first new token, then hold pages for all tokens."""
        held = self.pages.setdefault(request, [])
        if self.reach:
            first = max(0, past - self.reach + 1) // self.page_tokens
            held[: min(first, len(held))] = [freed] * min(first, len(held))
        while len(held) * self.page_tokens < tokens:
            held.append(self.ids.take())


def engine_addresses(
    engine: str, config: ModelConfig, requests: Sequence[RequestSpec]
) -> EngineAddresses:
    """Metadata of a batch under an engine's layout, and of the decode step after it.

    Assumes: every request's past was one step, all requests together, on a fresh allocator, before
        the step shown.
    Assumes: pages of a sliding window are returned at the start of the first step whose tokens
        cannot see them, and are handed out again behind all free ones.
    """
    profile = find_profile(engine)
    geometry = bind_layout(layout_of(profile), config)
    _check(requests, config)
    rows = _rows(requests, profile.tables.reserved_rows)
    groups = _groups(geometry, profile.tables.reserved_pages)
    freed = profile.tables.freed
    _grow(groups, [(0, spec.past) for spec in requests], freed, geometry)
    steps = []
    current = list(requests)
    for _ in range(2):
        _grow(groups, [(spec.past, spec.context) for spec in current], freed, geometry)
        steps.append(_metadata(profile, geometry, groups, config, current, rows))
        current = [spec.model_copy(update={"past": spec.context, "new": 1}) for spec in current]
        if any(spec.context > config.max_position_embeddings for spec in current):
            break
    return EngineAddresses(
        engine=profile.name,
        model=config.name,
        origin=profile.tables.origin,
        reserved_pages=profile.tables.reserved_pages,
        reserved_rows=profile.tables.reserved_rows,
        freed=freed,
        steps=tuple(steps),
        assumptions=assumptions_of([engine_addresses, _tables_of]),
    )


def _check(requests: Sequence[RequestSpec], config: ModelConfig) -> None:
    most = config.max_position_embeddings
    for number, spec in enumerate(requests):
        if spec.context > most:
            raise InputError(
                f"request {number} would hold {spec.context:,} tokens, {config.name} allows "
                f"{most:,} ({spec.context - most:,} too many); shorten it"
            )
    total = sum(spec.new for spec in requests)
    if total > MOST_ROWS:
        raise InputError(
            f"the step has {total:,} rows, at most {MOST_ROWS:,} are addressed "
            f"({total - MOST_ROWS:,} too many); shorten it"
        )


def _rows(requests: Sequence[RequestSpec], reserved: int) -> list[int]:
    """Rows as named, the others the lowest free ones behind what the engine reserves."""
    named = [spec.row for spec in requests if spec.row is not None]
    for row in named:
        if named.count(row) > 1:
            raise InputError(f"row {row} is given to {named.count(row)} requests; one has it")
        if row < reserved:
            raise InputError(
                f"row {row} is given to a request, but the engine reserves the first {reserved} "
                f"(--request PAST:NEW:{reserved} is the first free one)"
            )
    free = iter(n for n in range(reserved, reserved + 2 * len(requests)) if n not in named)
    return [next(free) if spec.row is None else spec.row for spec in requests]


def _groups(geometry: CacheGeometry, reserved: int) -> list[_Group]:
    sizing, pools = geometry.layout.sizing, {pool.kind: pool for pool in geometry.pools}
    if isinstance(sizing, BlockSizing):
        ids, found = _Ids(reserved), []
        for group in sizing.groups:
            own = [pools[kind] for kind in group.pools if kind in pools]
            for part in range(group.split if own else 0):
                name = f"{group.name}.{part}" if group.split > 1 else group.name
                found.append(_group(name, own, ids, "all groups"))
        return found
    paged: dict[tuple[str, int], list[PoolGeometry]] = {}
    for kind in POOL_KINDS:
        pool = pools.get(kind)
        if pool is not None and pool.lives in ("context", "sliding"):
            key = ("full" if pool.lives == "context" else kind, pool.page_tokens)
            paged.setdefault(key, []).append(pool)
    sizes = [tokens for name, tokens in paged if name == "full"]
    return [
        _group(name if name != "full" or len(sizes) == 1 else own[0].name, own, _Ids(reserved), "")
        for (name, _), own in paged.items()
    ]


def _group(name: str, pools: Sequence[PoolGeometry], ids: _Ids, shared: str) -> _Group:
    reach = max((pool.reach_tokens for pool in pools), default=0)
    kept = pools[0].lives == "context"
    names = tuple(pool.name for pool in pools)
    return _Group(name, names, pools[0].page_tokens, 0 if kept else reach, ids, shared or "its own")


def _grow(
    groups: Sequence[_Group],
    spans: Sequence[tuple[int, int]],
    freed: int,
    geometry: CacheGeometry,
) -> None:
    """Pages of all requests; with one set of ids, request after request, else pool after pool."""
    shared = isinstance(geometry.layout.sizing, BlockSizing)
    order = [(n, group) for n in range(len(spans)) for group in groups]
    if not shared:
        order = [(n, group) for group in groups for n in range(len(spans))]
    for number, group in order:
        past, tokens = spans[number]
        group.grow(number, past, tokens, freed)


def _metadata(
    profile: EngineProfile,
    geometry: CacheGeometry,
    groups: Sequence[_Group],
    config: ModelConfig,
    requests: Sequence[RequestSpec],
    rows: Sequence[int],
) -> ForwardMetadata:
    ends = [0]
    for spec in requests:
        ends.append(ends[-1] + spec.new)
    packed = [(n, t) for n, spec in enumerate(requests) for t in range(spec.past, spec.context)]
    lengths = tuple(spec.context for spec in requests)
    ratios = {pool.name: pool.ratio for pool in geometry.pools if pool.kind in ("csa", "hca")}
    compressed = {name: tuple(n // ratio for n in lengths) for name, ratio in ratios.items()}
    least = profile.tables.least_compressed
    tables = {group.name: _table(group, len(requests), packed) for group in groups}
    of_pool = {pool: tables[group.name] for group in groups for pool in group.pools}
    index = next((pool for pool in geometry.pools if pool.kind == "csa"), None)
    return ForwardMetadata(
        phase=_phase(requests),
        boundaries=tuple(ends),
        lengths=lengths,
        past=tuple(spec.past for spec in requests),
        request_rows=tuple(rows),
        positions=tuple(position for _, position in packed),
        row_requests=tuple(number for number, _ in packed),
        compressed_lengths=compressed,
        kernel_lengths={k: tuple(max(least, n) for n in own) for k, own in compressed.items()},
        tables=tuple(tables.values()),
        pools=tuple(
            _writes(replace(pool, layers=layers), table, packed, rows, lengths)
            for pool in geometry.pools
            for table, layers in _tables_of(pool, tables)
        ),
        index_pool=index.name if index else None,
        index_ids=_index_ids(index, of_pool, config, packed) if index else (),
    )


def _phase(requests: Sequence[RequestSpec]) -> str:
    phase = phase_of(StepShape(tuple((spec.new, spec.past) for spec in requests)))
    if not phase.decode:
        return "prefill"
    return "decode" if phase.single else "verify"


def _table(group: _Group, count: int, packed: Sequence[tuple[int, int]]) -> PageTable:
    size = group.page_tokens
    return PageTable(
        name=group.name,
        pools=group.pools,
        page_tokens=size,
        ids=group.shared,
        pages=tuple(tuple(group.pages[number]) for number in range(count)),
        slots=tuple(group.pages[n][t // size] * size + t % size for n, t in packed),
    )


def _tables_of(
    pool: PoolGeometry, tables: Mapping[str, PageTable]
) -> list[tuple[PageTable | None, int]]:
    """Tables that lead to a pool, each with how many of its layers; None: by the request's row.

    Assumes: layers that several groups share are dealt to them as evenly as can be, the first
        groups one more.
    """
    if pool.lives == "request":
        return [(None, pool.layers)]
    name = "window" if pool.lives == "window_page" else pool.name
    own = [table for table in tables.values() if name in table.pools]
    share, more = divmod(pool.layers, len(own))
    return [(table, share + (place < more)) for place, table in enumerate(own)]


def _writes(
    pool: PoolGeometry,
    table: PageTable | None,
    packed: Sequence[tuple[int, int]],
    rows: Sequence[int],
    lengths: Sequence[int],
) -> PoolWrites:
    size, found = pool.page_rows, []
    for place, (number, t) in enumerate(packed):
        if pool.lives == "context" and (t + 1) % pool.ratio:
            continue
        if table is None:
            if lengths[number] - t > size:
                continue  # rows of the same chunk overwrite it
            page = rows[number]
        else:
            page = table.pages[number][t // table.page_tokens]
        entry = t // pool.ratio
        slot = page * size + entry % size
        byte = page * pool.page_bytes + entry % size * pool.stride_bytes
        found.append(Write(packed_row=place, entry=entry, slot=slot, byte=byte))
    what = "position" if pool.ratio == 1 else "entry"
    return PoolWrites(
        pool=pool.name,
        table=None if table is None else table.name,
        kind=pool.kind,
        layers=pool.layers,
        ratio=pool.ratio,
        page_rows=size,
        row_bytes=pool.row_bytes,
        page_bytes=pool.page_bytes,
        rule=f"{'request row' if table is None else f'{table.name} page'} x {size} + {what} mod "
        f"{size}",
        writes=tuple(found),
    )


def _index_ids(
    pool: PoolGeometry,
    tables: Mapping[str, PageTable],
    config: ModelConfig,
    packed: Sequence[tuple[int, int]],
) -> tuple[IndexIds, ...]:
    """Ids of rows that see no more entries than are picked: all of them, in order."""
    table, found = tables[pool.name], []
    per_page = table.page_tokens // pool.ratio
    for place, (number, t) in enumerate(packed):
        visible = (t + 1) // pool.ratio
        known = visible <= config.index_topk
        ids = tuple(range(visible)) if known else None
        pages = table.pages[number]
        slots = (
            tuple(pages[e // per_page] * per_page + e % per_page for e in ids)
            if ids is not None
            else None
        )
        found.append(IndexIds(packed_row=place, visible=visible, ids=ids, slots=slots))
    return tuple(found)


def verified(requests: Sequence[RequestSpec], drafts: int) -> list[RequestSpec]:
    """The requests with so many drafts to verify behind their new token."""
    return [spec.model_copy(update={"new": spec.new + drafts}) for spec in requests]
