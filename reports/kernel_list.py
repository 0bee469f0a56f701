"""The kernel list of a step: one line a distinct kernel, in the order of its first launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.certainty import interval_text
from reports.text_table import TextColumn, print_table
from simulator.basis.units import format_time_ps
from simulator.cost.result import KernelRecord, StepResult

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A kernel with its launches of the same program, shapes, stream and demands.

    `kinds` are those of the layers that launch it; `duration_ps` adds all launches up.
    """

    first: KernelRecord
    kinds: tuple[str, ...]
    launches: int
    duration_ps: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes' paths without the layer."""
        return tuple(node.removeprefix(f"{self.first.scope}/") for node in self.first.nodes)


def kernel_list(result: StepResult) -> tuple[ListedKernel, ...]:
    """Distinct kernels of a step; `duration_ps` adds up the launches of each."""
    groups: dict[object, list[KernelRecord]] = {}
    for kernel in result.kernels:
        nodes = tuple(node.removeprefix(f"{kernel.scope}/") for node in kernel.nodes)
        causes = tuple(kernel.busy_ps.items())
        key = (kernel.name, kernel.program, kernel.shapes, kernel.stream, nodes, causes)
        groups.setdefault(key, []).append(kernel)
    return tuple(
        ListedKernel(
            members[0],
            tuple(dict.fromkeys(kernel.kind for kernel in members)),
            len(members),
            sum(kernel.duration_ps for kernel in members),
        )
        for members in groups.values()
    )


def kernel_list_json(result: StepResult) -> list[dict[str, Any]]:
    """The list as plain JSON values."""
    return [
        {
            "name": listed.first.name,
            "program": listed.first.program,
            "priced_by": listed.first.priced_by,
            "calibrated": listed.first.calibrated,
            "nodes": list(listed.nodes),
            "layer_kinds": list(listed.kinds),
            "stream": listed.first.stream,
            "launches": listed.launches,
            "shapes": listed.first.shapes,
            "cut": listed.first.cut,
            "each_ps": listed.first.duration_ps,
            "low_ps": listed.first.low_ps,
            "high_ps": listed.first.high_ps,
            "duration_ps": listed.duration_ps,
        }
        for listed in kernel_list(result)
    ]


def print_kernels(console: Console, result: StepResult) -> None:
    """Print the list; columns that do not fit are left out, the nodes first."""
    listed = kernel_list(result)
    print_table(console, _columns(listed))


def _columns(listed: Sequence[ListedKernel]) -> list[TextColumn]:
    firsts = [kernel.first for kernel in listed]

    def text(heading: str, cells: list[str], rank: int, *, left: bool = True) -> TextColumn:
        return TextColumn(heading=heading, cells=cells, rank=rank, left=left)

    return [
        text("kernel", [k.name for k in firsts], 0),
        text("layers", [", ".join(k.kinds) for k in listed], 2),
        text("stream", [str(k.stream) for k in firsts], 1, left=False),
        text("launches", [f"{k.launches:,}" for k in listed], 0, left=False),
        text("each", [format_time_ps(k.duration_ps) for k in firsts], 0, left=False),
        text("p10 to p90", [interval_text(k.low_ps, k.high_ps) for k in firsts], 3, left=False),
        text("together", [format_time_ps(k.duration_ps) for k in listed], 1, left=False),
        text("program", [k.program for k in firsts], 1),
        text("priced by", [_model(k) for k in firsts], 3),
        text("shapes", [k.shapes for k in firsts], 4),
        text("cut", [k.cut or "–" for k in firsts], 4),
        text("nodes", [", ".join(k.nodes) or "–" for k in listed], 5),
    ]


def _model(kernel: KernelRecord) -> str:
    return kernel.priced_by if kernel.calibrated else f"{kernel.priced_by} (not calibrated)"
