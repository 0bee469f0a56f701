"""Weights in their stored formats, against a loop over blocks that is slow and obviously right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from workloads.math_class import MATH_CLASSES
from workloads.tensor_type import TensorType
from workloads.weight_format import weight_format, weight_format_table
from workloads.weight_rounding import round_weight

# Every value of e2m1 and of e4m3 that is not negative.
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E4M3 = sorted(
    {m * 2.0**-9 for m in range(8)}
    | {(1 + m / 8) * 2.0**e for e in range(-6, 9) for m in range(8) if (1 + m / 8) * 2.0**e <= 448}
)


def nearest(value: float, grid: list[float]) -> float:
    best = min(grid, key=lambda g: abs(abs(value) - g))
    return math.copysign(best, value)


def slow(matrix: np.ndarray, name: str) -> np.ndarray:
    """Block by block, value by value; powers of two as scales."""
    rows, columns, grid = {
        "fp4": (1, 32, E2M1), "mxfp8": (1, 32, E4M3), "fp8": (128, 128, E4M3),
    }[name]  # fmt: skip
    out = np.empty_like(matrix)
    for top in range(0, matrix.shape[0], rows):
        for left in range(0, matrix.shape[1], columns):
            part = matrix[top : top + rows, left : left + columns]
            largest = np.abs(part).max()
            scale = 2.0 ** math.ceil(math.log2(largest / grid[-1])) if largest else 1.0
            for i, j in np.ndindex(part.shape):
                out[top + i, left + j] = nearest(part[i, j] / scale, grid) * scale
    return out


@pytest.mark.parametrize("name", ["fp4", "mxfp8", "fp8"])
@pytest.mark.parametrize("shape", [(3, 70), (130, 40)])
def test_float_formats_meet_the_slow_twin(name: str, shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(3).standard_normal(shape) * 3.0
    found, half = round_weight(matrix, weight_format(name))
    off = np.abs(found - slow(matrix, name))
    # Ties may go either way, by one step.
    assert (off <= 2 * half).all()
    assert (off == 0).mean() > 0.99


@given(st.integers(0, 2**31), st.sampled_from(sorted(weight_format_table())))
def test_no_value_is_off_by_more_than_half_a_step(seed: int, name: str) -> None:
    matrix = np.random.default_rng(seed).standard_normal((5, 130))
    found, half = round_weight(matrix, weight_format(name))
    assert (np.abs(found - matrix) <= half * (1 + 1e-9)).all()


def test_wider_scales_and_longer_groups_grow_the_error() -> None:
    matrix = np.random.default_rng(1).standard_normal((64, 512))

    def error(name: str, scale: float = 1.0) -> float:
        return float(np.abs(round_weight(matrix, weight_format(name), scale)[0] - matrix).mean())

    assert error("fp4") < error("fp4", 2.0) < error("fp4", 4.0)
    assert error("fp4-g16") < error("fp4-g32") < error("fp4-g256")
    assert error("affine8") < error("affine4") < error("affine2")
    assert error("int8") < error("w4a16")


def test_bytes_of_the_routed_experts_of_v4_flash() -> None:
    # 44 x 256 x 3 x 4,096 x 2,048 = 283,467,841,536 weights.
    def total(name: str) -> int:
        up = (("experts", 256), ("gate_up", 2), ("ffn", 2048), ("hidden", 4096))
        down = (("experts", 256), ("hidden", 4096), ("ffn", 2048))
        return 44 * sum(TensorType(a, weight_format(name), lead=1).nbytes for a in (up, down))

    weights = 283_467_841_536
    assert total("fp4") == weights * 17 // 32 == 150_592_290_816
    assert total("nvfp4") == weights * 9 // 16 == 159_450_660_864
    assert total("w4a16") == weights * 33 // 64 == 146_163_105_792
    assert total("affine4") == weights * 9 // 16
    rows = 44 * 256 * (2 * 2048 + 4096)
    assert total("int8") == weights + 4 * rows


def test_names() -> None:
    assert weight_format("mxfp4").name == "fp4"
    assert weight_format("w4a16-g64").block == (1, 64)
    assert weight_format("w4a16-g128").name == "w4a16"
    for line in weight_format_table().values():
        assert line.math in MATH_CLASSES
    with pytest.raises(InputError, match="did you mean 'nvfp4'"):
        weight_format("nvfp5")
    with pytest.raises(InputError, match="has none"):
        weight_format("int8-g64")
