"""Rows on the machine: stages add up, streams run side by side, faults are counted."""

from __future__ import annotations

import pytest

from hwmodels.machine.steady import KernelTime, LaunchTime
from simulator.basis.errors import UnsupportedError
from simulator.calibration import machine_rows
from simulator.calibration.dispatch import MeasuredRow, RowSet
from simulator.calibration.machine_rows import MachinePredictions, MachineRow, machine_row
from simulator.calibration.measured_rows import STREAMS
from tests.simulator.cost.test_machine_view import machine_result

COLUMNS = {
    **{"chip": "h200", "engine": "nccl-2.29.2", "op": "nccl", "kernel_source": "NCCL"},
    **{"nccl_dtype": "half", "num_gpus": 8.0, "op_name": "all_gather", "message_size": 4096.0},
}


def row(line: int = 2) -> MeasuredRow:
    return MeasuredRow("collective.csv", line, dict(COLUMNS), 9e-6, "nccl_ring")


def time_of(microseconds: float, state: str) -> KernelTime:
    launch = LaunchTime(microseconds * 1e6, machine_result({state: 100}), 0.0)
    return KernelTime(microseconds * 1e-6, 0.0, (launch,))


def test_stages_add_up_and_the_longest_stream_of_each_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Stage 0: streams of 3 + 2 and 4 us; stage 1: one stream of 6 us.
    calls = [(0, 3.0), (0, 2.0), (1, 4.0), (STREAMS, 6.0)]
    states = {3.0: "memory", 2.0: "memory", 4.0: "matrix", 6.0: "wait"}
    monkeypatch.setattr(machine_rows, "calls_of", lambda columns, chip: calls)
    monkeypatch.setattr(machine_rows, "call_program", lambda call, chip: call)
    monkeypatch.setattr(machine_rows, "kernel_time", lambda call, *_: time_of(call, states[call]))
    found = machine_row(row())
    assert found.seconds == pytest.approx(11e-6)
    assert found.cause == "serial"


def test_a_row_of_a_real_kernel_takes_its_stored_constants() -> None:
    predictions = MachinePredictions(RowSet((row(),)))
    assert list(predictions.run()) == [None]
    (found,) = predictions.predicted()
    assert found.predicted_s == pytest.approx(found.tile_s, rel=0.01)
    assert found.low_s < found.predicted_s < found.high_s
    assert predictions.faults() == {}


def test_what_the_machine_cannot_run_is_counted_by_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedError("a block needs more")

    monkeypatch.setattr(machine_rows, "call_program", refuse)
    assert machine_row(row()) == MachineRow(fault="a block needs more")
    predictions = MachinePredictions(RowSet((row(), row(3))))
    assert len(list(predictions.run())) == len(predictions) == 2
    assert predictions.predicted() == []
    assert predictions.faults() == {("collective.csv", "h200", "a block needs more"): 2}


def test_two_processes_say_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RowSet((row(), row(3)))
    alone = dict(machine_rows.machine_rows(rows, 0))
    monkeypatch.setattr(machine_rows, "MANY_ROWS", 1)
    assert dict(machine_rows.machine_rows(rows, 0)) == alone
