"""A layout bound to a model and a precision: layers, row bytes and page bytes of every pool."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hwmodels.bandwidth.efficiency import bursts_touched
from simulator.basis.errors import UnsupportedError
from simulator.basis.whole import round_up
from simulator.engine.cache_layout import POOL_KINDS, CacheLayout, Lives, PoolRule
from simulator.engine.entry_bytes import find_row_format
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_regions
from workloads.entry_format import EntryFormat
from workloads.state_layout import Every, Region


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGeometry:
    """One pool of one `kind` over its `layers` layers; sizes are those of one layer.

    `ratio`: tokens a row stands for; `reach_tokens`: how far back rows are needed (0: all).
    `stride_bytes` lie between the starts of two rows of a page; `scaled_values` of a row are
    stored with scales, narrower than they are multiplied.
    """

    name: str
    kind: str
    layers: int
    lives: Lives
    ratio: int
    reach_tokens: int
    page_tokens: int
    page_rows: int
    row_values: int
    row_bytes: int
    stride_bytes: int
    scaled_values: int
    page_bytes: int
    origin: str

    @property
    def padding_bytes(self) -> int:
        """Bytes of a page that no row uses (a second copy of the rows among them)."""
        return self.page_bytes - self.page_rows * self.row_bytes

    @property
    def run_rows(self) -> int:
        """Rows that a reader of all rows in reach takes in one run: those of a page at most."""
        return min(self.page_rows, self.reach_tokens) if self.reach_tokens else self.page_rows

    @property
    def run_bytes(self) -> int:
        """Bytes of such a run: its rows, and the padding between them."""
        return max(0, self.run_rows - 1) * self.stride_bytes + self.row_bytes

    @property
    def scanned_row_bytes(self) -> float:
        """Bytes that memory moves for a row that is read with all others of its page."""
        return self.run_bytes / max(1, self.run_rows)

    @property
    def picked_row_bytes(self) -> float:
        """Bytes that memory moves for a row that is read alone.

        Assumes: bursts that a row touches because it begins elsewhere than at a multiple of its
            own size cost as much as those that hold it.
        """
        own = bursts_touched(self.row_bytes, self.row_bytes)
        return self.row_bytes * bursts_touched(self.row_bytes, self.start_bytes) / own

    @property
    def start_bytes(self) -> int:
        """Rows of scattered pages begin at multiples of this."""
        return math.gcd(self.stride_bytes, self.page_bytes)

    @property
    def page_useful_bytes(self) -> float:
        """Bytes of a full page that hold rows, on average over pages.

        A page whose tokens are no multiple of the ratio has slots for the most rows that may end
        in it, and fewer do on average.
        """
        if self.lives != "context":
            return float(self.page_rows * self.row_bytes)
        return self.page_tokens / self.ratio * self.row_bytes

    @property
    def page_padding(self) -> float:
        """Bytes of a full page that hold no row, over those that do."""
        return self.page_bytes / self.page_useful_bytes - 1

    @property
    def padding_bytes_per_token(self) -> float:
        """Padding that a further token adds over all layers; 0 where nothing grows."""
        return self.bytes_per_token - self.useful_bytes_per_token

    def ranks(self, context_parallel: int) -> int:
        """Ranks that share the pool's rows: of the compressed entries only."""
        return context_parallel if self.kind in ("csa", "hca") else 1

    @property
    def bytes_per_token(self) -> float:
        """Bytes that a further token adds over all layers, pages full; 0 where nothing grows."""
        if self.lives != "context":
            return 0.0
        return self.layers * self.page_bytes / self.page_tokens

    @property
    def useful_bytes_per_token(self) -> float:
        """The same without padding and copies."""
        return self.layers * self.row_bytes / self.ratio if self.lives == "context" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGeometry:
    """All pools of a model (or of a pipeline stage of it) in a layout.

    `layers` are the attention layers in all, an MTP layer among them if it is kept.
    """

    layout: CacheLayout
    layers: int
    pools: tuple[PoolGeometry, ...]

    def pool(self, name: str) -> PoolGeometry:
        """Pool by name."""
        return next(pool for pool in self.pools if pool.name == name)

    def of_kinds(self, *kinds: str) -> list[PoolGeometry]:
        """Pools of some kinds that layers have, in the order of the kinds."""
        found = [pool for kind in kinds for pool in self.pools if pool.kind == kind]
        return [pool for pool in found if pool.layers]

    @property
    def window(self) -> PoolGeometry:
        """The pool of the sliding windows, which every layer has."""
        return self.pool("window")

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a further token in the pools that grow."""
        return self.rank_bytes_per_token(1)

    def rank_bytes_per_token(self, context_parallel: int) -> float:
        """The same on one of so many ranks that share the compressed entries."""
        return sum(pool.bytes_per_token / pool.ranks(context_parallel) for pool in self.pools)


def bind_layout(
    layout: CacheLayout,
    config: ModelConfig,
    *,
    kv: str = "fp8",
    index: str = "fp8",
    speculative: bool = False,
    mtp: bool = False,
    layers: tuple[LayerAttention, ...] | None = None,
) -> CacheGeometry:
    """Pools of a model in a layout. `layers`: those of a pipeline stage (default: all).

    `speculative` takes the longer rings; `mtp` keeps the caches of draft layers as well. Raises
    UnsupportedError where the engine stores no such precision, or where its pages cannot hold
    whole entries of the model.
    """
    if layers is None:
        layers = config.layers + (config.mtp_stages if mtp else ())
    counts: dict[str, int] = {}
    regions: dict[str, Region] = {}
    for attention in layers:
        for pool, region in layer_regions(config, Precision(), attention).items():
            regions[pool] = region
            counts[pool] = counts.get(pool, 0) + 1
    ordered = sorted(regions.values(), key=lambda r: POOL_KINDS.index(r.kind))
    check_pages(layout, ordered, config.name)
    rows = {"kv": layout.formats.row("kv", kv), "index": layout.formats.row("index", index)}
    pools = tuple(
        replace(
            bind_pool(region, layout, rows.get(row_content(region)), speculative),
            layers=counts[region.pool],
        )
        for region in ordered
    )
    return CacheGeometry(layout=layout, layers=len(layers), pools=pools)


def check_pages(layout: CacheLayout, regions: Iterable[Region], model: str) -> None:
    """Raise UnsupportedError where a page of some pool would end inside a compressed entry."""
    entries = [region for region in regions if isinstance(region.growth, Every)]
    least = math.lcm(*(region.growth.tokens for region in entries))
    for region in entries:
        ratio = region.growth.tokens
        page = layout.pools[region.kind].page_tokens or layout.page_tokens  # type: ignore[index]
        if page % ratio:
            above = -(-page // least) * least
            smallest = f", or {least}, the smallest" * (above != least)
            raise UnsupportedError(
                f"a page of {page:,} tokens cannot hold whole entries of pool {region.pool} of "
                f"{model}, which stand for {ratio:,} tokens: pages are multiples of {least:,} "
                f"tokens; try --page-tokens {above}{smallest}"
            )


def bind_pool(
    region: Region, layout: CacheLayout, row: str | None = None, speculative: bool = False
) -> PoolGeometry:
    """One layer's pool of a region; `row` names the format of its rows (default: by the region's).

    Rows of a compressor's state have the layout's format for them.
    """
    rule: PoolRule = layout.pools[region.kind]  # type: ignore[index]
    growth, values, rope = region.growth, region.format.dim, region.format.rotary_values
    ratio, reach = (growth.tokens, 0) if isinstance(growth, Every) else (1, growth.tokens)
    what = row_content(region)
    if what == "state":
        row = layout.formats.state
    elif row is None:
        row = layout.formats.row(what, region.format.precision)
    form = find_row_format(row)
    row_bytes = form.nbytes(values, rope)
    if rule.lives == "context":
        rows = (rule.page_tokens or 0) // ratio
    elif rule.lives == "sliding":
        rows = rule.page_tokens or 0
    else:
        rows = ((rule.draft_reaches if speculative else None) or rule.reaches or 0) * reach
    page_bytes = round_up(rows * row_bytes, rule.align_bytes)
    if rule.duplicate:
        copy = find_row_format(rule.duplicate).nbytes(values, rope)
        page_bytes += round_up(rows * copy, rule.align_bytes)
    return PoolGeometry(
        name=region.pool,
        kind=region.kind,
        layers=1,
        lives=rule.lives,
        ratio=ratio,
        reach_tokens=reach,
        page_tokens=rule.page_tokens or 0,
        page_rows=rows,
        row_values=values,
        row_bytes=row_bytes,
        stride_bytes=row_bytes,
        scaled_values=form.scaled_values(values, rope),
        page_bytes=page_bytes,
        origin=rule.origin,
    )


def row_content(region: Region) -> Literal["kv", "index", "state"]:
    """What the rows of a region are."""
    if region.kind.endswith("_state"):
        return "state"
    return "index" if region.kind.endswith("_index") else "kv"


@dataclass(slots=True)
class PhysicalLayout:
    """How an engine stores the regions of a graph: lowering's reads and appends go through it.

    `cut` are pools of another cut than the layout's own, by name, as `v4sim layout` asks;
    `neighbours` is the chance that a pick is followed by that of the next entry, so that the two
    are read in one run where they lie in one page.
    """

    layout: CacheLayout
    cut: Mapping[str, PoolGeometry] = field(default_factory=dict)
    neighbours: float = 0.0
    _known: dict[tuple[str, EntryFormat], PoolGeometry] = field(default_factory=dict)

    def of(self, region: Region) -> PoolGeometry:
        """The pool of a region, that of one layer."""
        if region.pool in self.cut:
            return self.cut[region.pool]
        key = (region.pool, region.format)
        if key not in self._known:
            self._known[key] = bind_pool(region, self.layout)
        return self._known[key]

    def picked_run_bytes(self, pool: PoolGeometry) -> int:
        """Bytes of a run of picked rows, on average."""
        joined = self.neighbours * (1 - 1 / max(1, pool.page_rows))
        return round(pool.row_bytes + (1 / (1 - joined) - 1) * pool.stride_bytes)
