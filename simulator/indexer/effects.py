"""Published effects of FP4 index keys, with the same figure computed from graph and cache layout.

Sources: vLLM PR 51209 (share of index keys); DeepSeek-V4 entry formats of 584 bytes for key-value
rows and 68 or 132 for index keys (vLLM 0.33, SGLang 0.5.23), whose arithmetic gives the rest;
SGLang 0.5.14's index-logits kernel for FP8 keys, measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hwmodels.chip import find_chip
from simulator.calibration.measured_rows import measured_calls
from simulator.indexer.accuracy import AccuracyPoint
from simulator.indexer.cost import asked, scan_price
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape

_K = 2**10
# Pools of compressor states: read and written in place, whatever the context.
STATE = "_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A published figure and ours, both in `unit` (%, or us); `digits` as published."""

    name: str
    unit: str
    published: float
    computed: float
    digits: int
    source: str
    remark: str = ""


@cache
def bytes_read(model: str, context: int, precision: str) -> Mapping[str, int]:
    """Cache bytes that one request's decode step reads, by pool."""
    config = find_model(model)
    graph = build_graph(config, StepShape.uniform(1, 1, context - 1), Precision(index=precision))
    pools: dict[str, int] = {}
    for node in graph.nodes:
        for read in graph.work(node, RunStats()).reads:
            region = graph.regions[node.regions[read.region]]
            nbytes = round(read.distinct * region.format.nbytes)
            pools[region.pool] = pools.get(region.pool, 0) + nbytes
    return pools


def entry_bytes(model: str, context: int, precision: str) -> int:
    """Bytes of window rows, compressed entries and index keys; compressor states left out."""
    pools = bytes_read(model, context, precision)
    return sum(nbytes for pool, nbytes in pools.items() if not pool.endswith(STATE))


def bytes_saved(model: str, context: int, states: bool = False) -> float:
    """Per cent by which FP4 keys change the bytes read, against FP8; with `states` of all pools."""
    fp4, fp8 = (
        sum(bytes_read(model, context, p).values()) if states else entry_bytes(model, context, p)
        for p in ("fp4", "fp8")
    )
    return 100 * (fp4 / fp8 - 1)


def index_share(model: str, context: int, precision: str = "fp8") -> float:
    """Per cent of the entry bytes read that are index keys."""
    pools = bytes_read(model, context, precision)
    index = sum(nbytes for pool, nbytes in pools.items() if pool.endswith("_index"))
    return 100 * index / entry_bytes(model, context, precision)


def growth_saved(model: str) -> float:
    """Per cent by which FP4 keys change the cache bytes that a token adds, against FP8."""
    fp4, fp8 = (
        model_state(find_model(model), Precision(index=p)).growth_bytes_per_token
        for p in ("fp4", "fp8")
    )
    return 100 * (fp4 / fp8 - 1)


def tile_scan_us(chip: str, context: int) -> float:
    """Microseconds of one layer's scan of FP8 keys for one request a chip, by the tile model."""
    return scan_price(asked("v4-flash", chip, context, 8, 8, "fp8")).alone_ps * 1e-6


def calibrated_scan_us(chip: str, context: int) -> float:
    """The same by the family that is calibrated on SGLang's kernel, the constants of such cores."""
    row: dict[str, str | float] = {
        "op": "indexer_logits",
        "engine": "sglang-0.5.14",
        "model": "v4-flash",
        "local_heads": 64,
        "batch": 1,
        "new_tokens": 1,
        "past_tokens": context - 1,
    }
    return 1e6 * float(measured_calls([row], [find_chip(chip)]).parts().total[0])


def published_effects(points: Sequence[AccuracyPoint] = ()) -> list[Effect]:
    """All of them; recall with BF16 scores where synthetic points are given."""
    return [*_traffic(), *_growth(), *_shares(), *_kernels(), *_recall(points)]


def _traffic() -> Iterator[Effect]:
    for context, published in ((32 * _K, -31.0), (128 * _K, -39.0), (_K * _K, -42.0)):
        every = bytes_saved("v4-flash", context, states=True)
        yield Effect(
            name=f"Flash, bytes read at {_tokens(context)}",
            unit="%",
            published=published,
            computed=bytes_saved("v4-flash", context),
            digits=0,
            source="entry sizes, arithmetic",
            remark=f"{every:.1f} % counting compressor states, which it leaves out",
        )


def _growth() -> Iterator[Effect]:
    for model in ("v4-flash", "v4-pro"):
        yield Effect(
            name=f"{model[3:].capitalize()}, global cache of a token",
            unit="%",
            published=-8.7,
            computed=growth_saved(model),
            digits=1,
            source="entry sizes, arithmetic",
        )


def _shares() -> Iterator[Effect]:
    for context, published in ((32 * _K, 64.5), (128 * _K, 80.9)):
        yield Effect(
            name=f"Flash, FP8 keys of bytes read at {_tokens(context)}",
            unit="%",
            published=published,
            computed=index_share("v4-flash", context),
            digits=1,
            source="vLLM PR 51209",
        )


def _kernels() -> Iterator[Effect]:
    context = _K * _K
    for chip, published in (("h200", 10.4), ("b200", 7.2)):
        yield Effect(
            name=f"{chip.upper()}, FP8 scan at 1M, one request",
            unit="us",
            published=published,
            computed=calibrated_scan_us(chip, context),
            digits=1,
            source="SGLang 0.5.14, measured",
            remark=f"calibrated kernel; tile model {tile_scan_us(chip, context):.1f} us",
        )


def _recall(points: Sequence[AccuracyPoint]) -> Iterator[Effect]:
    if not points:
        return
    longest = max(p.entries for p in points)
    found = [p.recall for p in points if p.variant.bf16_scores and p.entries == longest]
    yield Effect(
        name="top-k recall, float32 scores cast to BF16",
        unit="%",
        published=99.7,
        computed=100 * sum(found) / len(found),
        digits=1,
        source="DeepSeek-V4 report",
        remark=f"synthetic, {100 * min(found):.1f} to {100 * max(found):.1f} % by distribution",
    )


def _tokens(context: int) -> str:
    return f"{context // _K}K" if context < _K * _K else f"{context // _K**2}M"
