"""A plan as a report: the cheapest, the best of each chip and engine, the Pareto front, what
changes move, and every plan that was simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from reports.plan_figures import Dot, pareto_figures
from reports.quantity import count_text, number_text
from reports.report import Card, Cell, Field, Report, ReportTable, Said, Section
from simulator.basis.assumptions import assumptions_of
from simulator.cost import step_clock
from simulator.kernels.constants_file import chips_warning
from simulator.plan import bounds, load, sensitivity
from simulator.plan.outcome import Outcome
from simulator.plan.plan_question import PlanQuestion
from simulator.plan.search import SearchResult
from simulator.plan.sensitivity import Sensitivity
from simulator.plan.verdict import plan_sentence, runner_up_sentence, target_text, why_sentence
from simulator.serve import deployment, replica
from simulator.serve.scenario import ServiceLevels
from simulator.sweep.row import HOURS_A_MONTH
from workloads.deepseek_v4.config import find_model

_SHOWN = 12
_RULED_SHOWN = 3
UNITS = (
    f"Dollars of the whole run, from its first arrival to its last token; a month has "
    f"{HOURS_A_MONTH:g} hours like it. Tokens in all are input, hits among them, and output. A "
    "user's tokens/s are those of the slow end, at the percentile of the targets."
)


def plan_assumptions(question: PlanQuestion) -> tuple[str, ...]:
    """Approximations of the search and of the serving runs below it, and of the model's file."""
    ours = assumptions_of(
        [
            bounds,
            sensitivity.sensitivity,
            load.Burst,
            step_clock.StepClock,
            deployment.deploy,
            replica.Replica.admit,
        ]
    )
    return (*find_model(question.scenario.model).notes, *ours)


def plan_report(
    question: PlanQuestion, result: SearchResult, changes: Sequence[Sensitivity] = ()
) -> Report:
    """The report of a search."""
    best = result.best
    warning = chips_warning([choice.chip for choice in question.chips])
    answer = plan_sentence(question, result)
    return Report(
        kind="plan",
        title=f"Plan: {question.name}",
        kicker=f"plan · {question.name} · {question.scenario.model}",
        answer=f"{answer[:1].upper()}{answer[1:]}." if best else f"{answer}.",
        basis=_basis(question, result),
        said=(Said(text=f"{warning}."),) if warning else (),
        cards=plan_cards(best) if best else (),
        data=plan_to_json(question, result, changes),
        sections=_sections(question, result, changes),
        main_table="plans" if result.tried else "",
        notes=_notes(result),
        assumptions=plan_assumptions(question),
        units=UNITS,
    )


def _basis(question: PlanQuestion, result: SearchResult) -> tuple[str, ...]:
    best = result.best
    if best is None:
        return ()
    why = why_sentence(best)
    lines = [*(f"{target_text(target)}." for target in best.targets)]
    lines.append(f"{best.binds.name} binds: {why}.")
    lines.append(
        f"It costs ${best.usd_per_million_tokens:,.4g} per million tokens in all, "
        f"${best.usd_per_million_output:,.4g} per million output tokens, "
        f"${best.usd_per_request:,.3g} a request and ${best.usd_per_month:,.0f} a month."
    )
    second = runner_up_sentence(question, result)
    return (*lines, f"{second[:1].upper()}{second[1:]}.") if second else tuple(lines)


def plan_cards(best: Outcome) -> tuple[Card, ...]:
    """What has to be seen first."""
    return (
        Card(label="per million tokens in all", value=f"${best.usd_per_million_tokens:,.3g}"),
        Card(label="per million output tokens", value=f"${best.usd_per_million_output:,.3g}"),
        Card(label="a request", value=f"${best.usd_per_request:,.3g}"),
        Card(label="a month", value=f"${best.usd_per_month:,.0f}"),
        Card(label="chips", value=f"{best.chips:,} {best.chip}"),
        Card(label="binds", value=f"{best.binds.name}, {best.binds.margin:.0%} left",
             about=why_sentence(best)),
    )  # fmt: skip


def _sections(
    question: PlanQuestion, result: SearchResult, changes: Sequence[Sensitivity]
) -> tuple[Section, ...]:
    found = []
    if result.of_each:
        table = outcome_table(
            "best-of-each",
            "The best plan of each chip and engine",
            [*result.of_each.values(), *result.nearest.values()],
            note=_nearest_note(result),
        )
        found.append(Section(id="each", title=table.title, parts=(table,)))
    levels = question.scenario.service_levels
    figures = pareto_figures([dot_of(own) for own in result.tried], *user_target(levels))
    if figures:
        found.append(Section(id="front", title="The Pareto front", parts=tuple(figures)))
    if changes:
        title = "The plan when things differ"
        found.append(Section(id="changes", title=title, parts=(_change_table(changes),)))
    if result.tried:
        order = sorted(result.tried, key=lambda own: (not own.meets, own.usd_per_million_output))
        table = outcome_table("plans", f"Simulated plans ({len(order)})", order, shown=_SHOWN)
        found.append(Section(id="all", title=table.title, parts=(table,)))
    if result.ruled_out:
        found.append(_ruled_out(result))
    return tuple(found)


def _nearest_note(result: SearchResult) -> str:
    """Which rows are no plans."""
    names = [f"{chip} with {engine}" for chip, engine in result.nearest]
    if not names:
        return ""
    return (
        f"Of {', '.join(names)} no plan with the chips allowed meets the targets; the one that "
        "misses least stands here."
    )


def user_target(levels: ServiceLevels) -> tuple[float | None, str]:
    """The target of time per output token as tokens a second, and in words."""
    if levels.tpot_ms is None:
        return None, ""
    return 1000 / levels.tpot_ms, f"TPOT p{levels.percentile:g} of {levels.tpot_ms:g} ms"


def dot_of(outcome: Outcome) -> Dot:
    """A plan in the figures."""
    targets = ", ".join(f"{t.name} {t.found:,.3g} {t.unit}" for t in outcome.targets)
    user = outcome.user_tokens_per_s
    label = "<br>".join(
        (
            outcome.label,
            f"{targets}: {'met' if outcome.meets else 'missed'}",
            f"{number_text(user) if user else '–'} tokens/s a user, "
            f"{number_text(outcome.output_tokens_per_s_chip)} a chip",
            f"${outcome.usd_per_million_tokens:,.3g} per million tokens in all, "
            f"${outcome.usd_per_million_output:,.3g} per million output",
        )
    )
    return Dot(
        group=f"{outcome.chip}, {outcome.engine}",
        label=label,
        name=outcome.short_label.partition(": ")[2],
        meets=outcome.meets,
        user_tokens_per_s=user,
        chip_tokens_per_s=outcome.output_tokens_per_s_chip,
        usd_per_million_tokens=outcome.usd_per_million_tokens or None,
    )


def _usd(value: float) -> str:
    return f"{value:,.4g}"


def outcome_table(
    name: str,
    title: str,
    outcomes: Sequence[Outcome],
    shown: int | None = None,
    note: str = "",
) -> ReportTable:
    """A row a plan, exact; the columns that a narrow terminal leaves out first come last."""

    def column(
        name: str,
        heading: str,
        value: Callable[[Outcome], Cell],
        rank: int = 0,
        show: Callable[[Any], str] | None = None,
    ) -> Field:
        values = [value(own) for own in outcomes]
        return Field(name=name, heading=heading, values=values, rank=rank, show=show)

    return ReportTable(
        id=name,
        title=title,
        note=note,
        shown=shown,
        fields=(
            column("plan", "plan", lambda own: own.short_label),
            *_target_fields(outcomes),
            column("meets", "meets", lambda own: own.meets),
            column("engine", "engine", lambda o: o.engine, 1),
            column("usd_per_million_output", "$/M\nout", lambda o: o.usd_per_million_output, 1,
                   _usd),
            column("usd_per_million_tokens", "$/M\nall", lambda o: o.usd_per_million_tokens, 2,
                   _usd),
            column("usd_per_month", "$ a\nmonth", lambda o: o.usd_per_month, 3,
                   lambda value: f"{value:,.0f}"),
            column("usd_per_request", "$ a\nrequest", lambda o: o.usd_per_request, 4, _usd),
            column("user_tokens_per_s", "tokens/s\na user", lambda o: o.user_tokens_per_s, 5),
            column("output_tokens_per_s_chip", "tokens/s\na chip",
                   lambda o: o.output_tokens_per_s_chip, 5),
            column("binds", "binds", lambda o: o.binds.name, 6),
            column("busy_share", "busy", lambda o: o.busy_share, 6, lambda v: f"{v:.0%}"),
            column("hit_share", "hits", lambda o: o.hit_share, 7, lambda v: f"{v:.0%}"),
            column("limits", "limits", lambda o: o.candidate.limits, 3),
            column("why", "why", why_sentence, 9),
            column("chip", "chip", lambda o: o.chip, 9),
            column("chips", "chips", lambda o: o.chips, 9),
            column("replicas", "replicas", lambda o: o.replicas, 9),
            column("preemptions", "preempted", lambda o: o.preemptions, 9),
        ),
    )  # fmt: skip


def _target_fields(outcomes: Sequence[Outcome]) -> list[Field]:
    found = []
    for place, target in enumerate(outcomes[0].targets):
        values: list[Cell] = [own.targets[place].found for own in outcomes]
        name = f"{target.name.lower().replace(' ', '_')}_{target.unit}"
        heading = f"{target.name}\n{target.unit}"
        found.append(Field(name=name, heading=heading, values=values, show=_three))
    return found


def _three(value: float) -> str:
    return f"{value:,.3g}"


def _change_table(changes: Sequence[Sensitivity]) -> ReportTable:
    """A row a change: what the plan does, and what to buy then."""
    plans = [change.outcome for change in changes]
    answers = [change.answer for change in changes]
    same = [
        answer is not None and answer.label == plan.label
        for answer, plan in zip(answers, plans, strict=True)
    ]
    return ReportTable(
        id="sensitivity",
        title="The plan when things differ",
        note="Traffic and constants: the same layout, with more replicas where it misses a target. "
        "Targets and prices: the whole search again.",
        fields=(
            Field(name="change", heading="change", values=[change.name for change in changes]),
            *_target_fields(plans),
            Field(name="meets", heading="meets", values=[plan.meets for plan in plans]),
            Field(name="usd_per_million_output", heading="$/M\nout", show=_usd, rank=1,
                  values=[plan.usd_per_million_output for plan in plans]),
            Field(name="answer", heading="then best", rank=2,
                  values=[
                      "no plan" if own is None else "the same" if alike else own.short_label
                      for own, alike in zip(answers, same, strict=True)
                  ]),
            Field(name="answer_usd_per_million_output", heading="$/M out\nthen", show=_usd, rank=1,
                  values=[None if own is None else own.usd_per_million_output for own in answers]),
            Field(name="answer_usd_per_month", heading="$ a month\nthen", rank=3,
                  show=lambda value: f"{value:,.0f}",
                  values=[None if own is None else own.usd_per_month for own in answers]),
            Field(name="busy_share", heading="busy", show=lambda value: f"{value:.0%}", rank=4,
                  values=[plan.busy_share for plan in plans]),
        ),
    )  # fmt: skip


def _ruled_out(result: SearchResult) -> Section:
    rows = result.ruled_out
    table = ReportTable(
        id="ruled-out",
        title=f"Ruled out before simulation ({len(rows)})",
        shown=0,
        fields=(
            Field(name="candidate", heading="candidate", values=[own.label for own in rows]),
            Field(name="reason", heading="reason", values=[own.reason for own in rows]),
        ),
    )
    first = tuple(f"{own.label}: {own.reason}." for own in rows[:_RULED_SHOWN])
    return Section(id="ruled", title=table.title, parts=(table,), texts=first)


def _notes(result: SearchResult) -> tuple[str, ...]:
    found = []
    if result.skipped:
        found.append(
            f"Further plans of {count_text(result.skipped, 'candidate')} were not looked at: they "
            "are dearer than the best two and than the best of their chip and engine."
        )
    if result.kept:
        found.append(f"{count_text(result.kept, 'outcome')} known from before.")
    return (*found, *result.trace.notes)


def plan_to_json(
    question: PlanQuestion, result: SearchResult, changes: Sequence[Sensitivity]
) -> dict[str, Any]:
    """Every figure."""
    warning = chips_warning([choice.chip for choice in question.chips])
    return {
        "question": question.name,
        "objective": question.objective,
        "sentence": plan_sentence(question, result),
        "why": None if result.best is None else why_sentence(result.best),
        "best": outcome_json(result.best),
        "runner_up": outcome_json(result.runner_up),
        "runner_up_sentence": runner_up_sentence(question, result),
        "nearest_of_each": [
            {"chip": chip, "engine": engine, "outcome": outcome_json(outcome)}
            for (chip, engine), outcome in (result.nearest if result.of_each else {}).items()
        ],
        "best_of_each": [
            {"chip": chip, "engine": engine, "outcome": outcome_json(outcome)}
            for (chip, engine), outcome in result.of_each.items()
        ],
        "sensitivity": [
            {
                "change": change.name,
                "outcome": outcome_json(change.outcome),
                "answer": outcome_json(change.answer),
            }
            for change in changes
        ],
        "tried": [outcome_json(outcome) for outcome in result.tried],
        "ruled_out": [asdict(out) for out in result.ruled_out],
        "skipped": result.skipped,
        "warnings": [f"{warning}."] if warning else [],
        "assumptions": list(plan_assumptions(question)),
    }


def outcome_json(outcome: Outcome | None) -> dict[str, Any] | None:
    """An outcome's fields, what follows from them, and the scenario that it is of."""
    if outcome is None:
        return None
    row = asdict(outcome)
    del row["candidate"]
    scenario = outcome.candidate.with_replicas(outcome.replicas)
    return {
        **row,
        "label": outcome.label,
        "meets": outcome.meets,
        "binds": outcome.binds.name,
        "why": why_sentence(outcome),
        "usd_per_million_tokens": outcome.usd_per_million_tokens,
        "usd_per_request": outcome.usd_per_request,
        "usd_per_month": outcome.usd_per_month,
        "output_tokens_per_s_chip": outcome.output_tokens_per_s_chip,
        "requests_per_s": outcome.requests_per_s,
        "scenario": scenario.model_dump(mode="json", exclude_none=True),
    }
