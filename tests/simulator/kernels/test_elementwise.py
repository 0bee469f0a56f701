"""Elementwise kernels: bytes and operations over the cores."""

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.kernels.elementwise import elementwise_parts


def test_bytes_over_core_cycles():
    chip = find_chip("h200")
    parts = elementwise_parts(np.array([132 * 1.98e3]), np.zeros(1), chip, 10.0)
    assert parts.total[0] == pytest.approx(chip.launch_gap_s + 0.1e-6)


def test_memory_bounds_what_the_cache_does_not_hold():
    chip = find_chip("h100")
    moved = np.array([1e9])
    parts = elementwise_parts(moved, np.zeros(1), chip, 64.0)
    assert parts.total[0] == pytest.approx(chip.launch_gap_s + 1e9 / 3350e9)


def test_many_operations_lengthen_a_kernel():
    chip = find_chip("h200")
    moved = np.array([1e6])
    few, many = (elementwise_parts(moved, np.array([n]), chip, 10.0).total[0] for n in (0.0, 1e8))
    # Half the peak, since nothing fuses; the peak is at another clock.
    passed, worked = (
        1e6 / (10 * 132 * 1.98e9),
        2e8 / chip.vector_flops_per_s * chip.peak_clock_hz / 1.98e9,
    )
    assert many - few == pytest.approx(np.hypot(passed, worked) - passed)
