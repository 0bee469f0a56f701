"""The plan in words: what it is, what binds, why the next one lost, and what would make it work."""

from __future__ import annotations

from simulator.plan.load import Load
from simulator.plan.outcome import Outcome, Target
from simulator.plan.plan_question import PlanQuestion
from simulator.plan.search import SearchResult


def cost_text(question: PlanQuestion, outcome: Outcome) -> str:
    """Cost in the question's objective, and in the other one."""
    dollars = f"${outcome.usd_per_million_output:,.3f} per million output tokens"
    chips = f"{outcome.chips} chip{'s' * (outcome.chips != 1)}"
    return f"{chips}, {dollars}" if question.objective == "chips" else f"{dollars}, {chips}"


def target_text(target: Target) -> str:
    """A target, what came out, and the margin."""
    found = f"{target.found:,.3g} {target.unit} of {target.asked:,.3g} {target.unit}"
    word = "left" if target.is_met else "over"
    return f"{target.name} {found} ({abs(target.margin):.0%} {word})"


def plan_sentence(question: PlanQuestion, result: SearchResult) -> str:
    """The verdict on a search."""
    if result.best is None:
        return infeasible_sentence(question, result)
    best = result.best
    return (
        f"{best.label}: {cost_text(question, best)}; {best.binds.name} binds "
        f"({best.binds.margin:.0%} left)"
    )


def runner_up_sentence(question: PlanQuestion, result: SearchResult) -> str | None:
    """Why the next best plan lost; None where there is none."""
    best, second = result.best, result.runner_up
    if best is None or second is None:
        return None
    if question.objective == "chips":
        gap = f"{second.chips - best.chips} more chips"
    else:
        share = second.usd_per_million_output / best.usd_per_million_output - 1
        little = "less than 0.05 % more expensive" if share > 0 else "the same price"
        gap = f"{share:.1%} more expensive" if share >= 5e-4 else little
    return f"runner-up: {second.label}: {cost_text(question, second)}, {gap}"


def infeasible_sentence(question: PlanQuestion, result: SearchResult) -> str:
    """No plan meets the targets: which target the closest one misses, by how much, what to try."""
    if not result.tried:
        # A target that is missed says more than a layout that cannot be.
        shown = min(
            (out.reason for out in result.ruled_out),
            key=lambda reason: (" is asked " not in reason, len(reason)),
        )
        return (
            f"no plan: all {len(result.ruled_out)} candidates are ruled out before simulation; "
            f"for one, {shown}; give larger chips or more of them (most_chips), or relax the target"
        )
    closest = max(result.tried, key=lambda outcome: outcome.binds.margin)
    target = closest.binds
    if target.is_met:
        lost = closest.refused + closest.unfinished
        return (
            f"no plan: the closest, {closest.label}, leaves {lost:,} requests without an answer "
            "(they do not fit even alone); shorten them, or give larger layouts"
        )
    over = target.found - target.asked
    return (
        f"no plan meets the targets: the closest, {closest.label}, misses {target.name} by "
        f"{over:,.3g} {target.unit} ({target.found:,.3g} against {target.asked:,.3g} "
        f"{target.unit}); {target.name} of {target.found * 1.001:,.4g} {target.unit} would be met, "
        "or raise most_chips"
    )


def why_sentence(outcome: Outcome) -> str:
    """What the tightest target waits for, in figures."""
    lost = outcome.refused + outcome.unfinished
    if lost:
        return f"{lost:,} requests get no answer: they do not fit even alone"
    if outcome.binds.name.startswith("TTFT"):
        return _prompts_text(outcome.load)
    return _answers_text(outcome)


def _prompts_text(load: Load) -> str:
    burst = load.burst
    if burst is None:
        return "every prompt was hit in the cache"
    rate = f"prefill takes {_kilo(burst.prefill_tokens_per_s)}/s"
    if burst.requests == 1:
        alone = burst.tokens / burst.prefill_tokens_per_s
        return (
            f"prompts hardly meet: the longest wait is for one of {_kilo(burst.tokens)} tokens, "
            f"and {rate}: {alone:,.3g} s"
        )
    return (
        f"bursts: {_kilo(burst.tokens)} prompt tokens of {burst.requests:,} requests arrive in "
        f"{burst.seconds:,.3g} s, {rate}: the last waits {burst.waiting_s:,.3g} s"
    )


def _answers_text(outcome: Outcome) -> str:
    load = outcome.load
    many = f"{load.decoding:,.3g} requests of a step in the mean, {load.most_decoding:,} at most"
    alone = f"a step of answers alone takes {load.decode_step_ms:,.3g} ms"
    if not load.mixed_step_ms:
        return f"{alone} ({many})"
    if not load.decode_step_ms:
        return f"every step carries prompts and takes {load.mixed_step_ms:,.3g} ms ({many})"
    return (
        f"{alone}, one that carries prompts as well {load.mixed_step_ms:,.3g} ms, and in those "
        f"answers spend {load.mixed_share:.0%} of their time ({many})"
    )


def _kilo(amount: float) -> str:
    """Tokens to three digits: 318 K, 2.41 M."""
    for size, unit in ((1e6, " M"), (1e3, " K")):
        if amount >= size:
            return f"{amount / size:,.3g}{unit}"
    return f"{amount:,.3g}"
