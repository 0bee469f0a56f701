"""Laws that every run has to keep: nothing is lost, time adds up, and Little's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.serve.over_time import time_integral
from simulator.serve.run import ServingRun

LITTLE_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheck:
    """One law: its two sides, and whether they agree as they should."""

    name: str
    left: float
    right: float
    holds: bool

    @property
    def sentence(self) -> str:
        """The law with its figures."""
        return f"{self.name}: {_figure(self.left)} and {_figure(self.right)}"


def check_run(run: ServingRun) -> tuple[RunCheck, ...]:
    """All laws of a run; none depends on how the run was made."""
    return (
        _all_accounted(run),
        _little(run),
        _decoding_time(run),
        _prompt_tokens(run),
        _inputs(run),
        _outputs(run),
        _slots(run),
        *_wall(run),
    )


def _all_accounted(run: ServingRun) -> RunCheck:
    ended = int(run.requests.finished.sum()) + sum(run.refused.values())
    return _equal("requests = finished + refused", len(run.requests), ended)


def _little(run: ServingRun) -> RunCheck:
    """Mean number in the system, by events on the clock, against rate x mean latency."""
    done = run.requests.finished
    arrival, finish = (
        run.requests.column("arrival_ns")[done],
        run.requests.column("finish_ns")[done],
    )
    name = "Little's law, mean number in the system = rate x mean latency"
    if not len(arrival):
        return _equal(name, 0, 0)
    begin, end = int(arrival.min()), max(run.end_ns, int(arrival.min()) + 1)
    held = time_integral(arrival - begin, finish - begin, [end - begin])[0] / (end - begin)
    latency = float((finish - arrival).mean())
    return _near(name, float(held), len(arrival) / (end - begin) * latency, LITTLE_TOLERANCE)


def _decoding_time(run: ServingRun) -> RunCheck:
    """Requests x time in decode steps (step log) against first to last token (request log)."""
    done = run.requests.finished
    span = run.requests.column("finish_ns")[done] - run.requests.column("first_token_ns")[done]
    steps = sum(float(np.dot(c["decoding"], c["duration_ns"])) for c in _columns(run)) / 1e9
    answers = float(span.sum()) / 1e9
    name = "request-seconds of decode steps {} first to last tokens"
    if _is_plain(run):
        return _near(name.format("="), steps, answers, LITTLE_TOLERANCE)
    # Requests that gave way, or wait while prompts run alone, are between tokens without a step.
    return RunCheck(
        name=name.format("<="), left=steps, right=answers, holds=steps <= answers * (1 + 1e-9)
    )


def _is_plain(run: ServingRun) -> bool:
    scenario = run.scenario
    return (
        scenario.scheduler.order == "decode-first"
        and scenario.disaggregation is None
        and not run.requests.column("preemptions")[run.requests.finished].any()
    )


def _prompt_tokens(run: ServingRun) -> RunCheck:
    steps = sum(int(c["prompt_tokens"].sum()) for c in _columns(run))
    computed = int(run.requests.column("prefilled_tokens")[run.requests.finished].sum())
    return _equal("prompt tokens of steps = those computed for requests", steps, computed)


def _inputs(run: ServingRun) -> RunCheck:
    """Of requests that never gave way: input = hit + computed."""
    requests = run.requests
    once = requests.finished & (requests.column("preemptions") == 0)
    given = int(requests.column("input_tokens")[once].sum())
    made = int((requests.column("hit_tokens") + requests.column("prefilled_tokens"))[once].sum())
    return _equal("input tokens = hit + computed", given, made)


def _outputs(run: ServingRun) -> RunCheck:
    """Every prompt that is done gives a token, every step one (with drafts more) a request."""
    requests, done = run.requests, run.requests.finished
    rate = run.deployment.rule.tokens_per_step
    prompts = int(done.sum() + requests.column("preemptions")[done].sum())
    asked = int(requests.column("output_tokens")[done].sum())
    decoded = sum(int(np.dot(c["decoding"], c["steps"])) for c in _columns(run))
    made = prompts + decoded * rate
    if rate == 1:
        return _equal("output tokens = prompts done + decoding requests x steps", asked, made)
    # The last step of an answer may yield more than is asked for.
    return RunCheck(
        name="output tokens <= prompts done + decoding requests x steps x tokens a step",
        left=asked,
        right=made,
        holds=asked <= made + 1e-6 * made and made - asked <= prompts * (rate + 1) + 1e-6 * made,
    )


def _slots(run: ServingRun) -> RunCheck:
    """Every request holds the fixed part of each pool; so many decode at once at most."""
    pools = run.deployment.resources
    most = max(0, min((p.capacity // p.fixed for p in pools if p.fixed), default=0))
    found = max((int(c["decoding"].max(initial=0)) for c in _columns(run)), default=0)
    name = "requests that decode at once <= those that pools hold"
    return RunCheck(name=name, left=found, right=most, holds=found <= most)


def _wall(run: ServingRun) -> list[RunCheck]:
    busiest, overlaps = 0, 0
    for columns in _columns(run):
        ends = columns["start_ns"] + columns["duration_ns"]
        busiest = max(busiest, int(columns["duration_ns"].sum()))
        overlaps += int(np.count_nonzero(columns["start_ns"][1:] < ends[:-1]))
        overlaps += int(np.count_nonzero(ends > run.end_ns))
    wall = RunCheck(
        name="seconds of the busiest lane's steps <= those of the run",
        left=busiest / 1e9,
        right=run.end_ns / 1e9,
        holds=busiest <= run.end_ns,
    )
    return [wall, _equal("steps that overlap, or end after the run", overlaps, 0)]


def _columns(run: ServingRun) -> list[dict[str, NDArray[np.int64]]]:
    return [log.columns() for log in run.steps]


def _equal(name: str, left: float, right: float) -> RunCheck:
    return RunCheck(name=name, left=left, right=right, holds=left == right)


def _near(name: str, left: float, right: float, tolerance: float) -> RunCheck:
    most = max(abs(left), abs(right))
    return RunCheck(name=name, left=left, right=right, holds=abs(left - right) <= tolerance * most)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
