"""Rounding of weights to their stored formats: values as kernels see them, and half a step of each.

Blocks that share a scale are those of the format's line in `weight_formats.yaml`. Float formats
with scales of 8 bits have powers of two (MXFP4, FP8 blocks) but for NVFP4, whose scales are e4m3
under one FP32 scale of the tensor; integers have the scale of their largest magnitude, with an
offset where the line's scale has room for one.
"""

from __future__ import annotations

import numpy as np

from workloads.block_scale import E2M1_MAX, E4M3_MAX, Array, as_floats, half_step_of, to_bytes
from workloads.dtype import DType

_FLOATS = {8: ("float8_e4m3fn", E4M3_MAX), 4: ("float4_e2m1fn", E2M1_MAX)}
_OFFSET_BITS = 17


def round_weight(values: Array, dtype: DType, scale: float = 1.0) -> tuple[Array, Array]:
    """(rounded values, largest error allowed of each) of matrices [..., rows, columns].

    `scale` multiplies the scales of all blocks: above 1 it wastes range, and the error grows.
    """
    if dtype.bits >= 16:
        if dtype.name == "fp32":
            return values.astype(np.float64), np.zeros(values.shape)
        rounded = as_floats(to_bytes(values, "bfloat16"), "bfloat16")
        return rounded, half_step_of(values, "bfloat16")
    matrices = values.reshape(-1, *values.shape[-2:]).astype(np.float64)
    out, steps = np.empty((2, *matrices.shape))
    for i, matrix in enumerate(matrices):
        out[i], steps[i] = _matrix(matrix, dtype, scale)
    return out.reshape(values.shape), steps.reshape(values.shape)


def is_float(dtype: DType) -> bool:
    """Whether the stored values are floating point numbers."""
    return dtype.name.startswith(("fp", "mxfp", "nvfp"))


def _matrix(matrix: Array, dtype: DType, scale: float) -> tuple[Array, Array]:
    rows, columns = dtype.block or matrix.shape
    if not is_float(dtype) and dtype.scale_bits > _OFFSET_BITS:
        low, high = _blocks(matrix, rows, columns, np.min), _blocks(matrix, rows, columns, np.max)
        step = np.maximum((high - low) / (2**dtype.bits - 1), 1e-300) * scale
        whole = np.clip(np.rint((matrix - low) / step), 0, 2**dtype.bits - 1)
        return whole * step + low, step / 2
    largest = _blocks(np.abs(matrix), rows, columns, np.max)
    if not is_float(dtype):
        most = 2 ** (dtype.bits - 1) - 1
        step = np.where(largest > 0, largest / most, 1.0) * scale
        return np.clip(np.rint(matrix / step), -most, most) * step, step / 2
    name, most = _FLOATS[dtype.bits]
    scales = _scales(largest, most, dtype, matrix) * scale
    scaled = np.clip(matrix / scales, -most, most)
    rounded = as_floats(to_bytes(scaled, name), name) * scales
    clipped = np.maximum(np.abs(matrix / scales) - most, 0.0)
    return rounded, (half_step_of(scaled, name) + clipped) * scales


def _scales(largest: Array, most: float, dtype: DType, matrix: Array) -> Array:
    """Scale of the block of each value."""
    if dtype.name.startswith("nvfp4"):
        whole = max(float(np.abs(matrix).max(initial=0.0)) / (most * E4M3_MAX), 1e-300)
        own = as_floats(to_bytes(np.clip(largest / most / whole, 0, E4M3_MAX), "float8_e4m3fn"),
                        "float8_e4m3fn")  # fmt: skip
        return np.where(own > 0, own, 2.0**-9) * whole
    ratio = np.where(largest > 0, largest / most, 1.0)
    if dtype.scale_bits == 8:
        mantissa, exponent = np.frexp(ratio)
        return np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent))
    return ratio


def _blocks(matrix: Array, rows: int, columns: int, of: object) -> Array:
    """A statistic of the block of each value; partial blocks count."""
    height, width = matrix.shape
    out = np.empty_like(matrix)
    rows, columns = min(rows, height), min(columns, width)
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            part = (slice(top, top + rows), slice(left, left + columns))
            out[part] = of(matrix[part])  # type: ignore[operator]
    return out
