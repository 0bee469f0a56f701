"""Elementwise kernels, and the memory of computed columns."""

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.remembered import KEPT, Remembered
from tests.simulator.kernels.attention_support import with_clock


def test_bytes_over_core_cycles():
    chip = find_chip("h200")
    parts = elementwise_parts(np.array([132 * 1.98e3]), chip, 10.0)
    assert parts.total[0] == pytest.approx(chip.launch_gap_s + 0.1e-6)


def test_memory_bounds_what_the_cache_does_not_hold():
    chip = find_chip("h100")
    moved = np.array([1e9])
    parts = elementwise_parts(moved, chip, 64.0)
    assert parts.total[0] == pytest.approx(chip.launch_gap_s + 1e9 / 3350e9)


def test_same_columns_are_computed_once():
    remembered, chip, computed = Remembered(), find_chip("h200"), []

    def compute():
        computed.append(1)
        return len(computed)

    columns = (np.arange(4), "name")
    assert [remembered.get(columns, chip, compute) for _ in range(3)] == [1, 1, 1]
    assert remembered.get((np.arange(5), "name"), chip, compute) == 2
    assert remembered.get(columns, with_clock(chip, 1.1), compute) == 3
    for n in range(KEPT):
        remembered.get((np.arange(10 + n), "name"), chip, compute)
    assert remembered.get(columns, chip, compute) == KEPT + 4
