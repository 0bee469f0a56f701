"""The machine's streams and products beside measured rates: what holds with a margin."""

from __future__ import annotations

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.kernels.constants_file import constants_for
from tests.validation.machine_rates import Rate, measured, product_rates, stream_rates

FOUND = measured()
# Of the others, which differ little from these, the command prints the table.
CHIPS = ("h100", "h200", "b200", "gb200")


@pytest.fixture(scope="module")
def streams() -> list[Rate]:
    return stream_rates(CHIPS)


@pytest.fixture(scope="module")
def products() -> list[Rate]:
    return product_rates()


def test_every_row_has_a_source_and_a_run_or_a_reason() -> None:
    assert {row.source for row in FOUND.streams} <= FOUND.sources.keys()
    rows = (*FOUND.streams, *FOUND.products)
    assert {row.not_covered for row in rows if row.not_covered} == FOUND.reasons.keys()
    assert len(FOUND.streams) == 29
    assert len(FOUND.products) == 15


def test_best_streams_of_kernels_are_met(streams: list[Rate]) -> None:
    for what in ("quantise", "keys of GQA"):
        errors = [abs(r.error) for r in streams if r.what.startswith(what)]
        assert len(errors) >= 4
        assert max(errors) < 0.08


def test_a_plain_stream_is_no_slower_than_a_measured_one(streams: list[Rate]) -> None:
    assert min(r.error for r in streams) > -0.03
    for r in streams:
        peak = find_chip(r.chip).hbm_bandwidth_bytes_per_s / 1e9
        assert 0.85 * peak < (r.machine or 0.0) < 1.01 * peak


def test_best_products_are_near(products: list[Rate]) -> None:
    errors = [r.error for r in products if r.machine is not None]
    assert len(errors) == len(products) - 1
    assert np.median(np.abs(errors)) < 0.25
    assert min(errors) > -0.45
    # A search over shapes and kernels finds more than one kernel at the shape that it found; cores
    # without a kernel that was measured have another's, and what those lose there is not known.
    own = [r.error for r in products if r.machine is not None and not borrowed(r.chip)]
    assert max(own) < 0.0
    assert max(errors) < 0.3


def borrowed(chip: str) -> bool:
    return not constants_for("gemm_bf16", find_chip(chip)).calibrated
