"""Formats of an index key: FP4 or FP8 values with scales, in a basis rotated by a Hadamard matrix.

| format | bytes for V4 | content |
|---|---|---|
| `Fp4IndexEntry(128)` | 68 | e2m1, two to a byte, a ue8m0 scale per 32 |
| `Fp8IndexEntry(128)` | 132 | e4m3, one fp32 scale per 128 |

The rotation leaves dot products as they are and spreads outliers before rounding. Sources: vLLM
0.33 and SGLang 0.5.23 index pools (68, 132).
Assumes: an index dimension that is no power of two is rotated in blocks of its largest
power-of-two divisor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from workloads.block_scale import (
    E2M1_MAX,
    E4M3_MAX,
    Array,
    as_floats,
    block_amax,
    block_scaled,
    half_step_of,
    pow2_scales,
    to_bytes,
    ue8m0_values,
)
from workloads.entry_format import VectorEntry

FP4_BLOCK = 32
FP8_INDEX_BLOCK = 128


@dataclass(frozen=True, slots=True)
class IndexEntry(VectorEntry):
    """An index key, stored in a rotated basis."""

    def rotate(self, values: Array) -> Array:
        """Hadamard transform, orthonormal."""
        return hadamard(values)


@dataclass(frozen=True, slots=True)
class Fp4IndexEntry(IndexEntry):
    """An index key: e2m1 in blocks of 32 with a ue8m0 scale each, two values to a byte."""

    precision: ClassVar[str] = "fp4"

    @property
    def scaled_values(self) -> int:
        """All of them."""
        return self.values

    @property
    def _scales(self) -> int:
        return -(-self.values // FP4_BLOCK)

    @property
    def _data(self) -> int:
        return -(-self.values // 2)

    @property
    def nbytes(self) -> int:
        """Data and scales."""
        return self._data + self._scales

    def encode(self, values: Array) -> Array:
        """Round and pack; the even value is in the low nibble."""
        nibbles, exponents = block_scaled(values, FP4_BLOCK, E2M1_MAX, "float4_e2m1fn")
        if self.values % 2:
            nibbles = np.pad(nibbles, ((0, 0), (0, 1)))
        data = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
        return np.concatenate([data, exponents], axis=1).astype(np.uint8)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        data = packed[:, : self._data]
        nibbles = np.stack([data & 15, data >> 4], axis=2).reshape(len(packed), 2 * self._data)
        values = as_floats(nibbles[:, : self.values].astype(np.uint8), "float4_e2m1fn")
        scales = np.repeat(ue8m0_values(packed[:, self._data :]), FP4_BLOCK, axis=1)
        return values * scales[:, : self.values]

    def half_step(self, values: Array) -> Array:
        """Half a step of e2m1 under the block's scale."""
        scales = np.repeat(pow2_scales(values, FP4_BLOCK, E2M1_MAX), FP4_BLOCK, axis=1)
        scales = scales[:, : self.values]
        return half_step_of(values / scales, "float4_e2m1fn") * scales


@dataclass(frozen=True, slots=True)
class Fp8IndexEntry(IndexEntry):
    """An index key: e4m3 with one fp32 scale per 128 values."""

    precision: ClassVar[str] = "fp8"

    @property
    def scaled_values(self) -> int:
        """All of them."""
        return self.values

    @property
    def _scales(self) -> int:
        return -(-self.values // FP8_INDEX_BLOCK)

    @property
    def nbytes(self) -> int:
        """Data and scales."""
        return self.values + 4 * self._scales

    def _scale_values(self, values: Array) -> Array:
        amax = block_amax(values, FP8_INDEX_BLOCK)
        smallest = np.finfo(np.float32).tiny  # a subnormal scale would be too coarse
        return np.where(amax > 0, np.maximum(amax / E4M3_MAX, smallest), 1.0).astype(np.float32)

    def _spread(self, scales: Array) -> Array:
        return np.repeat(scales.astype(np.float64), FP8_INDEX_BLOCK, axis=1)[:, : self.values]

    def encode(self, values: Array) -> Array:
        """Round and pack."""
        scales = self._scale_values(values)
        scaled = np.clip(values / self._spread(scales), -E4M3_MAX, E4M3_MAX)
        data = to_bytes(scaled, "float8_e4m3fn")
        return np.concatenate([data, np.ascontiguousarray(scales).view(np.uint8)], axis=1)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        scales = np.ascontiguousarray(packed[:, self.values :]).view(np.float32)
        return as_floats(packed[:, : self.values], "float8_e4m3fn") * self._spread(scales)

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3 under the block's scale."""
        scales = self._spread(self._scale_values(values))
        return half_step_of(values / scales, "float8_e4m3fn") * scales


def hadamard(values: Array) -> Array:
    """Orthonormal Walsh-Hadamard transform along the last axis (see the module on odd sizes)."""
    dim = values.shape[-1]
    size = dim & -dim
    blocks = values.reshape(*values.shape[:-1], dim // size, size)
    return (blocks @ _matrix(size)).reshape(values.shape)


@cache
def _matrix(size: int) -> Array:
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)
