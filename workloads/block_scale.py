"""Rounding to narrow float formats, alone and with a scale that a block of values shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
E4M3_MAX = 448.0
E2M1_MAX = 6.0
# Stored mantissa bits and exponent of the smallest normal value, by ml_dtypes name.
GRIDS = {"bfloat16": (7, -126), "float8_e4m3fn": (3, -6), "float4_e2m1fn": (1, 0)}


def block_amax(values: Array, block: int) -> Array:
    """Largest magnitude of each block along the rows; a partial last block counts."""
    columns = values.shape[1]
    padded = np.pad(np.abs(values), ((0, 0), (0, -columns % block)))
    return padded.reshape(len(values), -(-columns // block), block).max(axis=2, initial=0.0)


def pow2_scales(values: Array, block: int, largest: float) -> Array:
    """Smallest power of two that brings each block's largest value to at most `largest`."""
    ratio = block_amax(values, block).astype(np.float64) / largest
    mantissa, exponent = np.frexp(ratio)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.ldexp(1.0, np.where(ratio > 0, np.clip(exponent, -127, 127), 0))


def block_scaled(values: Array, block: int, largest: float, dtype: str) -> tuple[Array, Array]:
    """(raw bytes of the scaled values, ue8m0 exponents): partial last blocks allowed."""
    scales = pow2_scales(values, block, largest)
    scaled = values / np.repeat(scales, block, axis=1)[:, : values.shape[1]]
    exponents = (np.frexp(scales)[1] - 1 + 127).astype(np.uint8)
    return to_bytes(np.clip(scaled, -largest, largest), dtype), exponents


def ue8m0_values(exponents: Array) -> Array:
    """Powers of two of biased exponents."""
    return np.ldexp(1.0, exponents.astype(np.int64) - 127)


def to_bytes(values: Array, dtype: str) -> Array:
    """Nearest values of the format, ties to even.

    Rounded here, since a cast from float64 rounds twice, by way of float32.
    """
    import ml_dtypes

    step = 2.0 * half_step_of(values, dtype)
    nearest = np.rint(values / step) * step
    return np.ascontiguousarray(nearest.astype(getattr(ml_dtypes, dtype))).view(np.uint8)


def as_floats(raw: Array, dtype: str) -> Array:
    """Values of raw bytes in a format, as float64."""
    import ml_dtypes

    return np.ascontiguousarray(raw).view(getattr(ml_dtypes, dtype)).astype(np.float64)


def half_step_of(values: Array, dtype: str) -> Array:
    """Half the distance between neighbours of the format at each value."""
    mantissa_bits, lowest_exponent = GRIDS[dtype]
    exponent = np.maximum(np.frexp(values)[1] - 1, lowest_exponent)
    return np.ldexp(0.5, exponent - mantissa_bits)
