import math

import numpy as np
import pytest

from tests.workloads.ops.hand import (
    RAGGED_POSITIONS,
    UNIFORM,
    bf16,
    demand,
    infer,
    refuses,
    run,
)
from workloads.ops import Rope
from workloads.ops.rope import RotaryTable
from workloads.step_shape import StepShape
from workloads.work import Work

TABLE = RotaryTable(dims=4, theta=100.0)  # frequencies 1 and 1/10
V4_YARN = RotaryTable(64, 160_000.0, 16.0, 65_536, 32.0, 1.0)


def rotated(row, position, frequencies):
    """Pair by pair as complex numbers, the dims before them untouched."""
    out, first = list(row), len(row) - 2 * len(frequencies)
    for i, frequency in enumerate(frequencies):
        angle = position * frequency
        z = complex(row[first + 2 * i], row[first + 2 * i + 1])
        z *= complex(math.cos(angle), math.sin(angle))
        out[first + 2 * i], out[first + 2 * i + 1] = z.real, z.imag
    return out


class TestRotaryTable:
    def test_plain_frequencies_are_powers_of_theta(self):
        assert TABLE.frequencies() == pytest.approx([1.0, 0.1])
        plain = RotaryTable(64, 10_000.0).frequencies()
        assert plain == pytest.approx([10_000 ** (-2 * i / 64) for i in range(32)])

    def test_yarn_keeps_fast_pairs_divides_slow_ones_and_ramps_between(self):
        # Pair of r turns in 65536 positions: 64 ln(65536 / (2 pi r)) / (2 ln 160000),
        # 15.46 for 32 turns and 24.71 for one: the ramp runs from pair 15 to pair 25.
        plain = [160_000 ** (-2 * i / 64) for i in range(32)]
        expected = []
        for i, frequency in enumerate(plain):
            share = min(max((i - 15) / (25 - 15), 0.0), 1.0)
            expected.append(frequency / 16 * share + frequency * (1 - share))
        assert V4_YARN.frequencies() == pytest.approx(expected, rel=1e-14)
        assert V4_YARN.frequencies()[15] == pytest.approx(plain[15])
        assert V4_YARN.frequencies()[25] == pytest.approx(plain[25] / 16)


class TestRope:
    def test_shape_is_kept(self):
        x = bf16(("tokens", 10), ("heads", 2), ("head_dim", 6))
        assert infer(Rope(TABLE), [x]) == (x,)
        # Entries completed: 6 // 4 = 1, 6 // 4 - 3 // 4 = 1, 131 // 4 - 130 // 4 = 0.
        entries = bf16(("entries", 2), ("head_dim", 6))
        assert infer(Rope(TABLE, ratio=4), [entries]) == (entries,)

    def test_refuses_fewer_dims_than_are_rotated_or_an_odd_number(self):
        x = bf16(("tokens", 10), ("head_dim", 3))
        refuses(Rope(TABLE), [x], naming=["4 rotary dims", "'head_dim', 3"])
        wide = bf16(("tokens", 10), ("head_dim", 9))
        refuses(Rope(RotaryTable(5, 100.0)), [wide], naming=["5 rotary dims"])

    def test_refuses_rows_that_have_no_position(self):
        refuses(Rope(TABLE), [bf16(("tokens", 9), ("head_dim", 6))], naming=["10 rows", "9"])
        entries = bf16(("entries", 3), ("head_dim", 6))
        refuses(Rope(TABLE, ratio=4), [entries], naming=["2 rows", "'entries', 3"])

    def test_value_turns_pairs_of_the_last_dims_by_position(self):
        x = np.arange(10 * 2 * 6, dtype=float).reshape(10, 2, 6) + 1
        (y,) = run(Rope(TABLE), [x])
        for row, position in enumerate(RAGGED_POSITIONS):
            for head in range(2):
                expected = rotated(x[row, head], position, [1.0, 0.1])
                assert y[row, head] == pytest.approx(expected, rel=1e-13)

    def test_value_of_the_inverse_undoes_it(self):
        x = np.random.default_rng(0).normal(size=(10, 2, 6))
        (y,) = run(Rope(TABLE), [x])
        (back,) = run(Rope(TABLE, inverse=True), [y])
        assert back == pytest.approx(x, abs=1e-14)
        assert np.abs(y - x).max() > 0.5

    def test_value_of_entries_turns_by_the_first_token_of_their_own_block(self):
        step = StepShape(((9, 3), (2, 4), (4, 8)))  # entries 0, 1, 2; none; 2
        x = np.ones((4, 4))
        (y,) = run(Rope(TABLE, ratio=4), [x], step)
        for row, position in enumerate((0, 4, 8, 8)):
            assert y[row] == pytest.approx(rotated([1, 1, 1, 1], position, [1.0, 0.1]))

    def test_demand(self):
        # Of each vector 4 dims: 2 pairs, six operations a pair; sine and cosine of 2 angles a row.
        x = bf16(("tokens", 10), ("heads", 2), ("head_dim", 6))
        assert demand(Rope(TABLE), [x]) == Work(
            vector_ops=10 * 2 * 2 * 6,
            special_ops=10 * 2 * 2,
            input_bytes=(10 * 2 * 6 * 2,),
            output_bytes=(10 * 2 * 6 * 2,),
        )

    def test_demand_of_a_uniform_step_that_completes_nothing(self):
        none = bf16(("entries", 0), ("head_dim", 6))
        assert demand(Rope(TABLE, ratio=4), [none], step=UNIFORM) == Work(
            input_bytes=(0,), output_bytes=(0,)
        )
        q = bf16(("tokens", 2), ("head_dim", 6))
        assert demand(Rope(TABLE), [q], step=UNIFORM).vector_ops == 2 * 2 * 6
