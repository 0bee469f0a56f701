"""Rows of a memory measurement for JSON and CSV: flat, units in the names."""

from __future__ import annotations

from typing import Any

from hwmodels.bandwidth.measurement import Measurement
from hwmodels.bandwidth.sweep import SweepPoint
from reports.table import Column, Table


def measurement_row(found: Measurement) -> dict[str, Any]:
    """Everything that was asked and found, flat."""
    access, controller = found.access, found.access.controller
    return {
        "pattern": access.kind,
        "granule_bytes": access.granule_bytes,
        "align_bytes": access.align if access.kind == "gather" else 0,
        "write_fraction": access.write_fraction,
        "outstanding": found.outstanding,
        "bytes_in_flight": found.bytes_in_flight,
        "useful_bytes_per_s": found.useful_bytes_per_s,
        "useful_fraction": found.useful_fraction,
        "achieved_bytes_per_s": found.achieved_bytes_per_s,
        "achieved_fraction": found.achieved_fraction,
        "latency_p50_ns": found.latency_p50_ns,
        "latency_p99_ns": found.latency_p99_ns,
        "row_hit_rate": found.row_hit_rate,
        **{f"time_{name}_fraction": part for name, part in found.parts.items()},
        "preset": found.preset,
        "channels_simulated": found.channels,
        "mapping": controller.mapping,
        "interleave_bytes": controller.interleave_bytes,
        "queued_ns": controller.queued_ns,
        "refresh": controller.refresh,
        "seed": access.seed,
    }


def sweep_row(point: SweepPoint) -> dict[str, Any]:
    """As `measurement_row`, with the table that the point belongs to."""
    return {
        "table": point.group,
        "row": point.label,
        "slot_bytes": point.slot_bytes,
        **measurement_row(point.measurement),
    }


def rows_table(rows: list[dict[str, Any]]) -> Table:
    """The rows as a typed table."""
    columns = []
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(value, str):
            columns.append(Column(name=name, type="string", values=values))
        elif isinstance(value, int):
            columns.append(Column(name=name, type="int64", values=values, unit=_unit(name)))
        else:
            columns.append(Column(name=name, type="float64", values=values, unit=_unit(name)))
    return Table(columns=tuple(columns))


def _unit(name: str) -> str:
    for ending, unit in (("_bytes_per_s", "B/s"), ("_bytes", "B"), ("_ns", "ns")):
        if name.endswith(ending):
            return unit
    return ""
