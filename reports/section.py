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
    tokens_per_s,
)
from reports.bandwidth_figure import bandwidth
from reports.breakdown import GroupTotal, StepBreakdown, shown_groups
from reports.causes import cause_bars, whisker
from reports.certainty import certainty_sentence, interval_text
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
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import (
    count_text,
    flops_text,
    number_text,
    rate_text,
    share_text,
    traffic_text,
)
from reports.report import Figure
from reports.roofline_figure import roofline
from simulator.basis.units import format_bytes, format_rate, format_time_ps
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


_HEADINGS = {
    "": ("launches",),
    "time": ("of the step", "share", "of launches"),
    "bound by": ("",),
    "DRAM": ("moved", "rate", "of peak"),
    "matrix math": ("work", "rate", "of peak"),
    "link": ("sent",),
}


def operations_grid(breakdown: StepBreakdown) -> str:
    """Rows of all operations, and their total; what they do shows when pointed at."""
    result = breakdown.result
    rows = "".join(
        _row(group, group.key, result, about=result.abouts.get(group.key, ""))
        for group in breakdown.by_operation
    )
    total = _row(breakdown.total, "step", result, over_ps=result.total_ps)
    return (
        f'<p class="note">{_caption(result)}</p>'
        '<p class="hint">The table scrolls sideways →</p>'
        f'<div class="scroll" tabindex="0"><table class="grid"><thead>{_head()}</thead>'
        f"<tbody>{rows}</tbody><tfoot>{total}</tfoot></table></div>"
    )


def _caption(result: StepResult) -> str:
    count = result.question.count
    whose = f"one chip of {count:,}" if count > 1 else "the chip"
    return (
        f"DRAM, matrix math and link are of {whose}. Rates count over the time of the launches; "
        f"peaks are {format_rate(result.peaks.dram_bytes_per_s)} of DRAM, and of matrix math that "
        "of the number format used."
    )


def _head() -> str:
    """Two rows: what is counted, and how."""
    top = ['<th rowspan="2">operation</th>']
    below = []
    for group, headings in _HEADINGS.items():
        if headings == ("",):
            top.append(f'<th rowspan="2" class="bound">{group}</th>')
        elif not group:
            top += [f'<th rowspan="2">{heading}</th>' for heading in headings]
        else:
            top.append(f'<th colspan="{len(headings)}" class="over">{group}</th>')
            below += [f"<th>{heading}</th>" for heading in headings]
    return f'<tr>{"".join(top)}</tr><tr class="below">{"".join(below)}</tr>'


def _row(
    group: GroupTotal,
    label: str,
    result: StepResult,
    *,
    about: str = "",
    over_ps: int | None = None,
) -> str:
    """One row; rates count over the launches' own time unless another one is given."""
    over_ps = group.duration_ps if over_ps is None else over_ps
    cells = [
        f"{group.launches:,}" if group.launches else "–",
        format_time_ps(group.critical_ps) if group.critical_ps else "–",
        share_text(group.critical_ps, result.total_ps) if group.critical_ps else "hidden",
        format_time_ps(group.duration_ps) if group.launches else "–",
        traffic_text(group.dram_bytes),
        rate_text(group.dram_bytes, over_ps, "B/s"),
        dram_share_text(group, result.peaks, over_ps),
        flops_text(group.total_flops),
        rate_text(group.total_flops, over_ps, "FLOP/s"),
        matrix_share_text(group, result.peaks, over_ps),
        traffic_text(group.amounts["link_bytes"]),
    ]
    html = [f"<td>{cell}</td>" for cell in cells]
    html.insert(4, _bound(group))
    title = f' title="{escape(about)}"' if about else ""
    return f"<tr><th{title}>{escape(label)}</th>{''.join(html)}</tr>"


def _bound(group: GroupTotal) -> str:
    """The resource that binds most of the group's time, with its part where there are several."""
    parts = group.critical_ps_by_bound if group.critical_ps else group.duration_ps_by_bound
    share = share_text(parts.get(group.bound, 0), sum(parts.values()), digits=0)
    mixed = f" {share}" if len([part for part in parts.values() if part]) > 1 else ""
    color = RESOURCE_COLORS[group.bound]
    return f'<td class="bound"><i style="background:{color}"></i>{group.bound}{mixed}</td>'


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
    figures: list[Figure] = []
    parts = [
        f"<h2>{escape(title)}</h2>",
        _tiles(result, breakdown),
        _facts(result),
        _bars(result, breakdown),
        _causes(breakdown),
        _roofline(f"{section_id}-roofline", result, breakdown, figures),
        _bandwidth(f"{section_id}-bandwidth", result, figures),
        f'<h3 id="{section_id}-operations">Operations</h3>{operations_grid(breakdown)}',
        machine_section(f"{section_id}-machine", result),
    ]
    html = f'<section class="step" id="{section_id}">{"".join(parts)}</section>'
    return Section(id=section_id, title=title, sentence=sentence, html=html, figures=tuple(figures))


def _tiles(result: StepResult, breakdown: StepBreakdown) -> str:
    total, memory, peaks = breakdown.total, result.memory, result.peaks
    dram_peak_bytes = peaks.dram_bytes_per_s * result.seconds
    interval = interval_text(result.low_ps, result.high_ps)
    tiles = [(f"step, {interval}", format_time_ps(result.total_ps))]
    tiles.append(("all requests", f"{number_text(tokens_per_s(result))} tokens/s"))
    if result.question.batch > 1 and result.question.phase != "prefill":
        each = tokens_per_s(result) / result.question.batch
        tiles.append(("each request", f"{number_text(each)} tokens/s"))
    share = share_text(total.dram_bytes, dram_peak_bytes, digits=0)
    chip = " a chip" if result.question.count > 1 else ""
    rate = rate_text(total.dram_bytes, result.total_ps, "B/s")
    tiles.append((f"DRAM, {share} of peak", rate + chip))
    share = matrix_share_text(total, peaks, result.total_ps)
    rate = rate_text(total.total_flops, result.total_ps, "FLOP/s")
    tiles.append((f"matrix math, {share} of peak", rate + chip))
    share = share_text(memory.used_bytes, memory.capacity_bytes, digits=0)
    tiles.append((f"memory, {share} in use", format_bytes(memory.used_bytes) + chip))
    body = "".join(
        f'<div class="tile"><span>{label}</span><b>{number}</b> {unit}</div>'
        for label, (number, _, unit) in ((label, value.partition(" ")) for label, value in tiles)
    )
    return f'<div class="tiles">{body}</div>'


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


def _roofline(
    place: str, result: StepResult, breakdown: StepBreakdown, figures: list[Figure]
) -> str:
    drawn = roofline(result, breakdown)
    if drawn is None:
        return '<h3>Roofline</h3><p class="note">No kernel has both matrix FLOP and DRAM bytes.</p>'
    figure = Figure(id=place, title="Roofline", drawing=drawn.figure)
    figures.append(figure)
    items = "".join(f"<li>{escape(remark)}</li>" for remark in drawn.remarks)
    remarks = f'<ul class="note">{items}</ul>' if items else ""
    return (
        f'<h3>Roofline</h3><p class="note">{escape(drawn.caption)}</p>{figure_html(figure)}'
        f"{remarks}"
    )


def _bandwidth(place: str, result: StepResult, figures: list[Figure]) -> str:
    drawn = bandwidth(result)
    if drawn is None:
        return ""
    title = "DRAM bandwidth over time"
    figure = Figure(id=place, title=title, drawing=drawn.figure, views=drawn.views)
    figures.append(figure)
    return f'<h3>{title}</h3><p class="note">{escape(drawn.caption)}</p>{figure_html(figure)}'
