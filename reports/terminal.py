"""A costed step in the terminal: the answer, where the time goes, and what memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.answer import RESOURCE_NAMES, answer_sentence, kind_text, proof_sentence
from reports.breakdown import GroupTotal, StepBreakdown
from reports.quantity import count_text, flops_text, rate_text, share_text, traffic_text
from simulator.basis.units import format_bytes, format_time_ps
from simulator.cost.result import MemoryUse, ProofLine, StepResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_HEADINGS = ("launches", "time", "share", "bound", "DRAM", "DRAM rate", "FLOP", "FLOP rate")
_STYLES = {
    "memory": "blue",
    "matrix": "yellow",
    "vector": "green",
    "special": "magenta",
    "link": "red",
    "launch": "bright_black",
}


def print_step(
    console: Console, result: StepResult, *, proof: ProofLine | None = None, top: int = 16
) -> None:
    """Print one step. Operations beyond the `top` largest share one row, which says how many."""
    breakdown = StepBreakdown(result)
    console.print(answer_sentence(result, breakdown), style="bold", highlight=False, markup=False)
    if proof is not None:
        style = "green" if proof.holds else "bold red"
        console.print(proof_sentence(proof), style=style, highlight=False, markup=False)
    kinds = breakdown.by_layer_kind
    for title, groups, shown in [
        ("operation", breakdown.by_operation, top),
        ("kind of layer", kinds, len(kinds)),
    ]:
        console.print()
        console.print(_groups(title, groups, breakdown, shown, console.width))
    console.print()
    for line in [_bounds(breakdown), memory_sentence(result.memory)]:
        console.print(line, highlight=False, markup=False)
    for note in result.notes:
        console.print(f"Note: {note}", highlight=False, markup=False)
    if result.assumptions:
        count = count_text(len(result.assumptions), "assumption")
        console.print(f"{count} behind these numbers: page and JSON list them.", style="dim")


def memory_sentence(memory: MemoryUse) -> str:
    """What one rank's memory holds, and what is left or missing."""
    free = memory.capacity_bytes - memory.used_bytes
    left = f"{format_bytes(free)} free" if free >= 0 else f"OVER by {format_bytes(-free)}"
    pools = ", ".join(
        f"{pool} {format_bytes(size)}" for pool, size in memory.state_bytes_by_pool.items()
    )
    state = f"state {format_bytes(memory.state_bytes)}" + (f" ({pools})" if pools else "")
    return (
        f"Memory of one rank: weights {format_bytes(memory.weight_bytes)}, {state}, "
        f"workspace {format_bytes(memory.workspace_bytes)}; {left} of "
        f"{format_bytes(memory.capacity_bytes)}."
    )


def _bounds(breakdown: StepBreakdown) -> str:
    total_ps = breakdown.result.total_ps
    parts = sorted(breakdown.total.critical_ps_by_bound.items(), key=lambda item: -item[1])
    texts = [f"{RESOURCE_NAMES[name]} {share_text(part_ps, total_ps)}" for name, part_ps in parts]
    return f"Bound by: {', '.join(texts)}."


def _groups(
    title: str, groups: Sequence[GroupTotal], breakdown: StepBreakdown, top: int, width: int
) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    # A narrow terminal shows fewer columns rather than cut numbers.
    left_out = {"launches"} if width < 92 else set()
    left_out |= {"DRAM rate", "FLOP rate"} if width < 118 else set()
    left_out |= {"DRAM", "FLOP"} if width < 72 else set()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(title, overflow="fold")
    headings = [heading for heading in _HEADINGS if heading not in left_out]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "bound" else "right", no_wrap=True)
    total_ps = breakdown.result.total_ps
    rows = [(kind_text(group), _cells(group, total_ps)) for group in groups]
    if len(rows) > top + 1:
        rest = groups[top:]
        rows[top:] = [(f"{len(rest):,} others together", _rest_cells(rest, total_ps))]
    for label, cells in rows:
        table.add_row(escape(label), *(cells[heading] for heading in headings))
    table.add_section()
    total = _cells(breakdown.total, total_ps, rates_over_ps=total_ps)
    table.add_row("step", *(total[heading] for heading in headings), style="bold")
    return table


def _cells(group: GroupTotal, total_ps: int, *, rates_over_ps: int | None = None) -> dict[str, str]:
    over_ps = group.duration_ps if rates_over_ps is None else rates_over_ps
    style = _STYLES[group.bound]
    return {
        "launches": f"{group.launches:,}" if group.launches else "–",
        "time": format_time_ps(group.critical_ps) if group.critical_ps else "–",
        "share": share_text(group.critical_ps, total_ps) if group.critical_ps else "hidden",
        "bound": f"[{style}]{group.bound}[/]",
        "DRAM": traffic_text(group.dram_bytes),
        "DRAM rate": rate_text(group.dram_bytes, over_ps, "B/s"),
        "FLOP": flops_text(group.total_flops),
        "FLOP rate": rate_text(group.total_flops, over_ps, "FLOP/s"),
    }


def _rest_cells(groups: Sequence[GroupTotal], total_ps: int) -> dict[str, str]:
    rest_ps = sum(group.critical_ps for group in groups)
    return {
        "launches": f"{sum(group.launches for group in groups):,}",
        "time": format_time_ps(rest_ps),
        "share": share_text(rest_ps, total_ps),
        "bound": "",
        "DRAM": traffic_text(sum(group.dram_bytes for group in groups)),
        "DRAM rate": "",
        "FLOP": flops_text(sum(group.total_flops for group in groups)),
        "FLOP rate": "",
    }
