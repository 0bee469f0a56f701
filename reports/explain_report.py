"""Why a step takes what it takes, as a report: its largest causes and what would move it most."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reports.answer import CAUSE_NAMES, answer_sentence, basis_sentence
from reports.certainty import certainty_sentence
from reports.compare_report import percent_text, signed_text
from reports.figure_style import axis, layout
from reports.palette import CAUSE_COLORS
from reports.quantity import share_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Section
from reports.step_json import question_json
from simulator.basis.units import format_time_ps
from simulator.whatif.explain import CHIP, ENGINE, SAID, Explanation, Lever

SCHEMA = "v4sim.explain/1"
_FORMATS = {"index": "index keys", "kv": "cache rows", "expert": "experts"}
_OWN = {CHIP: "chip", ENGINE: "engine's kernels"}


def explain_report(found: Explanation) -> Report:
    """The report of one explanation."""
    base = found.base
    cards = [Card(label="step", value=format_time_ps(base.total_ps))]
    for cause in found.causes:
        share = share_text(cause.time_ps, base.total_ps, digits=0)
        cards.append(Card(label=f"{share} {CAUSE_NAMES[cause.name]}",
                          value=format_time_ps(cause.time_ps)))  # fmt: skip
    sections = [Section(id="causes", title="What the step waits for most", parts=(_causes(found),))]
    if found.levers:
        sections.append(
            Section(
                id="levers",
                title="What would move it most",
                parts=(_figure(found), _levers(found)),
            )
        )
    if found.fields:
        title = "With other decisions of the engine"
        sections.append(Section(id="fields", title=title, parts=(_fields(found),)))
    if found.formats:
        sections.append(Section(id="formats", title="With other formats", parts=(_formats(found),)))
    return Report(
        kind="explain",
        title=f"why {base.question.model} takes {format_time_ps(base.total_ps)}",
        kicker="explanation of a step",
        answer=explain_sentence(found),
        basis=(answer_sentence(base), basis_sentence(base), certainty_sentence(base)),
        cards=tuple(cards),
        sections=tuple(sections),
        data=explain_json(found),
        main_table="levers-table" if found.levers else "",
        notes=(*_notes(found), *base.notes),
        assumptions=(*base.assumptions, "One number changes, all others stay as they are."),
        units="Each instant belongs to what the launch that the end of the step waits for waits "
        "for. Numbers of the chip are those of its file, those of the engine are the fitted "
        "constants of the kernel families that price it.",
    )


def explain_sentence(found: Explanation) -> str:
    """The largest causes, and the strongest number of the chip and of the engine."""
    total_ps = found.base.total_ps
    first, *others = (
        f"{share_text(cause.time_ps, total_ps, digits=0)} {CAUSE_NAMES[cause.name]}"
        for cause in found.causes
    )
    causes = f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first
    text = f"Of {format_time_ps(total_ps)}, {causes}"
    said = []
    for of in (CHIP, ENGINE):
        lever = next((own for own in found.levers if own.number.of == of), None)
        if lever is not None:
            change = percent_text(lever.said_ps, total_ps)
            said.append(f"5 % more {lever.number.name} ({_OWN[of]}) {change}")
    if not said:
        return f"{text}; no number of the chip or the engine moves it."
    return f"{text}; what moves it most: {', '.join(said)}."


def _notes(found: Explanation) -> tuple[str, ...]:
    notes = []
    bent = [lever.number.name for lever in found.levers if lever.is_linear is False]
    if bent:
        notes.append(
            f"the step does not follow a straight line in {', '.join(bent)}: what the launches do "
            "comes in whole waves, so that a change of 2 % does not foretell one of 5 %"
        )
    if found.coarse:
        notes.append(
            f"numbers that step by too much for a small change: {', '.join(found.coarse)}; v4sim "
            "whatif --fields halves and doubles them"
        )
    if found.still:
        notes.append(f"without effect on this step: {', '.join(found.still)}")
    return (*notes, *dict.fromkeys(note for own in found.formats for note in own.notes))


def _causes(found: Explanation) -> ReportTable:
    total_ps = found.base.total_ps
    times: list[Cell] = [cause.time_ps for cause in found.causes]
    shares: list[Cell] = [cause.time_ps / total_ps for cause in found.causes]
    where = [
        ", ".join(
            f"{name} {share_text(time_ps, cause.time_ps, digits=0)}"
            for name, time_ps in cause.operations[:2]
        )
        for cause in found.causes
    ]
    return ReportTable(
        id="causes-table",
        title="",
        fields=(
            Field(name="cause", heading="waits for",
                  values=[CAUSE_NAMES[cause.name] for cause in found.causes]),
            Field(name="time_ps", heading="time", values=times, show=format_time_ps),
            Field(name="share", heading="of step", values=shares, show=lambda s: f"{s:.1%}"),
            Field(name="operations", heading="most in", values=where),
        ),
    )  # fmt: skip


def _levers(found: Explanation) -> ReportTable:
    levers, total_ps = found.levers, found.base.total_ps
    moved = [lever.moved_cause for lever in levers]
    columns: list[tuple[str, str, list[Cell], Any, int]] = [
        ("number", "5 % more of", [own.number.name for own in levers], None, 0),
        ("of", "of", [_OWN[own.number.of] for own in levers], None, 2),
        ("value", "now", [_value(own) for own in levers], None, 1),
        ("costed_ps", "change", [own.said_ps for own in levers], signed_text, 0),
        ("costed_share", "in %", [own.said_ps / total_ps for own in levers], _percent, 0),
        ("predicted_ps", "by a small\nchange", [_predicted(own) for own in levers], signed_text, 1),
        ("straight", "straight\nline", [own.is_linear for own in levers], None, 2),
        ("cause", "moves most", [CAUSE_NAMES.get(cause, cause) for cause in moved], None, 1),
        ("meaning", "what it is", [own.number.meaning or "–" for own in levers], None, 3),
    ]
    return ReportTable(
        id="levers-table",
        title="",
        note="Each number was raised by about 2 %, all else equal; the change for 5 % follows from "
        "that, and the step was costed at 5 % as well.",
        fields=tuple(
            Field(name=name, heading=heading, values=values, show=show, rank=rank)
            for name, heading, values, show, rank in columns
        ),
    )


def _predicted(lever: Lever) -> int:
    return lever.predicted_ps(SAID if lever.rerun_ratio is None else lever.rerun_ratio)


def _value(lever: Lever) -> str:
    number = lever.number
    unit = "" if number.unit == "1" else f" {number.unit}"
    return f"{number.value:,.6g}{unit}"


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _fields(found: Explanation) -> ReportTable:
    changes: list[Cell] = [own.change_ps for own in found.fields]
    shares: list[Cell] = [own.change_ps / found.base.total_ps for own in found.fields]
    return ReportTable(
        id="fields-table",
        title="",
        note="Tiles, thresholds and pages of the engine's profile, one at a time halved and "
        "doubled; those that move the step most.",
        fields=(
            Field(name="field", heading="field", values=[own.field for own in found.fields]),
            Field(name="before", heading="now", values=[own.before for own in found.fields]),
            Field(name="after", heading="as", values=[own.after for own in found.fields]),
            Field(name="change_ps", heading="change", values=changes, show=signed_text),
            Field(name="change_share", heading="in %", values=shares, show=_percent),
        ),
    )


def _formats(found: Explanation) -> ReportTable:
    formats = found.formats
    changes: list[Cell] = [own.change_ps for own in formats]
    shares: list[Cell] = [own.change_ps / found.base.total_ps for own in formats]
    return ReportTable(
        id="formats-table",
        title="",
        fields=(
            Field(name="what", heading="stored", values=[_FORMATS[own.what] for own in formats]),
            Field(name="before", heading="now", values=[own.before for own in formats]),
            Field(name="after", heading="as", values=[own.after for own in formats]),
            Field(name="change_ps", heading="change", values=changes, show=signed_text),
            Field(name="change_share", heading="in %", values=shares, show=_percent),
        ),
    )


def _figure(found: Explanation) -> Figure:
    """A bar a lever, in the colour of the cause that it moves most."""
    levers = list(reversed(found.levers))
    data: list[dict[str, Any]] = []
    for cause, color in CAUSE_COLORS.items():
        own = [lever for lever in levers if lever.moved_cause == cause]
        if own:
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": f"moves {CAUSE_NAMES[cause]} most",
                    "y": [lever.number.name for lever in own],
                    "x": [lever.said_ps * 1e-12 for lever in own],
                    "marker": {"color": color},
                    "text": [f"{own.number.name}: {signed_text(own.said_ps)}" for own in own],
                    "textposition": "none",
                    "hovertemplate": "%{text}",
                }
            )
    order = {"categories": [lever.number.name for lever in levers]}
    shape = layout(
        height=90 + 26 * len(levers),
        x=axis("change of the step for 5 % more", ticksuffix="s"),
        y=axis("number", **order),
    )
    return Figure(
        id="levers-figure",
        title="Change of the step for 5 % more",
        drawing={"data": data, "layout": {**shape, "barmode": "stack", "showlegend": True}},
    )


def explain_json(found: Explanation) -> dict[str, Any]:
    """Everything as plain values, times in whole picoseconds."""
    base = found.base
    return {
        "schema": SCHEMA,
        "answer": explain_sentence(found),
        "question": question_json(base.question),
        "total_ps": base.total_ps,
        "causes": [
            {**asdict(cause), "share": cause.time_ps / base.total_ps} for cause in found.causes
        ],
        "levers": [
            {
                **asdict(lever),
                "predicted_5_percent_ps": lever.predicted_ps(),
                "predicted_at_rerun_ps": _predicted(lever),
                "straight_line": lever.is_linear,
            }
            for lever in found.levers
        ],
        "formats": [asdict(own) for own in found.formats],
        "fields": [asdict(own) for own in found.fields],
        "too_coarse": list(found.coarse),
        "without_effect": list(found.still),
        "notes": list(_notes(found)),
    }
