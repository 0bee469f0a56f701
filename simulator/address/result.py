"""What an address is: frozen records, in slots and logical entries."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.address.question import AddressQuestion
from workloads.deepseek_v4.layer_kinds import LayerAttention, LayerKind


@dataclass(frozen=True, slots=True)
class Run:
    """`count` consecutive entries from `first` on, in consecutive slots of one page (or ring).

    `place` is the place in the page table that led there, `page` what it names; None in a ring.
    """

    first: int
    count: int
    slot: int
    place: int | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAccess:
    """Slots of one pool that a row writes or reads.

    `unit` is what entries count: positions in a ring, entries in a compressed pool. `table` says
    which table led there and how a slot follows from it.
    """

    pool: str
    write: bool
    unit: str
    table: str
    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """Slots."""
        return sum(run.count for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Entries or positions that the row does not read, and why; ranges are (first, count)."""

    pool: str
    unit: str
    reason: str
    ranges: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Entries or positions."""
        return sum(count for _, count in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The indexer's choice for a row. `ids` None: not known, no model has run.

    `scored` is whether a run decided; else all visible entries were picked. The scores are the
    lowest of a picked entry and the best of one that was left out.
    """

    visible: int
    top_k: int
    ids: tuple[int, ...] | None
    scored: bool
    lowest_picked: float | None = None
    best_left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAddress:
    """Accesses of one row in one layer. `own_positions` (first, count) are rows of the step itself.

    Those keys come from the step's own projections, not from a pool.
    """

    layer: int
    kind: LayerKind
    ratio: int
    accesses: tuple[PoolAccess, ...]
    own_positions: tuple[int, int]
    unseen: tuple[Unseen, ...]
    pick: Pick | None
    notes: tuple[str, ...]

    @property
    def attention(self) -> LayerAttention:
        """The layer's attention."""
        return LayerAttention(self.kind, self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAddress:
    """One packed row. `context` are its request's tokens after the step."""

    packed_row: int
    request: int
    request_row: int
    position: int
    context: int
    token_slot: int
    place: int
    page: int
    layers: tuple[LayerAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTables:
    """A request's row, tokens and page tables by pool (`token`, and pools with their own)."""

    request: int
    row: int
    past: int
    new: int
    first_packed_row: int
    pages: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGeometry:
    """A pool's pages; `ratio` tokens an entry; `follows`: on token pages, by division."""

    pool: str
    ratio: int
    page_tokens: int
    page_entries: int
    pages: int
    follows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressResult:
    """The answer. `values` says in a sentence where the indexer's ids come from."""

    question: AddressQuestion
    model: str
    window: int
    ran: bool
    values: str
    pools: tuple[PoolGeometry, ...]
    requests: tuple[RequestTables, ...]
    rows: tuple[RowAddress, ...]
    assumptions: tuple[str, ...]
