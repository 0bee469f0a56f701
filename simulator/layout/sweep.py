"""Page sizes, padding and grouping of a cache layout, swept: what each choice costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm

from hwmodels.bandwidth.efficiency import memory_efficiency
from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError
from simulator.capacity.exact_fit import fit_exact
from simulator.capacity.request_pages import Load
from simulator.capacity.sizing import fit_requests
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.layout import fragmentation
from simulator.layout.fragmentation import HeldBytes, block_slack, held_bytes, table_bytes
from simulator.layout.gather_runs import (
    PoolRuns,
    pool_runs,
    read_bytes,
    read_efficiency,
    run_efficiency,
)
from simulator.layout.grouping import Groupings
from simulator.layout.kernel_tiles import TileWaste, index_tile, index_waste
from simulator.layout.layout_step import LayoutStep
from simulator.layout.padding import ENGINE, Padding
from simulator.layout.request_mix import Lengths, RequestMix, mean


@dataclass(frozen=True, slots=True)
class Remainder:
    """Tokens of a length beyond the last multiple of the granule."""

    granule_tokens: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Tokens lost [n] of lengths [n]."""
        lost: Lengths = lengths % self.granule_tokens
        return lost


def hit_granule_tokens(cut: CacheGeometry) -> int:
    """A hit is a multiple of this: every pool ends a page there, and a compressed one an entry."""
    return lcm(*(max(1, one.page_tokens) for one in cut.pools), *(one.ratio for one in cut.pools))


def lost_tokens_uniform(granule_tokens: int) -> float:
    """Mean over all lengths with equal chance."""
    return (granule_tokens - 1) / 2


def lost_tokens(granule_tokens: int, mix: RequestMix) -> float:
    """Mean over hits as long as the requests of a mix."""
    return mean(mix, Remainder(granule_tokens))


LEAST_PAGE_TOKENS, MOST_PAGE_TOKENS = 64, 4096
# Multiples of lcm(4, 128) = 128 tokens, and sizes between that only C4's ratio divides.
DEFAULT_PAGES = (
    64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayoutPoint:
    """One choice: pages of `page_tokens` (0: the engine's) in `pool`, padding and grouping."""

    pool: str
    page_tokens: int
    padding: Padding
    grouping: str


OWN = LayoutPoint("all", 0, ENGINE, "engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCost:
    """What a choice costs; bytes of a request are means over the mix, over all layers.

    `read_s`: time that memory takes for a request's reads of the cache in a decode step. `step_ps`
    is None where no step was asked for.
    """

    point: LayoutPoint
    page_tokens: int
    pools: tuple[PoolGeometry, ...]
    bytes_per_token: float
    padding_bytes_per_token: float
    held: tuple[HeldBytes, ...]
    slack_of_block: dict[str, float]
    granule_tokens: int
    lost_tokens_uniform: float
    lost_tokens_mix: float
    table_bytes: float
    runs: tuple[PoolRuns, ...]
    dram_efficiency: float
    read_s: float
    index_tile_keys: int
    index_tiles: TileWaste
    step_ps: int | None
    requests: float

    @property
    def padding_share(self) -> float:
        """Padding over useful bytes of a further token."""
        return self.padding_bytes_per_token / (self.bytes_per_token - self.padding_bytes_per_token)

    @property
    def held_bytes(self) -> float:
        """Bytes of a request."""
        return sum(one.held_bytes for one in self.held)

    @property
    def useful_bytes(self) -> float:
        """Those that hold rows which mean something."""
        return sum(one.useful_bytes for one in self.held)

    @property
    def fragmentation_bytes(self) -> float:
        """Row slots of a request's pages that hold nothing."""
        return sum(one.partial_bytes for one in self.held)

    @property
    def slack_bytes(self) -> float:
        """What blocks of one size have left over."""
        return sum(one.slack_bytes for one in self.held)

    @property
    def wasted_share(self) -> float:
        """Padding, part-filled pages and slack, of all that a request holds."""
        return 1 - self.useful_bytes / self.held_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepQuestion:
    """What stays the same over a sweep. `neighbours`: chance that a pick goes on from the last."""

    groupings: Groupings
    chip: ChipSpec
    mix: RequestMix
    neighbours: float
    budget_bytes: int
    load: Load


def swept_pools(geometry: CacheGeometry) -> list[str]:
    """What a sweep can cut: all pools, or one of rows that attention reads."""
    return ["all", *(pool.name for pool in geometry.pools if not pool.kind.endswith("_state"))]


def check_page(geometry: CacheGeometry, pool: str, page_tokens: int) -> None:
    """Raise InputError for a page outside the sweep's range, or without one whole entry."""
    if not LEAST_PAGE_TOKENS <= page_tokens <= MOST_PAGE_TOKENS:
        raise InputError(
            f"a page of {page_tokens:,} tokens is outside the sweep, which goes from "
            f"{LEAST_PAGE_TOKENS} to {MOST_PAGE_TOKENS:,}"
        )
    cut = [one for one in geometry.pools if pool in ("all", one.name)]
    ratio, name = max((one.ratio, one.name) for one in cut)
    if page_tokens < ratio:
        raise InputError(
            f"a page of {page_tokens} tokens cannot hold one {name} entry, which stands for "
            f"{ratio} tokens ({ratio - page_tokens} too few); try {ratio}, or another --pool"
        )


def sweep_points(
    pool: str, pages: Sequence[int], paddings: Sequence[Padding], groupings: Sequence[str]
) -> list[LayoutPoint]:
    """The engine's own choice first, then every combination."""
    found = [
        LayoutPoint(pool, page, padding, grouping)
        for page in pages
        for padding in paddings
        for grouping in groupings
    ]
    return [OWN, *dict.fromkeys(found)]


def sweep(
    question: SweepQuestion, points: Sequence[LayoutPoint], step: LayoutStep | None
) -> Iterator[LayoutCost]:
    """Cost of every point, in order."""
    for point in points:
        yield cost_of(question, point, step)


def _cut(question: SweepQuestion, point: LayoutPoint) -> CacheGeometry:
    return question.groupings.cut(point.grouping, point.padding, point.pool, point.page_tokens)


def _runs(question: SweepQuestion, cut: CacheGeometry) -> tuple[PoolRuns, ...]:
    top_k = question.groupings.config.index_topk
    return pool_runs(cut, question.mix, question.chip, top_k, question.neighbours)


def cost_of(question: SweepQuestion, point: LayoutPoint, step: LayoutStep | None) -> LayoutCost:
    """Everything that one choice costs."""
    cut, mix = _cut(question, point), question.mix
    runs = _runs(question, cut)
    granule = hit_granule_tokens(cut)
    swept = next((one for one in cut.pools if one.name == point.pool), None)
    return LayoutCost(
        point=point,
        page_tokens=swept.page_tokens if swept else cut.layout.page_tokens,
        pools=cut.pools,
        bytes_per_token=cut.bytes_per_token,
        padding_bytes_per_token=sum(one.padding_bytes_per_token for one in cut.pools),
        held=held_bytes(cut, mix),
        slack_of_block=block_slack(cut),
        granule_tokens=granule,
        lost_tokens_uniform=lost_tokens_uniform(granule),
        lost_tokens_mix=lost_tokens(granule, mix),
        table_bytes=table_bytes(cut, mix),
        runs=runs,
        dram_efficiency=read_efficiency(runs),
        read_s=read_bytes(runs) / (read_efficiency(runs) * question.chip.hbm_bandwidth_bytes_per_s),
        index_tile_keys=index_tile(cut, question.chip),
        index_tiles=index_waste(cut, mix, question.chip),
        step_ps=None if step is None else step.total_ps(cut),
        requests=fit_requests(cut, question.budget_bytes, question.load).requests,
    )


def assumed() -> tuple[object, ...]:
    """What the sweep's approximations are written at."""
    return (
        fragmentation,
        pool_runs,
        run_efficiency,
        LayoutStep,
        index_tile,
        index_waste,
        fit_exact,
        memory_efficiency,
    )
