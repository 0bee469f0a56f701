"""The index scan of a costed step: the kernel that scores keys, and the format that it runs in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from simulator.engine.kernel import Kernel
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


def scans(graph: Graph) -> frozenset[str]:
    """Paths of the nodes that score index keys."""
    return frozenset(node.path for node in graph.nodes if isinstance(node.op, IndexScore))


def is_scan(kernel: Kernel, paths: Iterable[str]) -> bool:
    """Whether a kernel holds one of the scans."""
    return not frozenset(paths).isdisjoint(kernel.nodes)
