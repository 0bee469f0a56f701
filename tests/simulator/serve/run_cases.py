"""Whole runs on a clock by formula: a scenario, its deployment by hand, and logs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from simulator.serve.deployment import DeployedReplica
from simulator.serve.request_log import COLUMNS, RequestLog
from simulator.serve.resources import Resource
from simulator.serve.run import ServingRun, run_scenario
from simulator.serve.scenario import FixedShape, Scenario, Traffic
from simulator.serve.scheduler_rule import SchedulerRule
from simulator.serve.step_log import StepLog
from tests.simulator.serve.serve_cases import LineClock, trace_of


def scenario_of(**keys: Any) -> Scenario:
    made = FixedShape(input_tokens=1, output_tokens=1, requests=1, rate_per_s=1.0)
    base = {"name": "by hand", "model": "v4-flash", "chip": "h200"}
    return Scenario(**{**base, "traffic": Traffic(made=made), **keys})


def deployment_of(
    rule: SchedulerRule | None = None, resources: Sequence[Resource] = (), clock: Any = None
) -> DeployedReplica:
    rule = rule or SchedulerRule()
    slots = Resource(name="requests", capacity=float(rule.max_requests), fixed=1.0)
    given = {
        "clock": clock or LineClock(),
        "resources": (*resources, slots),
        "rule": rule,
        "lanes": 1,
    }
    # What only the sizing of memory needs stays open.
    return DeployedReplica(
        **{
            field.name: given.get(field.name)
            for field in fields(DeployedReplica)
            if field.name in given or field.default is MISSING
        }
    )


def run_of(
    rows: Sequence[tuple[int, int, int]],
    rule: SchedulerRule | None = None,
    resources: Sequence[Resource] = (),
    **keys: Any,
) -> ServingRun:
    """Rows of (arrival ns, input, output), served by `LineClock`."""
    rule = rule or SchedulerRule()
    scheduler = scenario_of().scheduler.model_copy(update={"order": rule.order})
    scenario = scenario_of(scheduler=scheduler, **keys)
    return run_scenario(scenario, deployment=deployment_of(rule, resources), trace=trace_of(rows))


def run_by_hand(
    requests: Sequence[dict[str, int]],
    steps: Sequence[Sequence[tuple[int, ...]]],
    *,
    refused: dict[str, int] | None = None,
    chips: int = 1,
    rule: SchedulerRule | None = None,
    **keys: Any,
) -> ServingRun:
    """Logs as given: columns of requests (the rest -1), records of `StepLog.add` by lane."""
    log = RequestLog(len(requests))
    for row, values in enumerate(requests):
        assert set(values) <= set(COLUMNS)
        defaults = {"hit_tokens": 0, "recomputed_tokens": 0, "preemptions": 0, "replica": 0}
        for name, value in {**defaults, **values}.items():
            log.column(name)[row] = value
    lanes = []
    for records in steps:
        lane = StepLog()
        for record in records:
            lane.add(*record)
        lanes.append(lane)
    return ServingRun(
        scenario=scenario_of(**keys),
        trace=trace_of([(0, 1, 1)] * len(requests)),
        deployment=deployment_of(rule),
        requests=log,
        steps=tuple(lanes),
        refused=refused or {},
        end_ns=int(np.max(log.column("finish_ns"), initial=0)),
        chips=chips,
    )
