"""Steps priced in this process: run as a program, so that the first one is the first."""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Callable
from typing import Any

from simulator.cost.question import FIDELITIES, ask
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer
from tests.bench.line import median_seconds, seconds_of
from workloads.step_shape import StepShape

BATCH, CONTEXT = 64, 131_072
REPEATS = 50
# A timer has seen some steps of the kind before those that are measured.
SEEN, NEW = 10, 20
ENGINES = ("sglang-0.5", "vllm-0.22", "trtllm-1.3")


def price(fidelity: str = "tile", batch: int = BATCH, context: int = CONTEXT) -> object:
    """One decode step of V4-Pro on 8 x B200, from the question to the result."""
    asked = ask(
        model="v4-pro", chip="b200", count=8, batch=batch, context=context, fidelity=fidelity,
        engine="ideal",
    )  # fmt: skip
    return cost_step(asked)


def decode(rng: random.Random) -> StepShape:
    """Equal requests of one token."""
    return StepShape.uniform(rng.randint(8, 128), 1, rng.randint(1_000, 131_071))


def mixed(rng: random.Random) -> StepShape:
    """Decodes of different lengths beside a chunk of a prompt."""
    lengths = [rng.randint(1_000, 131_071) for _ in range(rng.randint(8, 64))]
    return StepShape(((rng.randint(100, 2_000), 0), *((1, past) for past in lengths)))


def new_seconds(timer: StepTimer, shape: Callable[[random.Random], StepShape]) -> float:
    """Median time of steps of a kind that the timer has not seen."""
    rng = random.Random(0)
    for _ in range(SEEN):
        timer.total_ps(shape(rng))
    steps = [shape(rng) for _ in range(NEW)]
    return statistics.median(seconds_of(lambda s=s: timer.total_ps(s)) for s in steps)


def measured() -> dict[str, Any]:
    """Seconds of each kind of step: the first in full, then by the deployment's timer."""
    found: dict[str, Any] = {"first": seconds_of(price)}
    asked = ask(model="v4-pro", chip="b200", count=8, batch=BATCH, context=CONTEXT, engine="ideal")
    timer = StepTimer(asked)
    timer.asked_ps()
    found["new"] = new_seconds(timer, decode)
    found["mixed"] = new_seconds(timer, mixed)
    for engine in ENGINES:
        asked = ask(model="v4-pro", chip="b200", count=8, batch=BATCH, engine=engine)
        other = StepTimer(asked)
        found[engine] = new_seconds(other, decode)
    found["repeated"] = median_seconds(timer.asked_ps, REPEATS)
    if "cycle" in FIDELITIES:
        found["cycle"] = seconds_of(lambda: price("cycle"))
    return found


if __name__ == "__main__":
    json.dump(measured(), sys.stdout)
