"""Tables of a serving run: requests, steps, and time bins; and everything as JSON."""

from __future__ import annotations

import json
from typing import Any

from reports.served import Served
from reports.table import Column, Table
from simulator.serve.answer_time import answer_time_ns

SCHEMA = "v4sim.serve/1"


def request_table(served: Served) -> Table:
    """One row a request of the trace, in its order; times are -1 where they are not known."""
    run = served.run
    columns = {
        "request": range(len(run.requests)),
        "session": run.trace.session.tolist(),
        **{name: values.tolist() for name, values in run.requests.columns().items()},
    }
    return Table(columns=_whole(columns), about=_about(served))


def step_table(served: Served) -> Table:
    """Records of equal steps in a row, by lane and time."""
    lanes: list[int] = []
    columns: dict[str, list[int]] = {}
    for lane, log in enumerate(served.run.steps):
        for name, values in log.columns().items():
            columns.setdefault(name, []).extend(values.tolist())
        lanes += [lane] * len(log.start_ns)
    return Table(columns=_whole({"lane": lanes, **columns}), about=_about(served))


def _whole(columns: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(
        Column(name=name, type="int64", values=values, unit="ns" if name.endswith("_ns") else "")
        for name, values in columns.items()
    )


def _about(served: Served) -> dict[str, str]:
    return {"schema": SCHEMA, "scenario": json.dumps(served.run.scenario.model_dump(mode="json"))}


def serve_json(served: Served) -> dict[str, Any]:
    """Scenario, summary, bill, assumptions and notes; nothing is rounded."""
    return {
        "schema": SCHEMA,
        "scenario": served.run.scenario.model_dump(mode="json"),
        "chips": served.run.chips,
        **served.summary.to_json(),
        "lawful": served.summary.lawful,
        "answer_time_ns": answer_time_ns(served.run),
        "resource_use": _use(served),
        "money": served.bill.to_json(),
        **_transfers(served),
        "assumptions": list(served.assumptions),
        "notes": list(served.notes),
    }


def _transfers(served: Served) -> dict[str, Any]:
    """What prefill replicas sent to decode ones; nothing where there are none."""
    found = served.run.transfers
    if found is None:
        return {}
    return {
        "transfers": {
            "requests": found.requests,
            "sent_bytes": found.sent_bytes,
            "pool_bytes": dict(found.pool_bytes),
            "mean_wait_s": found.mean_wait_s,
            "link_bytes_per_s": found.link_bytes_per_s,
        }
    }


def _use(served: Served) -> dict[str, Any] | None:
    """Share of time by resource, over the bins of `over_time`; None where it was not asked for."""
    use = served.use
    if use is None:
        return None
    shares = {name: values.tolist() for name, values in use.shares.items()}
    return {"mean": use.mean, "costed_steps": use.points, "shares": shares}
