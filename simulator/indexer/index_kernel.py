"""The index scan of a costed step: the kernel that scores keys, as the chip really would run it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT
from simulator.lower.kernel import Demand, Kernel
from workloads.entry_format import EntryFormat
from workloads.graph import Graph
from workloads.ops import IndexScore

# Stored precision -> formats that its products may run in, best first.
RUNS_IN = {
    "fp4": ("fp4", "fp8", "bf16", "fp16"),
    "fp8": ("fp8", "bf16", "fp16"),
    "bf16": ("bf16", "fp16"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMath:
    """Format that the products run in, and whether keys are unpacked to it first."""

    stored: str
    runs_in: str

    @property
    def unpacks(self) -> bool:
        """Whether the chip lacks matrix units for the stored format."""
        return self.runs_in != self.stored

    @property
    def text(self) -> str:
        """Words for tables."""
        units = f"{self.runs_in.upper()} units"
        return f"unpacked, {units}" if self.unpacks else units


def index_math(chip: ChipSpec, precision: str) -> IndexMath:
    """The first format of `RUNS_IN` that the chip has matrix units for; each chip has one."""
    held = (f for f in RUNS_IN[precision] if chip.matrix_flops_per_s(f) is not None)
    return IndexMath(stored=precision, runs_in=next(held))


def as_run(demand: Demand, key: EntryFormat, math: IndexMath) -> Demand:
    """Demand of the scan with the vector operations that unpacking takes.

    Assumes: a chip without matrix units for the format of the index keys unpacks every fetched
        key inside the scan, with 2 vector operations a value (place the bits, multiply by the
        scale), and multiplies in the next format that it has units for: FP4 keys as FP8 (H200) or
        BF16 (no FP8 units), FP8 keys as BF16.
    Assumes: such a kernel can be written; DeepGEMM's FP4 scan runs on SM100 only, and engines keep
        FP8 keys on chips without FP4 units.
    """
    if not math.unpacks:
        return demand
    fetched = demand.cache_touch_bytes / key.nbytes
    unpacking = round(CONVERT_OPS_PER_WEIGHT * fetched * key.dim)
    return replace(demand, vector_ops=demand.vector_ops + unpacking)


def scans(graph: Graph) -> frozenset[str]:
    """Paths of the nodes that score index keys."""
    return frozenset(node.path for node in graph.nodes if isinstance(node.op, IndexScore))


def is_scan(kernel: Kernel, paths: Iterable[str]) -> bool:
    """Whether a kernel holds one of the scans."""
    return not frozenset(paths).isdisjoint(kernel.nodes)
