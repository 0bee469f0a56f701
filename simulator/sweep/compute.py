"""Runs one point, here or in another process; whatever goes wrong becomes its result."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from simulator.basis.errors import InputError
from simulator.serve.deployment import Deployment, deploy
from simulator.serve.run import require_finished, run_scenario
from simulator.serve.scenario import Scenario
from simulator.serve.traffic import trace_of
from simulator.sweep.inputs import canonical, digest_of, inputs_of
from simulator.sweep.row import Value, point_row
from workloads.traffic.trace import Trace

Status = Literal["done", "refused", "failed"]
# What a deployment does not depend on: points that differ in these alone share one.
_NOT_DEPLOYED = ("name", "traffic", "seed", "routing", "replicas", "service_levels", "prices")
_TRACES, _DEPLOYMENTS = 2, 8


@dataclass(frozen=True, slots=True)
class Task:
    """A point to be run, under the hash of its inputs."""

    digest: str
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
        found = digest_of(canonical(inputs_of(task.scenario)))
    except InputError as error:
        said = f"worker on {host}: {error.message}; put the file there under the same path"
        return Outcome(digest=task.digest, status="failed", error=said)
    if found != task.digest:
        said = (
            f"worker on {host} has another version of v4sim, or another file under the same path; "
            "install the same there and start the worker again"
        )
        return Outcome(digest=task.digest, status="failed", error=said)
    return compute(task)


def _row(scenario: Scenario) -> dict[str, Value]:
    inputs = inputs_of(scenario)
    traffic = inputs["traffic"]
    # What is read is decided by the file's content and these options.
    read = [traffic[name] for name in ("trace", "first", "spread_seed")]
    trace = None if traffic["trace"] is None else _trace(_Keyed(json.dumps(read), scenario))
    for name in _NOT_DEPLOYED:
        del inputs[name]
    deployment = _deployment(_Keyed(json.dumps(inputs), scenario))
    run = run_scenario(scenario, deployment=deployment, trace=trace)
    require_finished(run)
    return point_row(run)


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A scenario of which only what the key says is looked at."""

    key: str
    scenario: Scenario = field(compare=False)


@lru_cache(maxsize=_DEPLOYMENTS)
def _deployment(asked: _Keyed) -> Deployment:
    return deploy(asked.scenario)


@lru_cache(maxsize=_TRACES)
def _trace(asked: _Keyed) -> Trace:
    return trace_of(asked.scenario)
