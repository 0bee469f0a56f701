import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.dtype import (
    BF16,
    FP4_GROUP,
    FP8_BLOCK,
    FP32,
    INT32,
    INT64,
    DType,
)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "nbytes"),
    [
        (FP32, 3, 5, 3 * 5 * 4),
        (BF16, 3, 5, 3 * 5 * 2),
        (INT32, 3, 5, 60),
        (INT64, 3, 5, 120),
        (FP8_BLOCK, 256, 384, 256 * 384 + 2 * 3),
        (FP8_BLOCK, 128, 128, 128 * 128 + 1),
        (FP8_BLOCK, 129, 128, 129 * 128 + 2),  # a partial block has its scale
        (FP8_BLOCK, 1, 1, 2),
        (FP4_GROUP, 2, 64, 2 * 32 + 2 * 2),
        (FP4_GROUP, 2, 65, 65 + 2 * 3),  # 130 nibbles
        (FP4_GROUP, 3, 3, 5 + 3),  # 9 nibbles in 5 bytes
        (FP8_BLOCK, 0, 128, 0),
        (BF16, 0, 7, 0),
    ],
)
def test_packed_bytes(dtype, rows, columns, nbytes):
    assert dtype.matrix_bytes(rows, columns) == nbytes


def test_a_v4_expert_weight_is_0_53125_bytes():
    assert FP4_GROUP.matrix_bytes(6144, 7168) == 0.53125 * 6144 * 7168
    # Facts: an expert of 66,060,288 parameters is 35.1 MB, the FP8 shared one 66.1 MB.
    size = FP4_GROUP.matrix_bytes(6144, 7168) + FP4_GROUP.matrix_bytes(7168, 3072)
    assert size == 0.53125 * 66_060_288
    assert round(size / 1e6, 1) == 35.1
    shared = FP8_BLOCK.matrix_bytes(6144, 7168) + FP8_BLOCK.matrix_bytes(7168, 3072)
    assert round(shared / 1e6, 1) == 66.1


@given(rows=st.integers(1, 300), columns=st.integers(1, 300))
def test_blocks_are_counted_one_by_one(rows, columns):
    corners = [(r, c) for r in range(0, rows, 128) for c in range(0, columns, 128)]
    assert FP8_BLOCK.matrix_bytes(rows, columns) == rows * columns + len(corners)
    groups = [(r, c) for r in range(rows) for c in range(0, columns, 32)]
    assert FP4_GROUP.matrix_bytes(rows, columns) == (rows * columns + 1) // 2 + len(groups)


def test_scales_of_more_than_a_byte():
    assert DType("x", 8, "fp8", block=(2, 2), scale_bits=32).matrix_bytes(3, 3) == 9 + 4 * 4
