"""One costed step as a section of a page: numbers, bars, figures and the table of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from reports.answer import (
    RESOURCE_NAMES,
    answer_sentence,
    experts_text,
    kind_text,
    layout_text,
    machine_text,
)
from reports.breakdown import GroupTotal, StepBreakdown, shown_groups
from reports.causes import cause_bars, whisker
from reports.certainty import certainty_sentence
from reports.glossary import KIND_ABOUTS, pool_about, pool_name
from reports.html_document import figure_html
from reports.machine_table import machine_section
from reports.palette import (
    FREE_COLOR,
    POOL_COLORS,
    RESOURCE_COLORS,
    WEIGHT_COLOR,
    WORKSPACE_COLOR,
)
from reports.quantity import (
    count_text,
    share_text,
)
from reports.report import Figure
from reports.report_page import cards_html, table_html
from reports.roofline_figure import roofline
from reports.step_report import operations_table, step_cards, step_figures
from simulator.basis.units import format_bytes, format_time_ps
from simulator.cost.result import MemoryUse, StepResult

SHOWN_GROUPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A coloured stretch of a bar, in the unit of the whole; `about` says what it is."""

    label: str
    amount: int
    color: str
    about: str = ""


def group_bars(groups: Sequence[GroupTotal], total_ps: int, abouts: Mapping[str, str]) -> str:
    """One bar a group, coloured by what binds its part of the step; the smallest ones together.

    What a group does, by its key in `abouts`, shows when its bar is pointed at.
    """
    shown = shown_groups(groups, SHOWN_GROUPS, least_share=0.01)
    rest = [group for group in groups if group not in shown]
    longest = max((group.critical_ps for group in shown), default=0)
    rows = [
        _bar_row(
            kind_text(group), [group], total_ps, longest, _hidden(group), abouts.get(group.key)
        )
        for group in shown
    ]
    if rest:
        longest_rest = max(longest, sum(group.critical_ps for group in rest))
        label = f"{count_text(len(rest), 'other')} together"
        rows.append(_bar_row(label, rest, total_ps, longest_rest, ""))
    return f'<div class="bars">{"".join(rows)}</div>'


def resource_legend(resources: Iterable[str]) -> str:
    """Colour and name of each resource."""
    items = "".join(
        f'<span class="key"><i style="background:{RESOURCE_COLORS[name]}"></i>'
        f"{escape(RESOURCE_NAMES[name])}</span>"
        for name in resources
    )
    return f'<p class="legend">{items}</p>'


def memory_bar(memory: MemoryUse) -> str:
    """What the rank's memory holds, as one bar with its legend; says by how much it overflows."""
    parts = [Part(label="weights", amount=memory.weight_bytes, color=WEIGHT_COLOR)]
    for index, (pool, size) in enumerate(memory.state_bytes_by_pool.items()):
        color = POOL_COLORS[index % len(POOL_COLORS)]
        about = pool_about(pool)
        parts.append(Part(label=f"state: {pool_name(pool)}", amount=size, color=color, about=about))
    parts.append(Part(label="workspace", amount=memory.workspace_bytes, color=WORKSPACE_COLOR))
    free = memory.capacity_bytes - memory.used_bytes
    if free >= 0:
        parts.append(Part(label="free", amount=free, color=FREE_COLOR))
    whole = max(memory.capacity_bytes, memory.used_bytes)
    rows = "".join(
        f'<tr><td><i style="background:{part.color}"></i>{escape(part.label)}'
        f"<small>{escape(part.about)}</small></td><td>{format_bytes(part.amount)}</td>"
        f"<td>{share_text(part.amount, memory.capacity_bytes)}</td></tr>"
        for part in parts
    )
    over = (
        f'<p class="alarm">Over capacity by {format_bytes(-free, exact=True)}.</p>'
        if free < 0
        else ""
    )
    return (
        f'<div class="track tall">{_stretches(parts, whole)}</div>{over}'
        f'<table class="parts"><tbody>{rows}</tbody>'
        f"<tfoot><tr><td>capacity</td><td>{format_bytes(memory.capacity_bytes)}</td>"
        "<td></td></tr></tfoot></table>"
    )


def _bar_row(
    label: str,
    groups: Sequence[GroupTotal],
    total_ps: int,
    longest_ps: int,
    remark: str,
    about: str | None = None,
) -> str:
    by_bound: dict[str, int] = {}
    for group in groups:
        for name, part_ps in group.critical_ps_by_bound.items():
            by_bound[name] = by_bound.get(name, 0) + part_ps
    parts = [
        Part(
            label=f"{RESOURCE_NAMES[name]}, {format_time_ps(part_ps)}",
            amount=part_ps,
            color=RESOURCE_COLORS[name],
            about=f"{label}: {about}" if about else label,
        )
        for name, part_ps in sorted(by_bound.items(), key=lambda item: -item[1])
    ]
    amount = sum(by_bound.values())
    title = f' title="{escape(about)}"' if about else ""
    return (
        f'<div class="bar"{title}><span class="name">{escape(label)}</span>'
        f'<span class="track">{_stretches(parts, longest_ps)}{_whisker(groups, longest_ps)}</span>'
        f'<span class="value"><span>{format_time_ps(amount)}</span> '
        f"<b>{share_text(amount, total_ps)}</b>{remark}</span></div>"
    )


def _whisker(groups: Sequence[GroupTotal], longest_ps: int) -> str:
    low_ps, high_ps = (sum(getattr(g, name) for g in groups) for name in ("low_ps", "high_ps"))
    return whisker(low_ps, high_ps, longest_ps)


def _hidden(group: GroupTotal) -> str:
    """Time of launches that others cover."""
    covered_ps = group.duration_ps - group.critical_ps
    return f" <small>+ {format_time_ps(covered_ps)} hidden</small>" if covered_ps > 0 else ""


def _stretches(parts: Sequence[Part], whole: int) -> str:
    return "".join(
        f'<i style="width:{100 * part.amount / whole:.4f}%;background:{part.color}" '
        f'title="{escape(_title(part))}"></i>'
        for part in parts
        if part.amount and whole
    )


def _title(part: Part) -> str:
    return "\n".join(text for text in (part.about, part.label) if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """HTML of one step, its sentence, and its figures."""

    id: str
    title: str
    sentence: str
    html: str
    figures: tuple[Figure, ...]


def step_section(section_id: str, title: str, result: StepResult) -> Section:
    """The section of one step under its title."""
    breakdown = StepBreakdown(result)
    sentence = answer_sentence(result, breakdown)
    operations = operations_table(f"{section_id}-operations-table", breakdown)
    figures = step_figures(f"{section_id}-", result, breakdown)
    parts = [
        f"<h2>{escape(title)}</h2>",
        cards_html(step_cards(result, breakdown)),
        _facts(result),
        _bars(result, breakdown),
        _causes(breakdown),
        _figures(figures, result, breakdown),
        f'<h3 id="{section_id}-operations">Operations</h3>{table_html(operations)}',
        machine_section(f"{section_id}-machine", result),
    ]
    html = f'<section class="step" id="{section_id}">{"".join(parts)}</section>'
    return Section(id=section_id, title=title, sentence=sentence, html=html, figures=tuple(figures))


def _facts(result: StepResult) -> str:
    question = result.question
    facts = {
        "model": question.model,
        "chips": machine_text(question),
        "phase": question.phase,
        "requests": f"{question.batch:,}",
        "context": f"{question.context:,} tokens",
        "new tokens": f"{question.new_tokens:,} a request",
        "engine": question.engine,
        "fidelity": question.fidelity,
        "experts": experts_text(result),
        "cache entries": question.kv_dtype,
        "index keys": question.index_dtype,
    }
    if not layout_text(question.layout):
        facts["layout"] = "one rank"
    items = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items()
    )
    return f'<dl class="facts">{items}</dl>'


def _bars(result: StepResult, breakdown: StepBreakdown) -> str:
    legend = resource_legend(breakdown.total.critical_ps_by_bound)
    operations = group_bars(breakdown.by_operation, result.total_ps, result.abouts)
    kinds = group_bars(breakdown.by_layer_kind, result.total_ps, KIND_ABOUTS)
    return (
        "<h3>Where the time goes, by operation</h3>"
        '<p class="note">Each instant counts for the launch that the end of the step waits for, '
        "coloured by what that launch waits for. The bars add up to the step; what is hidden runs "
        'beside something longer. Point at a bar for what it does, or see <a href="#names">what '
        "the names mean</a>.</p>"
        f"{legend}{operations}"
        f'<div class="columns"><div><h3>By kind of layer</h3>{kinds}</div>'
        f"<div><h3>Memory of one chip</h3>{memory_bar(result.memory)}</div></div>"
    )


def _causes(breakdown: StepBreakdown) -> str:
    return (
        "<h3>Where the time goes, by cause</h3>"
        '<p class="note">Each instant belongs to what the launch waits for; the parts add up to '
        "the step. Lines over the bars reach from the 10th to the 90th percentile of what silicon "
        f"is expected to take. {escape(certainty_sentence(breakdown.result))}</p>"
        f"{cause_bars(breakdown.total, breakdown.by_operation)}"
    )


def _figures(figures: Sequence[Figure], result: StepResult, breakdown: StepBreakdown) -> str:
    """Roofline, with what it has no place for, and bandwidth over time."""
    parts = [
        f'<h3>{escape(figure.title)}</h3><p class="note">{escape(figure.note)}</p>'
        f"{figure_html(figure)}"
        for figure in figures
    ]
    drawn = roofline(result, breakdown)
    if drawn is None:
        none = "No kernel has both matrix FLOP and DRAM bytes."
        return f'<h3>Roofline</h3><p class="note">{none}</p>{"".join(parts)}'
    items = "".join(f"<li>{escape(remark)}</li>" for remark in drawn.remarks)
    parts.insert(1, f'<ul class="note">{items}</ul>' if items else "")
    return "".join(parts)
