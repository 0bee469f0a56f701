"""What fleets carry within the targets, as a report: the load, what binds, the next chip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reports.figure_style import axis, layout
from reports.plan_figures import COLORS
from reports.plan_report import UNITS, outcome_json, outcome_table, plan_assumptions
from reports.quantity import count_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Said, Section
from simulator.basis.assumptions import assumptions_of
from simulator.kernels.constants_file import chips_warning
from simulator.plan.fleet import FleetAnswer, FleetQuestion, FleetSearch, Loaded, offered_per_s
from simulator.plan.verdict import target_text, why_sentence
from workloads.traffic.trace import Trace


def fleet_report(
    question: FleetQuestion,
    trace: Trace,
    answers: Sequence[FleetAnswer],
    more: Sequence[Sequence[FleetAnswer]],
    budget: str | None = None,
) -> Report:
    """`answers` in the order in which they were asked for; `more`: what larger ones carry."""
    best = best_of(answers)
    warning = chips_warning([answer.chip for answer in answers])
    sections = [_fleets(trace, answers), *_next_section(trace, answers, more)]
    met = [answer.met.outcome for answer in answers if answer.met]
    if met:
        table = outcome_table("fleet-plans", "The layouts that carry it", met)
        sections.append(Section(id="layouts", title=table.title, parts=(table,)))
    return Report(
        kind="fleet",
        title="Load within the targets",
        kicker=f"plan · {question.plan.name} · {question.plan.scenario.model}",
        answer=_answer(trace, answers, budget),
        basis=() if best is None else _basis(trace, best),
        said=(Said(text=f"{warning}."),) if warning else (),
        cards=() if best is None else _cards(trace, best),
        data=_data(question, trace, answers, more),
        sections=tuple(sections),
        main_table="fleets",
        notes=(*_notes(answers), *trace.notes),
        assumptions=(*assumptions_of([FleetSearch]), *plan_assumptions(question.plan)),
        units=UNITS,
    )


def best_of(answers: Sequence[FleetAnswer]) -> FleetAnswer | None:
    """The fleet that carries most; the cheapest of equals."""
    able = [answer for answer in answers if answer.met]
    key: Callable[[FleetAnswer], tuple[int, float]] = lambda own: (  # noqa: E731
        own.met.rung if own.met else 0,
        -own.usd_per_hour,
    )
    return max(able, key=key, default=None)


def load_text(trace: Trace, loaded: Loaded) -> str:
    """`12.3 requests/s` or `40 users`."""
    if loaded.users is not None:
        return count_text(loaded.users, "user")
    rate = offered_per_s(trace, loaded.rate_scale or 1.0)
    if rate is None:
        return f"{loaded.rate_scale:.4g} x the traffic"
    return f"{rate:.4g} requests/s"


def _answer(trace: Trace, answers: Sequence[FleetAnswer], budget: str | None) -> str:
    best = best_of(answers)
    within = f" within {budget}" if budget else ""
    if best is None or best.met is None:
        reasons = [reason for answer in answers for _, reason in answer.ruled_out]
        # A target that is missed says more than a layout that cannot be.
        one = min(reasons, key=lambda own: (" is asked " not in own, len(own)), default="")
        names = " or ".join(answer.name for answer in answers)
        for_one = f"; for one layout, {one}" if one else ""
        return (
            f"No load of this traffic meets the targets on {names}{within}{for_one}; relax the "
            "target, or give more chips."
        )
    missed = best.missed
    assert missed is not None
    users = "" if best.met.users else f", {best.met.outcome.load.in_system:,.3g} at once,"
    most = f"{best.name}{within} carry {load_text(trace, best.met)}{users} within the targets"
    return (
        f"{most}; at {load_text(trace, missed)} {missed.outcome.binds.name} is "
        f"{missed.outcome.binds.found:,.3g} {missed.outcome.binds.unit}, "
        f"{missed.outcome.binds.asked:,.3g} {missed.outcome.binds.unit} is asked."
    )


def _basis(trace: Trace, best: FleetAnswer) -> tuple[str, ...]:
    assert best.met is not None
    assert best.missed is not None
    outcome = best.met.outcome
    replay = (
        f"traffic.concurrency={best.met.users}"
        if best.met.users
        else f"traffic.rate_scale={best.met.rate_scale!r}"
    )
    return (
        f"Layout: {outcome.label}.",
        *(f"{target_text(target)}." for target in outcome.targets),
        f"What binds just above it: {best.missed.outcome.binds.name}: "
        f"{why_sentence(best.missed.outcome)}.",
        f"It costs ${outcome.usd_per_million_tokens:,.4g} per million tokens in all, "
        f"${outcome.usd_per_million_output:,.4g} per million output tokens, "
        f"${outcome.usd_per_request:,.3g} a request and ${outcome.usd_per_month:,.0f} a month.",
        *_luck(trace, best),
        f"The load exactly: {replay}.",
    )


def _luck(trace: Trace, best: FleetAnswer) -> tuple[str, ...]:
    """How sharp the edge is: what loads nearby did."""
    if not best.near:
        return ()
    below, above = best.missed_below, best.met_above
    if not below and not above:
        return (
            "The edge is sharp: of the loads tried up to 12 % below it all meet the targets, and "
            "of those up to 16 % above it none.",
        )
    parts = []
    if below:
        parts.append(f"{load_text(trace, below[0])} below it misses a target")
    if above:
        parts.append(f"{load_text(trace, above[-1])} above it meets them")
    return (
        f"The edge is blurred by where the arrivals fall: {' and '.join(parts)}; more requests "
        "make it sharper.",
    )


def _cards(trace: Trace, best: FleetAnswer) -> tuple[Card, ...]:
    assert best.met is not None
    assert best.missed is not None
    outcome, binds = best.met.outcome, best.missed.outcome.binds
    return (
        Card(label="carried", value=load_text(trace, best.met)),
        Card(label="at once in the mean", value=f"{outcome.load.in_system:,.3g} requests"),
        Card(label="fleet", value=best.name),
        Card(label="binds", value=binds.name, about=why_sentence(best.missed.outcome)),
        Card(label="per million tokens in all", value=f"${outcome.usd_per_million_tokens:,.3g}"),
        Card(label="an hour", value=f"${best.usd_per_hour:,.4g}"),
    )


def _amount(trace: Trace, loaded: Loaded | None) -> float | None:
    """Users, requests a second, or the scale where neither is known."""
    if loaded is None:
        return None
    if loaded.users is not None:
        return float(loaded.users)
    scale = loaded.rate_scale or 1.0
    return offered_per_s(trace, scale) or scale


def _load_heading(trace: Trace, answers: Sequence[FleetAnswer]) -> tuple[str, str]:
    loaded = next((answer.met for answer in answers if answer.met), None)
    if loaded is not None and loaded.users is not None:
        return "users", "users"
    if loaded is not None and offered_per_s(trace, 1.0) is None:
        return "rate_scale", "x the traffic"
    return "requests_per_s", "requests/s"


def _fleets(trace: Trace, answers: Sequence[FleetAnswer]) -> Section:
    table = _fleet_table("fleets", "Load within the targets", trace, answers)
    parts: tuple[Any, ...] = (table,)
    if len(answers) > 1 and any(answer.met for answer in answers):
        parts = (_figure(trace, answers), table)
    return Section(id="loads", title=table.title, parts=parts)


def _fleet_table(
    name: str, title: str, trace: Trace, answers: Sequence[FleetAnswer]
) -> ReportTable:
    amount, heading = _load_heading(trace, answers)

    def of_met(value: Callable[[Loaded], Cell]) -> list[Cell]:
        return [value(own.met) if own.met else None for own in answers]

    def of_missed(value: Callable[[Loaded], Cell]) -> list[Cell]:
        return [value(own.missed) if own.missed else None for own in answers]

    return ReportTable(
        id=name,
        title=title,
        fields=(
            Field(name="fleet", heading="fleet", values=[own.name for own in answers]),
            Field(name=amount, heading=heading, values=[_amount(trace, o.met) for o in answers]),
            Field(name=f"missed_at_{amount}", heading="missed\nat", rank=3,
                  values=[_amount(trace, own.missed) for own in answers]),
            Field(name="binds", heading="binds", values=of_missed(lambda o: o.outcome.binds.name)),
            Field(name="usd_per_hour", heading="$ an\nhour", rank=1,
                  values=[own.usd_per_hour for own in answers]),
            Field(name="load_per_usd", heading=f"{heading}\na $/h", rank=2,
                  values=[
                      None if (most := _amount(trace, own.met)) is None else most / own.usd_per_hour
                      for own in answers
                  ]),
            Field(name="usd_per_million_tokens", heading="$/M\nall", rank=2,
                  values=of_met(lambda own: own.outcome.usd_per_million_tokens)),
            Field(name="layout", heading="layout", rank=1,
                  values=of_met(lambda own: own.outcome.short_label.partition(": ")[2])),
            Field(name="engine", heading="engine", rank=4,
                  values=of_met(lambda own: own.outcome.engine)),
            Field(name="limits", heading="limits", rank=5,
                  values=of_met(lambda own: own.outcome.candidate.limits)),
            Field(name="why", heading="why", rank=9,
                  values=of_missed(lambda own: why_sentence(own.outcome))),
            Field(name="simulated", heading="runs", rank=9,
                  values=[own.simulated for own in answers]),
        ),
    )  # fmt: skip


def _next_section(
    trace: Trace, answers: Sequence[FleetAnswer], more: Sequence[Sequence[FleetAnswer]]
) -> list[Section]:
    rows = [
        (answer, larger)
        for answer, several in zip(answers, more, strict=True)
        for larger in several
    ]
    if not rows:
        return []
    amount, heading = _load_heading(trace, [larger for _, larger in rows])
    gains: list[Cell] = []
    for answer, larger in rows:
        before, after = _amount(trace, answer.met), _amount(trace, larger.met)
        gains.append(after / before - 1 if before and after else None)
    table = ReportTable(
        id="next",
        title="What more chips buy",
        note="One chip more, and as many as one replica more of the best layout takes.",
        fields=(
            Field(name="fleet", heading="fleet", values=[own.name for own, _ in rows]),
            Field(name="with", heading="with", values=[larger.name for _, larger in rows]),
            Field(name=amount, heading=heading,
                  values=[_amount(trace, larger.met) for _, larger in rows]),
            Field(name="gain_share", heading="gain", values=gains,
                  show=lambda share: f"{share:+.1%}" if share else "none"),
            Field(name="usd_per_hour_more", heading="$ an hour\nmore", rank=1,
                  values=[larger.usd_per_hour - own.usd_per_hour for own, larger in rows]),
            Field(name="layout", heading="layout", rank=2,
                  values=[
                      larger.met.outcome.short_label if larger.met else None for _, larger in rows
                  ]),
        ),
    )  # fmt: skip
    return [Section(id="more", title=table.title, parts=(table,))]


def _figure(trace: Trace, answers: Sequence[FleetAnswer]) -> Figure:
    _, heading = _load_heading(trace, answers)
    rows = list(reversed(answers))
    values = [_amount(trace, own.met) or 0.0 for own in rows]
    names = [own.name for own in rows]
    texts = [
        f"{own.name}: {load_text(trace, own.met) if own.met else 'no load within the targets'}"
        for own in rows
    ]
    bar = {
        "type": "bar",
        "orientation": "h",
        "name": heading,
        "y": names,
        "x": values,
        "marker": {"color": COLORS[0]},
        "text": texts,
        "textposition": "none",
        "hovertemplate": "%{text}",
    }
    shape = layout(
        height=80 + 34 * len(rows),
        x=axis(f"{heading} within the targets", rangemode="tozero", exponentformat="none"),
        y=axis("fleet"),
    )
    return Figure(
        id="fleet-figure",
        title="Load within the targets",
        drawing={"data": [bar], "layout": {**shape, "showlegend": False}},
    )


def _notes(answers: Sequence[FleetAnswer]) -> list[str]:
    found = []
    for answer in answers:
        if answer.ruled_out:
            label, reason = answer.ruled_out[0]
            count = count_text(len(answer.ruled_out), "layout")
            found.append(f"{answer.name}: {count} ruled out, the first {label}: {reason}.")
    return found


def _data(
    question: FleetQuestion,
    trace: Trace,
    answers: Sequence[FleetAnswer],
    more: Sequence[Sequence[FleetAnswer]],
) -> dict[str, Any]:
    warning = chips_warning([answer.chip for answer in answers])
    best = best_of(answers)
    return {
        "question": question.plan.name,
        "best": None if best is None else best.name,
        "fleets": [
            {
                **_answer_json(trace, answer),
                "more": [_answer_json(trace, larger) for larger in several],
            }
            for answer, several in zip(answers, more, strict=True)
        ],
        "warnings": [f"{warning}."] if warning else [],
    }


def _answer_json(trace: Trace, answer: FleetAnswer) -> dict[str, Any]:
    return {
        "chip": answer.chip,
        "chips": answer.chips,
        "usd_per_hour": answer.usd_per_hour,
        "simulated": answer.simulated,
        "met": _loaded_json(trace, answer.met),
        "missed": _loaded_json(trace, answer.missed),
        "near": [_loaded_json(trace, own) for own in answer.near],
        "ruled_out": [{"label": label, "reason": why} for label, why in answer.ruled_out],
    }


def _loaded_json(trace: Trace, loaded: Loaded | None) -> dict[str, Any] | None:
    if loaded is None:
        return None
    return {
        "users": loaded.users,
        "rate_scale": loaded.rate_scale,
        "requests_per_s": offered_per_s(trace, loaded.rate_scale) if loaded.rate_scale else None,
        "requests_at_once": loaded.outcome.load.in_system,
        "outcome": outcome_json(loaded.outcome),
    }
