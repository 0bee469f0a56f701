"""Predictions of the carried DRAM runs, by configuration, channels and pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hwmodels.dram.table import RowPrediction, predict_row, read_table

TABLE = Path(__file__).parent / "dram" / "dram_sim_results.csv"


@dataclass(frozen=True, slots=True)
class DramError:
    """A run's useful bandwidth, ours less theirs as a share of the peak, and median latency."""

    config: str
    channels: int
    pattern: str
    bandwidth: float
    p50: float


@dataclass(frozen=True, slots=True)
class DramStatistics:
    """Absolute errors of some runs."""

    n: int
    bandwidth_median: float
    bandwidth_worst: float
    p50_median: float
    p50_worst: float


def dram_errors() -> list[DramError]:
    """Every row's pattern run on the model, in the order of the table."""
    return [_error(predict_row(row)) for row in read_table(TABLE)]


def _error(found: RowPrediction) -> DramError:
    row = found.row
    return DramError(row.config, row.channels, row.pattern, found.useful_error, found.p50_error)


def dram_statistics(errors: Sequence[DramError]) -> DramStatistics:
    """Median and worst of at least one run."""
    bandwidth = np.abs([error.bandwidth for error in errors])
    p50 = np.abs([error.p50 for error in errors])
    return DramStatistics(
        len(errors),
        float(np.median(bandwidth)),
        float(bandwidth.max()),
        float(np.median(p50)),
        float(p50.max()),
    )
