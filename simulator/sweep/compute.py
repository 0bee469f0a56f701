"""Runs one point, here or in another process; whatever goes wrong becomes its result."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from simulator.basis.errors import InputError
from simulator.serve.run import require_finished, run_scenario
from simulator.serve.scenario import Scenario
from simulator.serve.traffic import trace_of
from simulator.sweep.inputs import canonical, fact_hashes, inputs_of
from simulator.sweep.row import Value, point_row
from workloads.traffic.trace import Trace

Status = Literal["done", "refused", "failed"]
_TRACES = 2
_first_hash: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Task:
    """A point to be run: its canonical inputs, and their hash."""

    digest: str
    inputs: str
    scenario: Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a point.

    `refused`: it cannot be, and would be refused again; `failed`: something else went wrong, so a
    sweep that goes on tries it again. `row` is empty unless it is `done`.
    """

    digest: str
    status: Status
    error: str = ""
    row: dict[str, Value] = field(default_factory=dict)


Compute = Callable[[Task], Outcome]
# Writes an outcome to disk, with the inputs that led to it.
Keep = Callable[[Outcome, str], None]


def compute(task: Task) -> Outcome:
    """Run a point."""
    try:
        return Outcome(digest=task.digest, status="done", row=_row(task.scenario))
    except InputError as error:
        return Outcome(digest=task.digest, status="refused", error=error.message)
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Outcome(digest=task.digest, status="failed", error=said)


def compute_elsewhere(task: Task) -> Outcome:
    """Run a point on another machine, where its files and the product have to be the same."""
    host = socket.gethostname()
    try:
        found = canonical(inputs_of(task.scenario))
    except InputError as error:
        said = f"worker on {host}: {error.message}; put the file there under the same path"
        return Outcome(digest=task.digest, status="failed", error=said)
    if found != task.inputs:
        said = (
            f"worker on {host} has another version of v4sim, or another file under the same path; "
            "install the same there and start the worker again"
        )
        return Outcome(digest=task.digest, status="failed", error=said)
    if _has_changed(task.scenario):
        said = (
            f"worker on {host} has read an older model, chip or engine file under the same path, "
            "and remembers it; start the worker again"
        )
        return Outcome(digest=task.digest, status="failed", error=said)
    return compute(task)


def _has_changed(scenario: Scenario) -> bool:
    """Whether a file of facts is not the one that this process read first under its path."""
    hashes = fact_hashes(scenario)
    return any(_first_hash.setdefault(path, found) != found for path, found in hashes.items())


def _row(scenario: Scenario) -> dict[str, Value]:
    trace = None
    if scenario.traffic.trace is not None:
        # What is read is decided by the file's content and these options.
        traffic = inputs_of(scenario)["traffic"]
        read = [traffic[name] for name in ("trace", "first", "spread_seed")]
        trace = _trace(_Keyed(json.dumps(read), scenario))
    run = run_scenario(scenario, trace=trace)
    require_finished(run)
    return point_row(run)


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A scenario of which only what the key says is looked at."""

    key: str
    scenario: Scenario = field(compare=False)


@lru_cache(maxsize=_TRACES)
def _trace(asked: _Keyed) -> Trace:
    return trace_of(asked.scenario)
