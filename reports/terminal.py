"""A costed step in the terminal: the answer, where the time goes, and what memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.answer import (
    answer_sentence,
    basis_sentence,
    kind_text,
    proof_sentence,
)
from reports.breakdown import GroupTotal, StepBreakdown, shown_groups
from reports.causes import causes_sentence
from reports.certainty import certainty_sentence, interval_text
from reports.glossary import TERMS, pool_name
from reports.machine_table import MEANING, machine_columns, machine_lines, without_machine
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import count_text, flops_text, rate_text, share_text, traffic_text
from reports.text_table import TextColumn, left_out, text_table, wrapped
from simulator.basis.units import format_bytes, format_time_ps
from simulator.cost.result import MemoryUse, ProofLine, StepResult

if TYPE_CHECKING:
    from rich.console import Console

# Heading, key of the cells, and rank: where columns do not fit, the highest ranks go first.
_COLUMNS = (
    ("launches", "launches", 3),
    ("time", "time", 0),
    ("p10 to p90", "interval", 5),
    ("share", "share", 0),
    ("bound", "bound", 0),
    ("DRAM", "dram", 1),
    ("rate", "dram_rate", 4),
    ("of peak", "dram_peak", 2),
    ("FLOP", "flop", 1),
    ("rate", "flop_rate", 4),
    ("of peak", "flop_peak", 2),
)
_STYLES = {
    "memory": "blue",
    "llc": "cyan",
    "matrix": "yellow",
    "vector": "green",
    "special": "magenta",
    "link": "red",
    "latency": "bright_yellow",
    "launch": "bright_black",
}
_HIDDEN = "hidden"
_Row = tuple[str, dict[str, str]]


def print_step(
    console: Console, result: StepResult, *, proof: ProofLine | None = None, top: int = 16
) -> None:
    """Print one step. Operations beyond the `top` largest share one row, which says how many."""
    breakdown = StepBreakdown(result)
    _say(console, answer_sentence(result, breakdown), "bold")
    _say(console, basis_sentence(result))
    _say(console, certainty_sentence(result))
    if proof is not None:
        _say(console, proof_sentence(proof), "green" if proof.holds else "bold red")
    operations = _rows(breakdown.by_operation, breakdown, top)
    kinds = _rows(breakdown.by_layer_kind, breakdown, len(breakdown.by_layer_kind))
    # Both tables leave out the same columns.
    label_width = max(len(label) for label, _ in (*operations, *kinds))
    for title, rows in [("operation", operations), ("kind of layer", kinds)]:
        console.print()
        columns = _columns(title, rows, label_width)
        console.print(text_table(columns, console.width, total=True))
    _print_machine(console, result)
    console.print()
    for line in _remarks(result, breakdown, [*operations, *kinds]):
        _say(console, line)
    _say(console, _more(result), "dim")


def _print_machine(console: Console, result: StepResult) -> None:
    """Print what the simulated machine saw, where there was one."""
    lines = machine_lines(result)
    if not lines:
        return
    console.print()
    if not any(line.view for line in lines):
        _say(console, without_machine(lines), "dim")
        return
    columns = machine_columns(lines)
    console.print(text_table(columns, console.width))
    notes = (left_out(columns, console.width), MEANING, without_machine(lines))
    for note in filter(None, notes):
        _say(console, note, "dim")


def memory_sentence(memory: MemoryUse) -> str:
    """What one rank's memory holds, and what is left or missing."""
    free = memory.capacity_bytes - memory.used_bytes
    left = f"{format_bytes(free)} free" if free >= 0 else f"OVER by {format_bytes(-free)}"
    pools = ", ".join(
        f"{pool_name(pool)} {format_bytes(size)}"
        for pool, size in memory.state_bytes_by_pool.items()
    )
    state = f"state {format_bytes(memory.state_bytes)}" + (f" ({pools})" if pools else "")
    return (
        f"Memory of one chip: weights {format_bytes(memory.weight_bytes)}, {state}, "
        f"workspace {format_bytes(memory.workspace_bytes)}; {left} of "
        f"{format_bytes(memory.capacity_bytes)}."
    )


def _say(console: Console, text: str, style: str | None = None) -> None:
    lines = wrapped(text, console.width)
    console.print(lines, style=style, highlight=False, markup=False, soft_wrap=True)


def _remarks(result: StepResult, breakdown: StepBreakdown, rows: Sequence[_Row]) -> list[str]:
    lines = [causes_sentence(breakdown.total), memory_sentence(result.memory)]
    if any(cells["share"] == _HIDDEN for _, cells in rows):
        lines.append(f"{_HIDDEN.capitalize()}: {TERMS[_HIDDEN]}.")
    return lines + [f"Note: {note}" for note in result.notes]


def _more(result: StepResult) -> str:
    """Where the rest is."""
    count = count_text(len(result.assumptions), "assumption")
    behind = f" {count} behind these numbers," if result.assumptions else ""
    return (
        f"More:{behind} what the names mean, every launch: in the page (--out) and JSON (--json)."
    )


def _rows(groups: Sequence[GroupTotal], breakdown: StepBreakdown, top: int) -> list[_Row]:
    """Rows of the largest groups, one of all others together, and one of the whole step."""
    result = breakdown.result
    shown = shown_groups(groups, top)
    rows = [(kind_text(group), _cells(group, result)) for group in shown]
    rest = [group for group in groups if group not in shown]
    if rest:
        rows.append((f"{len(rest):,} others together", _rest_cells(rest, result.total_ps)))
    total = _cells(breakdown.total, result, over_ps=result.total_ps)
    return [*rows, ("step", total)]


def _columns(title: str, rows: Sequence[_Row], label_width: int) -> list[TextColumn]:
    labels = [label for label, _ in rows]
    columns = [TextColumn(heading=title, cells=labels, left=True, least_width=label_width)]
    for heading, key, rank in _COLUMNS:
        cells = [cells[key] for _, cells in rows]
        if key == "bound":
            styles = [_STYLES.get(cell, "") for cell in cells]
            columns.append(TextColumn(heading=heading, cells=cells, left=True, styles=styles))
        else:
            columns.append(TextColumn(heading=heading, cells=cells, rank=rank))
    return columns


def _cells(group: GroupTotal, result: StepResult, *, over_ps: int | None = None) -> dict[str, str]:
    """Cells by key; rates count over the launches' own time unless another one is given."""
    over_ps = group.duration_ps if over_ps is None else over_ps
    return {
        "launches": f"{group.launches:,}" if group.launches else "–",
        "time": format_time_ps(group.critical_ps) if group.critical_ps else "–",
        "interval": interval_text(group.low_ps, group.high_ps) if group.critical_ps else "–",
        "share": share_text(group.critical_ps, result.total_ps) if group.critical_ps else _HIDDEN,
        "bound": group.bound,
        "dram": traffic_text(group.dram_bytes),
        "dram_rate": rate_text(group.dram_bytes, over_ps, "B/s"),
        "dram_peak": dram_share_text(group, result.peaks, over_ps),
        "flop": flops_text(group.total_flops),
        "flop_rate": rate_text(group.total_flops, over_ps, "FLOP/s"),
        "flop_peak": matrix_share_text(group, result.peaks, over_ps),
    }


def _rest_cells(groups: Sequence[GroupTotal], total_ps: int) -> dict[str, str]:
    rest_ps = sum(group.critical_ps for group in groups)
    return {
        **dict.fromkeys(("bound", "dram_rate", "dram_peak", "flop_rate", "flop_peak"), ""),
        "interval": interval_text(
            sum(group.low_ps for group in groups), sum(group.high_ps for group in groups)
        ),
        "launches": f"{sum(group.launches for group in groups):,}",
        "time": format_time_ps(rest_ps),
        "share": share_text(rest_ps, total_ps),
        "dram": traffic_text(sum(group.dram_bytes for group in groups)),
        "flop": flops_text(sum(group.total_flops for group in groups)),
    }
