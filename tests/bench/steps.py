"""Steps priced in this process: run as a program, so that the first one is the first."""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from simulator.cost.question import FIDELITIES, ask
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer
from tests.bench.line import median_seconds, seconds_of
from workloads.step_shape import StepShape

BATCH, CONTEXT = 64, 131_072
NEW = ((48, 98_304), (32, 65_536), (96, 120_000), (17, 30_001), (80, 50_000))
REPEATS = 50


def price(fidelity: str = "tile", batch: int = BATCH, context: int = CONTEXT) -> object:
    """One decode step of V4-Pro on 8 x B200, from the question to the result."""
    asked = ask(
        model="v4-pro", chip="b200", count=8, batch=batch, context=context, fidelity=fidelity
    )
    return cost_step(asked.question, asked.config, asked.chip, asked.node)


def measured() -> dict[str, Any]:
    """Seconds of each kind of step: the first in full, then by the deployment's timer."""
    found: dict[str, Any] = {"first": seconds_of(price)}
    asked = ask(model="v4-pro", chip="b200", count=8, batch=BATCH, context=CONTEXT)
    timer = StepTimer(asked.question, asked.config, asked.chip, asked.node)
    timer.asked_ps()
    steps = [StepShape.uniform(batch, 1, context - 1) for batch, context in NEW]
    found["new"] = statistics.median(seconds_of(lambda s=s: timer.total_ps(s)) for s in steps)
    found["repeated"] = median_seconds(timer.asked_ps, REPEATS)
    if "cycle" in FIDELITIES:
        found["cycle"] = seconds_of(lambda: price("cycle"))
    return found


if __name__ == "__main__":
    json.dump(measured(), sys.stdout)
