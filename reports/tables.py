"""The tables of a costed step: one row a launch, an operation, a kind of layer, and the totals.

`kernel_frame(result)` and its like are DataFrames; `kernel_table(result)` and its like are what
`write_csv` and `write_parquet` store, without loading pandas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.breakdown import SUMMED_FIELDS, GroupTotal, StepBreakdown, math_classes
from reports.step_json import question_json
from reports.table import Column, Table, to_frame, write_csv, write_parquet
from simulator.cost.result import RESOURCES, KernelRecord, StepResult
from simulator.kernels.causes import CAUSES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "kernel_frame",
    "kernel_table",
    "layer_kind_frame",
    "layer_kind_table",
    "operation_frame",
    "operation_table",
    "totals_frame",
    "totals_table",
    "write_csv",
    "write_parquet",
]

_NAMES = ("path", "name", "family", "scope", "kind")
_NODE_SEPARATOR = ";"


def kernel_table(result: StepResult, breakdown: StepBreakdown | None = None) -> Table:
    """One row a launch, in the order of the records.

    `critical_ps` is the part of the step that the launch decides, `busy_<resource>_ps` what each
    resource alone would need, `cause_<name>_ps` what the launch waited for, which adds up to its
    duration. A launch without FLOP of a class has 0 there.
    """
    kernels = result.kernels
    critical_ps = (breakdown or StepBreakdown(result)).critical_ps
    busy_names = {name for kernel in kernels for name in kernel.busy_ps}
    assert busy_names <= set(RESOURCES), f"busy times of unknown resources {busy_names}"
    columns = [
        *(_text(name, [getattr(kernel, name) for kernel in kernels]) for name in _NAMES),
        _whole("stream", [kernel.stream for kernel in kernels]),
        _whole("start_ps", [kernel.start_ps for kernel in kernels]),
        _whole("end_ps", [kernel.end_ps for kernel in kernels]),
        _whole("duration_ps", [kernel.duration_ps for kernel in kernels]),
        _whole("critical_ps", critical_ps),
        _whole("low_ps", [kernel.low_ps for kernel in kernels]),
        _whole("high_ps", [kernel.high_ps for kernel in kernels]),
        _text("priced_by", [kernel.priced_by for kernel in kernels]),
        _text("cut", [kernel.cut for kernel in kernels]),
        _whole("calibrated", [int(kernel.calibrated) for kernel in kernels]),
        _text("bound", [kernel.bound for kernel in kernels]),
        *_flops(result, kernels),
        *(_whole(name, [getattr(kernel, name) for kernel in kernels]) for name in SUMMED_FIELDS),
        *(
            _whole(f"busy_{name}_ps", [kernel.busy_ps.get(name, 0) for kernel in kernels])
            for name in RESOURCES
        ),
        *(
            _whole(f"cause_{name}_ps", [kernel.causes_ps.get(name, 0) for kernel in kernels])
            for name in CAUSES
        ),
        _text("nodes", [_joined(kernel) for kernel in kernels]),
    ]
    return Table(columns=tuple(columns), about=_about(result))


def operation_table(result: StepResult, breakdown: StepBreakdown | None = None) -> Table:
    """One row an operation (launches of one name), the largest part of the step first."""
    breakdown = breakdown or StepBreakdown(result)
    return _group_table(result, "operation", breakdown.by_operation)


def layer_kind_table(result: StepResult, breakdown: StepBreakdown | None = None) -> Table:
    """One row a kind of layer, the largest part of the step first."""
    breakdown = breakdown or StepBreakdown(result)
    return _group_table(result, "kind", breakdown.by_layer_kind)


def totals_table(result: StepResult, breakdown: StepBreakdown | None = None) -> Table:
    """One row: the whole step."""
    breakdown = breakdown or StepBreakdown(result)
    return _group_table(result, "step", (breakdown.total,))


def kernel_frame(result: StepResult) -> pd.DataFrame:
    """`kernel_table` as a DataFrame."""
    return to_frame(kernel_table(result))


def operation_frame(result: StepResult) -> pd.DataFrame:
    """`operation_table` as a DataFrame."""
    return to_frame(operation_table(result))


def layer_kind_frame(result: StepResult) -> pd.DataFrame:
    """`layer_kind_table` as a DataFrame."""
    return to_frame(layer_kind_table(result))


def totals_frame(result: StepResult) -> pd.DataFrame:
    """`totals_table` as a DataFrame."""
    return to_frame(totals_table(result))


def _group_table(result: StepResult, key: str, groups: Sequence[GroupTotal]) -> Table:
    total_ps = result.total_ps
    columns = [
        _text(key, [group.key for group in groups]),
        _whole("launches", [group.launches for group in groups]),
        _whole("critical_ps", [group.critical_ps for group in groups]),
        Column(
            name="critical_share",
            type="float64",
            values=[group.critical_ps / total_ps if total_ps else 0.0 for group in groups],
        ),
        _whole("low_ps", [group.low_ps for group in groups]),
        _whole("high_ps", [group.high_ps for group in groups]),
        _whole("duration_ps", [group.duration_ps for group in groups]),
        _text("bound", [group.bound for group in groups]),
        *(
            _whole(
                f"critical_{name}_ps", [group.critical_ps_by_bound.get(name, 0) for group in groups]
            )
            for name in RESOURCES
        ),
        *(
            _whole(
                f"cause_{name}_ps", [group.critical_ps_by_cause.get(name, 0) for group in groups]
            )
            for name in CAUSES
        ),
        *_flops(result, groups),
        *(_whole(name, [group.amounts[name] for group in groups]) for name in SUMMED_FIELDS),
    ]
    return Table(columns=tuple(columns), about=_about(result))


def _flops(result: StepResult, rows: Sequence[KernelRecord | GroupTotal]) -> list[Column]:
    return [
        _whole(f"flops_{name}", [row.flops.get(name, 0) for row in rows], "FLOP")
        for name in math_classes(result)
    ]


def _about(result: StepResult) -> dict[str, str]:
    return {
        "question": json.dumps(question_json(result.question)),
        "total_ps": str(result.total_ps),
        "tokens": str(result.tokens),
    }


def _text(name: str, values: Sequence[str]) -> Column:
    return Column(name=name, type="string", values=values)


def _whole(name: str, values: Sequence[int], unit: str = "") -> Column:
    if not unit:
        suffix = name.rsplit("_", 1)[-1]
        unit = {"ps": "ps", "bytes": "B", "ops": "op", "launches": "launch"}.get(suffix, "")
    return Column(name=name, type="int64", values=values, unit=unit)


def _joined(kernel: KernelRecord) -> str:
    assert not any(_NODE_SEPARATOR in node for node in kernel.nodes), kernel.nodes
    return _NODE_SEPARATOR.join(kernel.nodes)
