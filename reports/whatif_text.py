"""Edits of a chip in words, tables and JSON: kernels before and after, and fields one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.answer import layout_text, requests_text
from reports.quantity import share_text
from reports.step_json import question_json
from reports.text_table import TextColumn, left_out, text_table, wrapped
from simulator.basis.units import format_time_ps
from simulator.engine.default_engine import engine_text
from simulator.kernels.standing import standing_warning
from simulator.whatif.change import KernelChange, StepChange
from simulator.whatif.fields import FieldChange

if TYPE_CHECKING:
    from rich.console import Console

    from simulator.cost.result import StepQuestion, StepResult

SCHEMA = "v4sim.whatif/1"
SHOWN_KERNELS = 16
_MICRO = 1e-6  # microseconds of a picosecond
_DASH = "–"


def change_sentence(change: StepChange) -> str:
    """Question and answer; the edits are in the name of the chip."""
    before, after = change.before, change.after
    text = (
        f"{_step_text(before.question)} takes {format_time_ps(before.total_ps)} on "
        f"{before.question.chip} and {format_time_ps(after.total_ps)} on {after.question.chip}: "
        f"{_signed_text(change.change_ps)} ({_percent(change.change_ps, before.total_ps)})"
    )
    moved = change.kernels[0] if change.kernels else None
    if moved is None or not moved.change_ps:
        return f"{text}; no kernel moves."
    return f"{text}; {moved.name} moves most, by {_signed_text(moved.change_ps)}."


def fields_sentence(base: StepResult, fields: Sequence[FieldChange]) -> str:
    """Which number of the chip moves the step most."""
    text = (
        f"{_step_text(base.question)} takes {format_time_ps(base.total_ps)} on "
        f"{base.question.chip}, numbers of which are halved and doubled one at a time"
    )
    ranked = ranked_fields(fields)
    if not ranked or not ranked[0].change_ps:
        return f"{text}: none moves it."
    first = ranked[0]
    return (
        f"{text}: {first.edit} ({first.before} before) moves it most, by "
        f"{_signed_text(first.change_ps)} ({_percent(first.change_ps, base.total_ps)})."
    )


def ranked_fields(fields: Sequence[FieldChange]) -> list[FieldChange]:
    """Changes that could be costed, the largest first."""
    costed = [change for change in fields if not change.fault]
    return sorted(costed, key=lambda c: -abs(c.change_ps))


def print_change(console: Console, change: StepChange) -> None:
    """Print the answer and a table by kernel; those that move least share one row."""
    _say(console, change_sentence(change), "bold")
    console.print()
    console.print(text_table(_kernel_columns(change), console.width, total=True))
    notes = (*_warnings(change), *change.after.notes, *change.after.priced_as)
    for note in dict.fromkeys(notes):
        _say(console, f"Note: {note}", "dim")


def _warnings(change: StepChange) -> tuple[str, ...]:
    """What to say where the two steps do not rest on the same."""
    sides = {side.question.chip: side.standing for side in (change.before, change.after)}
    warning = standing_warning(sides)
    return (f"{warning}.",) if warning else ()


def print_fields(console: Console, base: StepResult, fields: Sequence[FieldChange]) -> None:
    """Print a line a changed number, the largest change first; then what could not be costed."""
    _say(console, fields_sentence(base, fields), "bold")
    ranked = ranked_fields(fields)
    moved = [change for change in ranked if change.change_ps]
    if moved:
        columns = _field_columns(base, moved)
        console.print()
        console.print(text_table(columns, console.width))
        note = left_out(columns, console.width)
        if note:
            _say(console, note, "dim")
    still = _without_effect(ranked)
    if still:
        _say(console, f"Without effect on this step: {', '.join(still)}.")
    for change in fields:
        if change.fault:
            edit = change.edit or f"{change.field} {change.direction}, {change.before} now"
            _say(console, f"Not costed: {edit}: {change.fault}")


def _without_effect(ranked: Sequence[FieldChange]) -> list[str]:
    """Numbers that move nothing, halved or doubled; of others the one value that does not."""
    still = [change for change in ranked if not change.change_ps]
    times = Counter(change.field for change in still)
    return list(dict.fromkeys(c.field if times[c.field] > 1 else c.edit for c in still))


def whatif_json(
    change: StepChange | None, base: StepResult, fields: Sequence[FieldChange]
) -> dict[str, Any]:
    """Both tables as plain JSON values; `step` is None without edits."""
    answers = [change_sentence(change)] if change else []
    answers += [fields_sentence(base, fields)] if fields else []
    return {
        "schema": SCHEMA,
        "answer": " ".join(answers),
        "question": question_json(change.before.question if change else base.question),
        "step": None if change is None else _change_json(change),
        "warnings": list(_warnings(change)) if change else [],
        "fields_of_chip": base.question.chip,
        "fields_base_ps": base.total_ps,
        "fields": [_field_json(own, base) for own in (*ranked_fields(fields), *_faulty(fields))],
    }


def _faulty(fields: Sequence[FieldChange]) -> list[FieldChange]:
    return [change for change in fields if change.fault]


def _change_json(change: StepChange) -> dict[str, Any]:
    before, after = change.before, change.after
    return {
        "chip_before": before.question.chip,
        "chip_after": after.question.chip,
        "before_ps": before.total_ps,
        "after_ps": after.total_ps,
        "change_ps": change.change_ps,
        "change_share": _share(change.change_ps, before.total_ps),
        "before_p10_to_p90_ps": [before.low_ps, before.high_ps],
        "after_p10_to_p90_ps": [after.low_ps, after.high_ps],
        "kernels": [
            {
                **asdict(kernel),
                "change_ps": kernel.change_ps,
                "change_share": _share(kernel.change_ps, kernel.before_ps),
            }
            for kernel in change.kernels
        ],
    }


def _field_json(change: FieldChange, base: StepResult) -> dict[str, Any]:
    data = asdict(change)
    if change.fault:
        data |= dict.fromkeys(("total_ps", "change_ps", "kernel_change_ps"))
    share = None if change.fault else _share(change.change_ps, base.total_ps)
    return {**data, "change_share": share}


def _step_text(question: StepQuestion) -> str:
    layout = layout_text(question.layout)
    count = f"{question.count:,} chips" if question.count > 1 else "one chip"
    return (
        f"One {question.phase} step of {question.model} for {requests_text(question)} on {count}"
        f"{f' ({layout})' if layout else ''} with {engine_text(question.engine)} at fidelity "
        f"{question.fidelity}"
    )


def _kernel_columns(change: StepChange) -> list[TextColumn]:
    shown = list(change.kernels)
    if len(shown) > SHOWN_KERNELS + 1:
        rest = shown[SHOWN_KERNELS:]
        others = KernelChange(
            name=f"{len(rest):,} others together",
            before_ps=sum(kernel.before_ps for kernel in rest),
            after_ps=sum(kernel.after_ps for kernel in rest),
        )
        shown = [*shown[:SHOWN_KERNELS], others]
    total = KernelChange(
        name="step", before_ps=change.before.total_ps, after_ps=change.after.total_ps
    )
    rows = [*shown, total]

    def column(heading: str, cells: list[str], rank: int = 0) -> TextColumn:
        return TextColumn(heading=heading, cells=cells, rank=rank)

    return [
        TextColumn(heading="kernel", cells=[row.name for row in rows], left=True),
        column("before", [_time(row.before_ps) for row in rows]),
        column("after", [_time(row.after_ps) for row in rows]),
        column("change us", [_microseconds(row.change_ps) for row in rows]),
        column("change", [_percent(row.change_ps, row.before_ps) for row in rows]),
        column("of step", [share_text(row.before_ps, total.before_ps) for row in rows], 1),
    ]


def _field_columns(base: StepResult, rows: Sequence[FieldChange]) -> list[TextColumn]:
    def column(heading: str, cells: list[str], rank: int = 0, left: bool = False) -> TextColumn:
        return TextColumn(heading=heading, cells=cells, rank=rank, left=left)

    return [
        column("changed to", [row.edit for row in rows], left=True),
        column("from", [row.before for row in rows], 2),
        column("step", [_time(row.total_ps) for row in rows], 1),
        column("change us", [_microseconds(row.change_ps) for row in rows]),
        column("change", [_percent(row.change_ps, base.total_ps) for row in rows]),
        column("moves most", [row.kernel for row in rows], 1, left=True),
        column("by us", [_microseconds(row.kernel_change_ps) for row in rows], 3),
    ]


def _time(time_ps: int) -> str:
    return format_time_ps(time_ps) if time_ps else _DASH


def _microseconds(change_ps: int) -> str:
    if abs(change_ps) * _MICRO < 0.005:
        return "<0.01" if change_ps else "0"
    return f"{change_ps * _MICRO:+,.2f}"


def _signed_text(change_ps: int) -> str:
    sign = "-" if change_ps < 0 else "+"
    return f"{sign}{format_time_ps(abs(change_ps))}" if change_ps else "no change"


def _percent(change_ps: int, before_ps: int) -> str:
    if not before_ps or not change_ps:
        return _DASH if change_ps else "0 %"
    percent = 100 * change_ps / before_ps
    return f"{percent:+.1f} %" if abs(percent) >= 0.05 else "<0.1 %"


def _share(change_ps: int, before_ps: int) -> float | None:
    return change_ps / before_ps if before_ps else None


def _say(console: Console, text: str, style: str | None = None) -> None:
    lines = wrapped(text, console.width)
    console.print(lines, style=style, highlight=False, markup=False, soft_wrap=True)
