"""A costed step as a report: cards, figures, and its operations as a table of exact values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reports.answer import (
    CAUSE_NAMES,
    answer_sentence,
    basis_sentence,
    kind_text,
    machine_text,
    tokens_per_s,
)
from reports.bandwidth_figure import bandwidth
from reports.breakdown import GroupTotal, StepBreakdown
from reports.certainty import certainty_sentence, interval_text
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import flops_text, number_text, share_text, traffic_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Section
from reports.roofline_figure import roofline
from reports.step_json import step_to_json
from simulator.basis.units import format_bytes, format_rate, format_time_ps
from simulator.cost.result import StepResult

_SHOWN = 16


def step_report(result: StepResult) -> Report:
    """The report of one step; `reports/page.py` draws one or several with bars as well."""
    breakdown = StepBreakdown(result)
    question = result.question
    return Report(
        kind="step",
        title=f"{question.model} on {machine_text(question)}: {question.phase}",
        kicker=f"{question.fidelity} model · engine {question.engine}",
        answer=answer_sentence(result, breakdown),
        basis=(basis_sentence(result), certainty_sentence(result)),
        cards=step_cards(result, breakdown),
        data=step_to_json(result, breakdown),
        sections=(
            Section(
                id="operations",
                title="Operations",
                parts=(operations_table("operations-table", breakdown),),
            ),
            Section(
                id="kinds",
                title="Kinds of layer",
                parts=(kinds_table("kinds-table", breakdown),),
            ),
            Section(
                id="drawings",
                title="Figures",
                parts=tuple(step_figures("", result, breakdown)),
            ),
        ),
        notes=result.notes,
        assumptions=result.assumptions,
        units="1 GB = 10⁹ bytes (traffic), 1 GiB = 2³⁰ bytes (memory held). A multiply-add is two "
        "FLOP. Times, bytes and FLOP are those of one chip (rank), the busiest.",
    )


def step_cards(result: StepResult, breakdown: StepBreakdown) -> tuple[Card, ...]:
    """Time, rates, shares of the chip's peaks, and memory."""
    total, memory, peaks = breakdown.total, result.memory, result.peaks
    chip = " a chip" if result.question.count > 1 else ""
    interval = interval_text(result.low_ps, result.high_ps)
    rate = number_text(tokens_per_s(result))
    cards = [
        Card(label=f"step, {interval}", value=format_time_ps(result.total_ps)),
        Card(label="all requests", value=f"{rate} tokens/s"),
    ]
    if result.question.batch > 1 and result.question.phase != "prefill":
        each = number_text(tokens_per_s(result) / result.question.batch)
        cards.append(Card(label="each request", value=f"{each} tokens/s"))
    seconds = result.seconds or 1.0
    dram = share_text(total.dram_bytes, peaks.dram_bytes_per_s * result.seconds, digits=0)
    dram_rate = format_rate(total.dram_bytes / seconds, "B/s") if total.dram_bytes else "–"
    cards.append(Card(label=f"DRAM, {dram} of peak", value=dram_rate + chip))
    matrix = matrix_share_text(total, peaks, result.total_ps)
    flops = format_rate(total.total_flops / seconds, "FLOP/s") if total.total_flops else "–"
    cards.append(Card(label=f"matrix math, {matrix} of peak", value=flops + chip))
    used = share_text(memory.used_bytes, memory.capacity_bytes, digits=0)
    held = format_bytes(memory.used_bytes)
    cards.append(Card(label=f"memory, {used} in use", value=held + chip))
    return tuple(cards)


def step_figures(prefix: str, result: StepResult, breakdown: StepBreakdown) -> list[Figure]:
    """Roofline and bandwidth over time, where the step has them."""
    figures = []
    drawn = roofline(result, breakdown)
    if drawn is not None:
        note = drawn.caption
        figures.append(
            Figure(id=f"{prefix}roofline", title="Roofline", drawing=drawn.figure, note=note)
        )
    moved = bandwidth(result)
    if moved is not None:
        figures.append(
            Figure(
                id=f"{prefix}bandwidth",
                title="DRAM bandwidth over time",
                drawing=moved.figure,
                note=moved.caption,
                views=moved.views,
            )
        )
    return figures


def operations_table(name: str, breakdown: StepBreakdown) -> ReportTable:
    """All operations, the largest part of the step first, and the step below."""
    result = breakdown.result
    count = result.question.count
    whose = f"one chip of {count:,}" if count > 1 else "the chip"
    note = (
        f"DRAM, matrix math and link are of {whose}. Rates count over the time of the launches; "
        f"peaks are {format_rate(result.peaks.dram_bytes_per_s)} of DRAM, and of matrix math that "
        "of the number format used."
    )
    labels = [group.key for group in breakdown.by_operation]
    table = _groups(name, "operation", labels, breakdown.by_operation, breakdown, note)
    abouts = [result.abouts.get(label, "") for label in labels]
    first, *others = table.fields
    return replace(table, fields=(replace(first, abouts=abouts), *others))


def kinds_table(name: str, breakdown: StepBreakdown) -> ReportTable:
    """All kinds of layer, and the step below."""
    labels = [kind_text(group) for group in breakdown.by_layer_kind]
    return _groups(name, "kind of layer", labels, breakdown.by_layer_kind, breakdown, "")


def _groups(
    name: str,
    what: str,
    labels: Sequence[str],
    groups: Sequence[GroupTotal],
    breakdown: StepBreakdown,
    note: str,
) -> ReportTable:
    result = breakdown.result
    rows = [*groups, breakdown.total]
    # Rates count over the launches' own time; of the step over the step's.
    over_ps = [*(group.duration_ps for group in groups), result.total_ps]

    def rate(amounts: Sequence[int]) -> list[Cell]:
        pairs = zip(amounts, over_ps, strict=True)
        return [amount * 1e12 / ps if ps and amount else None for amount, ps in pairs]

    def share_of(text: Callable[..., str]) -> list[Cell]:
        pairs = zip(rows, over_ps, strict=True)
        return [text(group, result.peaks, ps) for group, ps in pairs]

    def waits(group: GroupTotal) -> str:
        causes = group.critical_ps_by_cause
        return CAUSE_NAMES[max(causes, key=lambda cause: causes[cause])] if causes else "–"

    dram = [group.dram_bytes for group in rows]
    flops = [group.total_flops for group in rows]
    link = [group.amounts["link_bytes"] for group in rows]
    total_ps = result.total_ps

    def shown_share(part_ps: int) -> str:
        return share_text(part_ps, total_ps) if part_ps else "hidden"

    columns: list[tuple[str, str, Sequence[Cell], Any, int, bool | None]] = [
        (what.replace(" ", "_"), what, [*labels, "step"], None, 0, None),
        ("launches", "launches", [group.launches for group in rows], None, 3, None),
        ("critical_ps", "time of\nthe step", [g.critical_ps for g in rows], _time, 0, None),
        ("critical_share", "share", [g.critical_ps for g in rows], shown_share, 0, None),
        ("duration_ps", "of\nlaunches", [g.duration_ps for g in rows], _time, 4, None),
        ("bound", "bound by", [group.bound for group in rows], None, 1, None),
        ("waits_for", "waits most for", [waits(group) for group in rows], None, 4, None),
        ("dram_bytes", "DRAM\nmoved", dram, traffic_text, 1, None),
        ("dram_bytes_per_s", "DRAM\nrate", rate(dram), _rate("B/s"), 4, None),
        ("dram_peak_share", "of\npeak", share_of(dram_share_text), None, 2, False),
        ("flops", "matrix\nwork", flops, flops_text, 1, None),
        ("flops_per_s", "matrix\nrate", rate(flops), _rate("FLOP/s"), 4, None),
        ("matrix_peak_share", "of\npeak", share_of(matrix_share_text), None, 2, False),
        ("link_bytes", "sent over\nlinks", link, traffic_text, 4, None),
    ]
    return ReportTable(
        id=name,
        title="",
        fields=tuple(
            Field(name=key, heading=heading, values=values, show=show, rank=rank, is_text=text)
            for key, heading, values, show, rank, text in columns
        ),
        note=note,
        total=True,
        shown=_SHOWN,
    )


def _time(time_ps: int) -> str:
    return format_time_ps(time_ps) if time_ps else "–"


def _rate(base: str) -> Callable[[float], str]:
    return lambda value: format_rate(value, base)
