"""The step function of a rate: streams add up, areas are amounts."""

from __future__ import annotations

import pytest

from reports.rates import mean_rates, rate_quantiles, rate_series
from tests.reports.factory import make_kernel, make_step


def test_streams_that_run_together_add_up() -> None:
    kernels = [make_kernel("a", 0, 100), make_kernel("b", 50, 150, stream=1)]
    series = rate_series(kernels, [100, 200], 200)
    assert series.start_ps == (0, 50, 100, 150, 200)
    assert series.per_second == (1e12, 3e12, 2e12, 0, 0)
    assert series.running == ((0,), (0, 1), (1,), (), ())


def test_the_area_is_the_amount() -> None:
    result = make_step()
    amounts = [kernel.dram_bytes for kernel in result.kernels]
    series = rate_series(result.kernels, amounts, result.total_ps)
    lengths = [b - a for a, b in zip(series.start_ps, series.start_ps[1:], strict=False)]
    area = sum(rate * length for rate, length in zip(series.per_second, lengths, strict=False))
    assert area / 1e12 == pytest.approx(sum(amounts), rel=1e-12)
    assert series.unplaced == 0
    assert max(series.per_second) <= result.peaks.dram_bytes_per_s


def test_what_takes_no_time_is_reported_not_dropped() -> None:
    kernels = [make_kernel("a", 0, 10), make_kernel("b", 10, 10)]
    assert rate_series(kernels, [5, 7], 10).unplaced == 7


def test_means_between_edges() -> None:
    kernels = [make_kernel("a", 0, 100), make_kernel("b", 150, 200)]
    series = rate_series(kernels, [100, 100], 200)
    assert mean_rates(series, [0, 100, 200]) == [1e12, 1e12]
    assert mean_rates(series, [0, 50, 150, 200]) == [1e12, 0.5e12, 2e12]


def test_quantiles_between_edges_weigh_by_time() -> None:
    kernels = [make_kernel("a", 0, 60), make_kernel("b", 60, 100)]
    series = rate_series(kernels, [60, 400], 200)
    assert rate_quantiles(series, [0, 100, 200], 0.6) == [1e12, 0]
    assert rate_quantiles(series, [0, 100, 200], 0.61) == [10e12, 0]
    assert rate_quantiles(series, [0, 200], 0.5) == [0]
