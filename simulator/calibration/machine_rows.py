"""Measured rows as the simulated machine runs their calls, in place of the closed forms."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwmodels.machine.live import to_ps
from hwmodels.machine.spec import machine_of
from hwmodels.machine.steady import KernelTime, kernel_time
from simulator.basis.errors import InputError
from simulator.calibration.dispatch import MeasuredRow, RowSet, chip_of
from simulator.calibration.fit import absolute_errors
from simulator.calibration.measured_rows import STREAMS, calls_of
from simulator.calibration.validation import Row, validate_tables
from simulator.cost.machine_calls import call_program
from simulator.cost.machine_price import causes_of, states_of
from simulator.cost.machine_view import STATE_PLACES
from simulator.kernels.causes import shared_out
from simulator.kernels.constants_file import held_constants

# From so many rows on a second process pays for its start.
MANY_ROWS = 60
PROCESSES = 2


@dataclass(frozen=True, slots=True)
class MachineRow:
    """Seconds of a row on the machine and its largest cause, or why the machine cannot run it."""

    seconds: float = 0.0
    cause: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class BesideTile:
    """The same rows by closed forms, and how far the machine's times are from those.

    Changes are of |machine's time / closed form's time - 1|.
    """

    tile_median_abs_error: float
    median_abs_change: float
    p90_abs_change: float


def machine_row(row: MeasuredRow) -> MachineRow:
    """Time of a row: stages one after the other, in each its longest stream.

    Assumes: streams of a module side by side do not slow each other down.
    """
    chip = chip_of(row.chip)
    streams: dict[int, list[KernelTime]] = {}
    try:
        with held_constants({}):
            for slot, call in calls_of(row.columns, chip):
                time = kernel_time(call_program(call, chip), machine_of(chip), chip.tdp_w)
                streams.setdefault(slot, []).append(time)
    except InputError as error:
        return MachineRow(fault=error.message)
    longest: dict[int, list[KernelTime]] = {}
    for slot, times in sorted(streams.items()):
        stage = slot // STREAMS
        longest[stage] = max(longest.get(stage, []), times, key=_seconds)
    whole = [time for times in longest.values() for time in times]
    seconds = _seconds(whole)
    causes = causes_of(shared_out(to_ps(seconds), states_of(whole), STATE_PLACES))
    return MachineRow(seconds, max(causes, key=lambda cause: causes[cause]))


def _seconds(times: Sequence[KernelTime]) -> float:
    return sum(time.seconds for time in times)


def machine_rows(rows: RowSet, seed: int) -> Generator[tuple[int, MachineRow], None, None]:
    """(number, time) of every row as they come, in an order that mixes files and families.

    What has come at any moment is a sample of all. Many rows are run by two processes.
    """
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    if len(rows) < MANY_ROWS:
        yield from ((number, machine_row(rows.rows[number])) for number in order)
        return
    from joblib import Parallel, delayed

    running = Parallel(n_jobs=PROCESSES, return_as="generator_unordered", batch_size=1)(
        delayed(_numbered)(number, rows.rows[number]) for number in order
    )
    try:
        yield from running
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is left early is what is wanted
            running.close()


def _numbered(number: int, row: MeasuredRow) -> tuple[int, MachineRow]:
    return number, machine_row(row)


class MachinePredictions:
    """Rows predicted by the machine as they come: what there is so far is a result at any time."""

    def __init__(self, rows: RowSet, seed: int = 0) -> None:
        self._seed = seed
        tile = validate_tables(rows, cross=False, progress=lambda _: None)
        by_line = {(row.file, row.line): row for row in tile}
        self.rows = rows.chosen(lambda row: (row.file, row.line) in by_line)
        self._tile = [by_line[row.file, row.line] for row in self.rows.rows]
        self._found: dict[int, MachineRow] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> int:
        """Rows that were run."""
        return len(self._found)

    def run(self) -> Generator[None, None, None]:
        """Run all rows; goes on after each."""
        for number, found in machine_rows(self.rows, self._seed):
            self._found[number] = found
            yield

    def predicted(self) -> list[Row]:
        """Rows that were run, with their times in place of the closed forms' and those beside."""
        return [
            _in_place(self._tile[number], found)
            for number, found in sorted(self._found.items())
            if not found.fault
        ]

    def faults(self) -> dict[tuple[str, str, str], int]:
        """How many rows the machine cannot run, by file, chip and reason."""
        counts: dict[tuple[str, str, str], int] = {}
        for number, found in self._found.items():
            if found.fault:
                row = self._tile[number]
                key = (row.file, row.chip, found.fault)
                counts[key] = counts.get(key, 0) + 1
        return dict(sorted(counts.items()))


def _in_place(tile: Row, found: MachineRow) -> Row:
    """The machine's time, with the family's interval around it."""
    factor = found.seconds / tile.predicted_s
    return replace(
        tile,
        predicted_s=found.seconds,
        low_s=tile.low_s * factor,
        high_s=tile.high_s * factor,
        cause=found.cause,
        tile_s=tile.predicted_s,
    )


def beside_tile(rows: Sequence[Row]) -> BesideTile:
    """Errors of the closed forms on the same rows, of which there is at least one."""
    tile = [replace(row, predicted_s=row.tile_s).log_error for row in rows]
    change = np.abs([row.predicted_s / row.tile_s - 1.0 for row in rows])
    return BesideTile(
        tile_median_abs_error=float(np.median(absolute_errors(np.array(tile)))),
        median_abs_change=float(np.median(change)),
        p90_abs_change=float(np.quantile(change, 0.9)),
    )
