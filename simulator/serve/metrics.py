"""What a serving run achieved: latencies, rates, goodput, and the laws that it was held to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.serve.over_time import OverTime, over_time, time_integral
from simulator.serve.run import ServingRun
from simulator.serve.saturation import Saturation, saturation_of
from simulator.serve.scenario import ServiceLevels
from simulator.serve.spread import Spread, spread_of, weighted_spread
from simulator.serve.token_gaps import token_gaps

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


Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Spreads over finished requests; None where none has such a time. `itl_ms` is over tokens.

    Assumes: TTFT runs from a request's arrival at the server to the end of the step that makes its
        first token; that of the client begins when it sends the request, with HTTP and tokenizer as
        the engine's host section says; network and streaming are in neither.
    """

    ttft_s: Spread | None
    client_ttft_s: Spread | None
    tpot_ms: Spread | None
    itl_ms: Spread | None
    latency_s: Spread | None
    queueing_s: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Per second of the run, from its first arrival to its last token; input includes hits."""

    span_s: float
    requests_per_s: float
    input_tokens_per_s: float
    computed_tokens_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s_chip: float
    output_tokens_per_s_chip: float
    busy_share: float
    in_system: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One service level at its percentile: what is asked and what was found, in its unit."""

    name: str
    unit: str
    asked: float
    found: float

    @property
    def is_met(self) -> bool:
        """Whether it is kept."""
        return self.found <= self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Requests that keep every service level themselves, and their rate.

    Assumes: an answer of one token has no time per output token, and keeps any level of it.
    """

    requests: int
    share: float
    requests_per_s: float
    output_tokens_per_s: float
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Requests and tokens; `refused` is by the pool that could not hold them even alone."""

    requests: int
    finished: int
    unfinished: int
    refused: dict[str, int]
    input_tokens: int
    hit_tokens: int
    computed_tokens: int
    recomputed_tokens: int
    output_tokens: int
    preemptions: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything about a run but its money. `goodput` is None where no level is asked for."""

    counts: Counts
    latencies: Latencies
    rates: Rates
    goodput: Goodput | None
    saturation: Saturation | None
    checks: tuple[RunCheck, ...]
    over_time: OverTime

    @property
    def lawful(self) -> bool:
        """Whether every law was kept."""
        return all(check.holds for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, units in the names; nothing is rounded."""
        found = asdict(self)
        columns = self.over_time.columns()
        found["over_time"] = {
            "bin_s": self.over_time.bin_s,
            **{name: values.tolist() for name, values in columns.items()},
        }
        return found


def summarize(run: ServingRun) -> Summary:
    """Measure a run; the laws are checked and told, not raised."""
    counts = _counts(run)
    begin_ns, span_s = span_of(run)
    return Summary(
        counts=counts,
        latencies=_latencies(run),
        rates=_rates(run, counts, span_s),
        goodput=_goodput(run, span_s),
        saturation=_saturation(run),
        checks=check_run(run),
        over_time=over_time(run.steps, run.requests, begin_ns, run.end_ns),
    )


def span_of(run: ServingRun) -> tuple[int, float]:
    """When the first request was sent in ns, and seconds from then to the end."""
    begin = int(run.requests.sent_ns().min(initial=run.end_ns))
    return begin, max(1, run.end_ns - begin) / 1e9


def _counts(run: ServingRun) -> Counts:
    done = run.requests.finished

    def total(name: str) -> int:
        return int(run.requests.column(name)[done].sum())

    finished, refused = int(done.sum()), sum(run.refused.values())
    return Counts(
        requests=len(run.requests),
        finished=finished,
        unfinished=len(run.requests) - finished - refused,
        refused=dict(run.refused),
        input_tokens=total("input_tokens"),
        hit_tokens=total("hit_tokens"),
        computed_tokens=total("prefilled_tokens"),
        recomputed_tokens=total("recomputed_tokens"),
        output_tokens=total("output_tokens"),
        preemptions=total("preemptions"),
        steps=sum(sum(log.steps) for log in run.steps),
    )


def _latencies(run: ServingRun) -> Latencies:
    requests = run.requests
    gaps, weights = token_gaps(run.steps, requests)
    return Latencies(
        ttft_s=spread_of(requests.ttft_ns() / 1e9),
        client_ttft_s=spread_of(requests.client_ttft_ns() / 1e9),
        tpot_ms=spread_of(requests.tpot_ns() / 1e6),
        itl_ms=weighted_spread(gaps / 1e6, weights),
        latency_s=spread_of(requests.latency_ns() / 1e9),
        queueing_s=spread_of(requests.queueing_ns() / 1e9),
    )


def _rates(run: ServingRun, counts: Counts, span_s: float) -> Rates:
    busy_s = sum(sum(log.duration_ns) for log in run.steps) / 1e9
    return Rates(
        span_s=span_s,
        requests_per_s=counts.finished / span_s,
        input_tokens_per_s=counts.input_tokens / span_s,
        computed_tokens_per_s=counts.computed_tokens / span_s,
        output_tokens_per_s=counts.output_tokens / span_s,
        input_tokens_per_s_chip=counts.input_tokens / span_s / run.chips,
        output_tokens_per_s_chip=counts.output_tokens / span_s / run.chips,
        busy_share=busy_s / span_s / max(1, len(run.steps)),
        in_system=float(run.requests.latency_ns().sum()) / 1e9 / span_s,
    )


def _goodput(run: ServingRun, span_s: float) -> Goodput | None:
    levels = run.scenario.service_levels
    if levels.ttft_s is None and levels.tpot_ms is None:
        return None
    good = good_requests(run, levels)
    tokens = int(run.requests.column("output_tokens")[good].sum())
    return Goodput(
        requests=int(good.sum()),
        share=float(good.sum() / len(good)),
        requests_per_s=float(good.sum() / span_s),
        output_tokens_per_s=tokens / span_s,
        levels=_levels(run, levels),
    )


def good_requests(run: ServingRun, levels: ServiceLevels) -> Bools:
    """Requests that were finished within every level, one a request of the trace."""
    requests = run.requests
    good = requests.finished.copy()
    first, output = requests.column("first_token_ns"), requests.column("output_tokens")
    if levels.ttft_s is not None:
        good &= first - requests.column("arrival_ns") <= levels.ttft_s * 1e9
    if levels.tpot_ms is not None:
        further = np.maximum(output - 1, 1)
        good &= (requests.column("finish_ns") - first) / further <= levels.tpot_ms * 1e6
    return good


def _levels(run: ServingRun, levels: ServiceLevels) -> tuple[Level, ...]:
    found = []
    for name, unit, asked, values in (
        ("TTFT", "s", levels.ttft_s, run.requests.ttft_ns() / 1e9),
        ("TPOT", "ms", levels.tpot_ms, run.requests.tpot_ns() / 1e6),
    ):
        if asked is not None:
            reached = float(np.percentile(values, levels.percentile)) if len(values) else 0.0
            label = f"{name} p{levels.percentile:g}"
            found.append(Level(name=label, unit=unit, asked=asked, found=reached))
    return tuple(found)


def _saturation(run: ServingRun) -> Saturation | None:
    """Of open loops only: in a closed one, requests come no faster than they are answered."""
    traffic = run.scenario.traffic
    loops = (traffic, traffic.made, traffic.client)
    if any(one is not None and one.concurrency is not None for one in loops):
        return None
    return saturation_of(run.requests)
