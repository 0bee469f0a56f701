"""Serving: requests of a trace and of a day, events of a queue, and the shipped plan questions."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from simulator.serve.run import run_scenario
from simulator.serve.scheduler_rule import SchedulerRule
from tests.bench.commands import Ran, run
from tests.bench.line import Line, seconds_of
from tests.simulator.serve.run_cases import deployment_of, scenario_of
from tests.simulator.serve.serve_cases import trace_of

MOONCAKE_REQUESTS = 12_031
DAY_S = 86_400
QUEUE_ARRIVALS = 200_000
QUESTIONS = ("chat", "documents", "agents")
MODEL = "model: v4-flash\nchip: h200\nparallel: {tp: 8}\nengine: sglang-0.5\nfidelity: tile\n"


def lines() -> list[Line]:
    """Wall time and memory of fresh processes, reading and summaries included."""
    return [*_mooncake(), *_day(), _queue(), *_plans()]


def _mooncake() -> list[Line]:
    folder = os.environ.get("V4SIM_TRACES")
    if folder is None:
        print("serve on the Mooncake trace: V4SIM_TRACES names no folder")
        return []
    trace = Path(folder).absolute() / "mooncake_conversation.jsonl.gz"
    ran = _serve(
        f"name: mooncake\n{MODEL}traffic: {{trace: '{trace}'}}\n"
        "prefix_cache: {window_policy: boundary}\n"
    )
    what = "serve, Mooncake trace, v4-flash, 8 x h200, prefix cache, tile"
    rate = MOONCAKE_REQUESTS / ran.seconds
    return [
        Line(what=what, value=rate, unit="requests/s", least=1000),
        Line(what="  peak memory", value=ran.peak_mib, unit="MiB", most=1907),
    ]


def _day() -> list[Line]:
    ran = _serve(
        f"name: day\n{MODEL}traffic: {{made: {{input_tokens: 8192, output_tokens: 1024, "
        f"requests: {DAY_S}, rate_per_s: 1}}}}\n"
    )
    what = "serve, a day of 1 request/s of 8K/1K, v4-flash, 8 x h200"
    return [
        Line(what=what, value=ran.seconds, unit="s", most=120),
        Line(what="  peak memory", value=ran.peak_mib, unit="MiB", most=1907),
    ]


def _serve(scenario: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(scenario)
        return run("serve", str(path))


class _EvenClock:
    """Prompts of one token take a millisecond each; nothing decodes."""

    knee_tokens = 1

    def decode_ns(self, groups: object) -> float:
        raise AssertionError("a request of one token has no decode step")

    def step_ns(self, groups: object, chunks: object) -> float:
        return 1e6

    def segment(self, mean: float) -> float:
        raise AssertionError("a request of one token has no decode step")


def _queue() -> Line:
    """M/D/1 at a load of one half: every request arrives, is served and leaves."""
    arrival = np.cumsum(np.random.default_rng(1).exponential(2e6, QUEUE_ARRIVALS))
    one = np.ones(QUEUE_ARRIVALS, dtype=np.int64)
    trace = trace_of(np.stack([arrival.astype(np.int64), one, one], axis=1))
    deployment = deployment_of(SchedulerRule(max_requests=1), clock=_EvenClock())
    seconds = seconds_of(lambda: run_scenario(scenario_of(), deployment=deployment, trace=trace))
    # An arrival and the end of a service each.
    rate = 2 * QUEUE_ARRIVALS / seconds
    return Line(what="serve, M/D/1 queue of 200,000 arrivals", value=rate, unit="events/s")


def _plans() -> list[Line]:
    found = []
    for name in QUESTIONS:
        ran = run("plan", name)
        found.append(Line(what=f"v4sim plan {name}", value=ran.seconds, unit="s", most=180))
    return found
