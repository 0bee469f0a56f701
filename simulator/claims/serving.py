"""Runs the scenario of a published serving figure and sets what it gives beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ContextShare
from simulator.claims.figures import decode_graph
from simulator.claims.serving_row import ServingRow
from simulator.serve.deployment import DeployedReplica, deploy
from simulator.serve.metrics import Summary, summarize
from simulator.serve.run import require_finished, run_scenario
from simulator.serve.scenario import Scenario
from workloads.run_stats import RunStats
from workloads.state_layout import Tail


def index_share(context: int) -> dict[str, float]:
    """Share of index keys in the cache bytes that a decode step of Flash reads, FP8 keys, in %."""
    graph, stats = decode_graph("v4-flash", context, "fp8"), RunStats()
    index = total = 0.0
    for node in graph.nodes:
        for read in graph.work(node, stats).reads:
            region = graph.regions[node.regions[read.region]]
            if isinstance(region.growth, Tail):
                continue
            nbytes = read.distinct * region.format.nbytes
            total += nbytes
            index += nbytes if region.kind == "csa_index" else 0.0
    return {"index_share": 100 * index / total}


def hisparse_gain() -> dict[str, float]:
    """Throughput with C4 entries on the host over that without, as far as the run is known."""
    from simulator.offload.decode import DecodeTimer
    from simulator.offload.published import HISPARSE, published_cases
    from simulator.offload.question import ask_offload
    from simulator.offload.study import stated_misses

    question = ask_offload(
        model=HISPARSE.model,
        chip=HISPARSE.chip,
        count=HISPARSE.count,
        prompt_tokens=HISPARSE.prompt_tokens,
        output_tokens=HISPARSE.output_tokens,
    )
    cases = published_cases(DecodeTimer(question, stated_misses(question)), question)
    known = next(case for case in cases if "as published" in case.settings)
    return {"tokens_gain": known.comparison.gain or 0.0}


COMPUTED: dict[str, Callable[[], dict[str, float]]] = {
    "index-share-32k": lambda: index_share(32 * 1024),
    "index-share-128k": lambda: index_share(128 * 1024),
    "hisparse": hisparse_gain,
}


# Beyond this difference a figure without a band is explained too.
EXPLAINED = 0.3


@dataclass(frozen=True, slots=True)
class Measure:
    """What a figure is, and its unit. Differences of a `share` are in points."""

    words: str
    unit: str
    share: bool = False


MEASURES: dict[str, Measure] = {
    "ttft_s": Measure("mean TTFT", "s"),
    "tpot_ms": Measure("mean TPOT", "ms"),
    "tokens_per_s_chip": Measure("in + out", "tok/s/GPU"),
    "tokens_per_s_user": Measure("of a request", "tok/s"),
    "requests": Measure("requests at once", ""),
    "decode_slowdown": Measure("decode loss", "%", share=True),
    "requests_gain": Measure("requests", "x"),
    "ttft_gain": Measure("TTFT shorter", "x"),
    "tokens_gain": Measure("throughput", "x"),
    "index_share": Measure("index keys", "%", share=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of a row beside ours, in the unit of its measure.

    `difference`: relative, for shares in points. `band`: None where nothing is tested.
    """

    row: ServingRow
    name: str
    published: float
    ours: float

    @property
    def measure(self) -> Measure:
        """What the figure is."""
        return MEASURES[self.name]

    @property
    def difference(self) -> float:
        """Ours against the published figure."""
        if self.measure.share:
            return self.ours - self.published
        return self.ours / self.published - 1

    @property
    def band(self) -> float | None:
        """Largest difference that is tested."""
        return self.row.bands.get(self.name)

    @property
    def verdict(self) -> str:
        """`held` or `off` where there is a band."""
        if self.band is None:
            return ""
        return "held" if abs(self.difference) <= self.band else "off"

    @property
    def is_explained(self) -> bool:
        """Whether it differs so much that the row's reason is told."""
        if self.band is not None:
            return self.verdict == "off"
        return not self.measure.share and abs(self.difference) > EXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """A scenario's deployment and, where it was run, what it achieved."""

    scenario: Scenario
    deployment: DeployedReplica
    summary: Summary | None

    @property
    def ttft_s(self) -> float:
        """Mean time to first token, at the client."""
        assert self.summary is not None
        assert self.summary.latencies.client_ttft_s is not None
        return self.summary.latencies.client_ttft_s.mean

    @property
    def tpot_ms(self) -> float:
        """Mean time per output token."""
        assert self.summary is not None
        assert self.summary.latencies.tpot_ms is not None
        return self.summary.latencies.tpot_ms.mean

    @property
    def tokens_per_s_chip(self) -> float:
        """Input and output tokens a second and chip."""
        assert self.summary is not None
        rates = self.summary.rates
        return rates.input_tokens_per_s_chip + rates.output_tokens_per_s_chip

    @property
    def requests(self) -> float:
        """Requests of the scenario's longest length that the pools hold, parts of one counted."""
        made = self.scenario.traffic.made
        assert made is not None
        length = ContextShare(context_tokens=made.input_tokens + made.output_tokens, share=1.0)
        question = replace(self.deployment.capacity.question, contexts=(length,))
        return capacity_of(question).requests


_OF_ONE: dict[str, Callable[[_Served], float]] = {
    "ttft_s": lambda run: run.ttft_s,
    "tpot_ms": lambda run: run.tpot_ms,
    "tokens_per_s_chip": lambda run: run.tokens_per_s_chip,
    "tokens_per_s_user": lambda run: 1000 / run.tpot_ms,
    "requests": lambda run: run.requests,
}
_OF_TWO: dict[str, Callable[[_Served, _Served], float]] = {
    "decode_slowdown": lambda run, other: 100 * (1 - run.tpot_ms / other.tpot_ms),
    "requests_gain": lambda run, other: other.requests / run.requests,
    "ttft_gain": lambda run, other: run.ttft_s / other.ttft_s,
}
_WITHOUT_RUN = {"requests", "requests_gain"}


def compare_row(row: ServingRow) -> list[Compared]:
    """Serve what the row needs; one comparison a figure."""
    if row.scenario is None:
        ours = COMPUTED[row.name]()
    else:
        idle = set(row.published) <= _WITHOUT_RUN
        run = _serve(row.scenario, idle)
        other = None if row.other is None else _serve(row.other, idle)
        ours = {name: _measured(name, run, other) for name in row.published}
    return [
        Compared(row=row, name=name, published=value, ours=ours[name])
        for name, value in row.published.items()
    ]


def _measured(name: str, run: _Served, other: _Served | None) -> float:
    if name in _OF_ONE:
        return _OF_ONE[name](run)
    assert other is not None, f"{name} compares two scenarios"
    return _OF_TWO[name](run, other)


def _serve(scenario: Scenario, idle: bool) -> _Served:
    deployment = deploy(scenario)
    if idle:
        return _Served(scenario=scenario, deployment=deployment, summary=None)
    run = run_scenario(scenario, deployment=deployment)
    require_finished(run)
    return _Served(scenario=scenario, deployment=deployment, summary=summarize(run))
