"""Formats of one cache entry: packed bytes, and the exact rounding they stand for.

| format | bytes for V4 | content |
|---|---|---|
| `Fp8KvEntry(448, 64)` | 584 | e4m3, bf16 rotary dims, a ue8m0 scale per 64, scales padded to 8 |
| `Fp4IndexEntry(128)` | 68 | e2m1, two to a byte, a ue8m0 scale per 32 |
| `Fp8IndexEntry(128)` | 132 | e4m3, one fp32 scale per 128 |
| `Bf16Entry(512)` | 1024 | bf16 |
| `PlainEntry(n, dtype)` | n x itemsize | no rounding |

Sources: FlashMLA `tests/quant.py` (584), vLLM 0.33 and SGLang 0.5.23 index pools (68, 132).
Index entries are stored rotated by a Hadamard matrix (`rotate`), which leaves dot products as
they are. Assumes: an index dimension that is no power of two is rotated in blocks of its largest
power-of-two divisor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
E4M3_MAX = 448.0
E2M1_MAX = 6.0
KV_BLOCK = 64
FP4_BLOCK = 32
FP8_INDEX_BLOCK = 128
# Stored mantissa bits and exponent of the smallest normal value, by ml_dtypes name.
_GRIDS = {"bfloat16": (7, -126), "float8_e4m3fn": (3, -6), "float4_e2m1fn": (1, 0)}


class EntryFormat(ABC):
    """Packed bytes of one entry of `dim` values."""

    __slots__ = ()

    @property
    @abstractmethod
    def dim(self) -> int:
        """Values of an entry."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of an entry, scales and its own padding included."""

    @abstractmethod
    def encode(self, values: Array) -> Array:
        """Values [n, dim] to bytes [n, nbytes] (uint8)."""

    @abstractmethod
    def decode(self, packed: Array) -> Array:
        """Bytes [n, nbytes] to values [n, dim] (float64)."""

    def rotate(self, values: Array) -> Array:
        """Change of basis before rounding; identity unless the format says otherwise."""
        return values

    def half_step(self, values: Array) -> Array:
        """Largest rounding error allowed for each of the values [n, dim]."""
        return np.zeros(values.shape)


@dataclass(frozen=True, slots=True)
class PlainEntry(EntryFormat):
    """Values as they are, in a float type."""

    values: int
    dtype: str = "float32"

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.values

    @property
    def nbytes(self) -> int:
        """Bytes of an entry."""
        return self.values * np.dtype(self.dtype).itemsize

    def encode(self, values: Array) -> Array:
        """Bytes of the values."""
        return np.ascontiguousarray(values, dtype=self.dtype).view(np.uint8)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        return np.ascontiguousarray(packed).view(self.dtype)


@dataclass(frozen=True, slots=True)
class Bf16Entry(EntryFormat):
    """bfloat16 values."""

    values: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.values

    @property
    def nbytes(self) -> int:
        """Bytes of an entry."""
        return 2 * self.values

    def encode(self, values: Array) -> Array:
        """Round to nearest even bf16."""
        return _to_bytes(values, "bfloat16")

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        return _from_bf16_bytes(packed)

    def half_step(self, values: Array) -> Array:
        """Half a bf16 step: 2^-9 of the power of two at or below the value."""
        return _half_step(values, "bfloat16")


@dataclass(frozen=True, slots=True)
class Fp8KvEntry(EntryFormat):
    """A key-value row: `nope` dims in e4m3 with a ue8m0 scale per 64, `rope` dims in bf16."""

    nope: int
    rope: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.nope + self.rope

    @property
    def _scales(self) -> int:
        return -(-self.nope // KV_BLOCK)

    @property
    def nbytes(self) -> int:
        """Data, rotary part and scales, the scales padded to a multiple of 8."""
        return self.nope + 2 * self.rope + -(-self._scales // 8) * 8

    def encode(self, values: Array) -> Array:
        """Round and pack."""
        out = np.zeros((len(values), self.nbytes), dtype=np.uint8)
        data, exponents = _block_scaled(values[:, : self.nope], KV_BLOCK, E4M3_MAX, "float8_e4m3fn")
        out[:, : self.nope] = data
        rope_end = self.nope + 2 * self.rope
        out[:, self.nope : rope_end] = _to_bytes(values[:, self.nope :], "bfloat16")
        out[:, rope_end : rope_end + self._scales] = exponents
        return out

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        rope_end = self.nope + 2 * self.rope
        data = _as_floats(packed[:, : self.nope], "float8_e4m3fn")
        scales = _ue8m0_values(packed[:, rope_end : rope_end + self._scales])
        nope = data * np.repeat(scales, KV_BLOCK, axis=1)[:, : self.nope]
        return np.concatenate([nope, _from_bf16_bytes(packed[:, self.nope : rope_end])], axis=1)

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3 under the block's scale, and of bf16."""
        nope = values[:, : self.nope]
        scales = np.repeat(_pow2_scales(nope, KV_BLOCK, E4M3_MAX), KV_BLOCK, axis=1)
        scales = scales[:, : self.nope]
        low = _half_step(nope / scales, "float8_e4m3fn") * scales
        return np.concatenate([low, _half_step(values[:, self.nope :], "bfloat16")], axis=1)


@dataclass(frozen=True, slots=True)
class Fp4IndexEntry(EntryFormat):
    """An index key: e2m1 in blocks of 32 with a ue8m0 scale each, two values to a byte."""

    values: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
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
        nibbles, exponents = _block_scaled(values, FP4_BLOCK, E2M1_MAX, "float4_e2m1fn")
        if self.values % 2:
            nibbles = np.pad(nibbles, ((0, 0), (0, 1)))
        data = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
        return np.concatenate([data, exponents], axis=1).astype(np.uint8)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        data = packed[:, : self._data]
        nibbles = np.stack([data & 15, data >> 4], axis=2).reshape(len(packed), 2 * self._data)
        values = _as_floats(nibbles[:, : self.values].astype(np.uint8), "float4_e2m1fn")
        scales = np.repeat(_ue8m0_values(packed[:, self._data :]), FP4_BLOCK, axis=1)
        return values * scales[:, : self.values]

    def rotate(self, values: Array) -> Array:
        """Hadamard transform, orthonormal."""
        return hadamard(values)

    def half_step(self, values: Array) -> Array:
        """Half a step of e2m1 under the block's scale."""
        scales = np.repeat(_pow2_scales(values, FP4_BLOCK, E2M1_MAX), FP4_BLOCK, axis=1)
        scales = scales[:, : self.values]
        return _half_step(values / scales, "float4_e2m1fn") * scales


@dataclass(frozen=True, slots=True)
class Fp8IndexEntry(EntryFormat):
    """An index key: e4m3 with one fp32 scale per 128 values."""

    values: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.values

    @property
    def _scales(self) -> int:
        return -(-self.values // FP8_INDEX_BLOCK)

    @property
    def nbytes(self) -> int:
        """Data and scales."""
        return self.values + 4 * self._scales

    def _scale_values(self, values: Array) -> Array:
        amax = _block_amax(values, FP8_INDEX_BLOCK)
        smallest = np.finfo(np.float32).tiny  # a subnormal scale would be too coarse
        return np.where(amax > 0, np.maximum(amax / E4M3_MAX, smallest), 1.0).astype(np.float32)

    def _spread(self, scales: Array) -> Array:
        return np.repeat(scales.astype(np.float64), FP8_INDEX_BLOCK, axis=1)[:, : self.values]

    def encode(self, values: Array) -> Array:
        """Round and pack."""
        scales = self._scale_values(values)
        scaled = np.clip(values / self._spread(scales), -E4M3_MAX, E4M3_MAX)
        data = _to_bytes(scaled, "float8_e4m3fn")
        return np.concatenate([data, np.ascontiguousarray(scales).view(np.uint8)], axis=1)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        scales = np.ascontiguousarray(packed[:, self.values :]).view(np.float32)
        return _as_floats(packed[:, : self.values], "float8_e4m3fn") * self._spread(scales)

    def rotate(self, values: Array) -> Array:
        """Hadamard transform, orthonormal."""
        return hadamard(values)

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3 under the block's scale."""
        scales = self._spread(self._scale_values(values))
        return _half_step(values / scales, "float8_e4m3fn") * scales


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


def _block_amax(values: Array, block: int) -> Array:
    columns = values.shape[1]
    padded = np.pad(np.abs(values), ((0, 0), (0, -columns % block)))
    return padded.reshape(len(values), -(-columns // block), block).max(axis=2, initial=0.0)


def _pow2_scales(values: Array, block: int, largest: float) -> Array:
    """Smallest power of two that brings each block's largest value to at most `largest`."""
    ratio = _block_amax(values, block).astype(np.float64) / largest
    mantissa, exponent = np.frexp(ratio)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.ldexp(1.0, np.where(ratio > 0, np.clip(exponent, -127, 127), 0))


def _block_scaled(values: Array, block: int, largest: float, dtype: str) -> tuple[Array, Array]:
    """(raw bytes of the scaled values, ue8m0 exponents): partial last blocks allowed."""
    scales = _pow2_scales(values, block, largest)
    scaled = values / np.repeat(scales, block, axis=1)[:, : values.shape[1]]
    exponents = (np.frexp(scales)[1] - 1 + 127).astype(np.uint8)
    return _to_bytes(np.clip(scaled, -largest, largest), dtype), exponents


def _ue8m0_values(exponents: Array) -> Array:
    return np.ldexp(1.0, exponents.astype(np.int64) - 127)


def _to_bytes(values: Array, dtype: str) -> Array:
    """Nearest values of the format, ties to even.

    Rounded here, since a cast from float64 rounds twice, by way of float32.
    """
    import ml_dtypes

    step = 2.0 * _half_step(values, dtype)
    nearest = np.rint(values / step) * step
    return np.ascontiguousarray(nearest.astype(getattr(ml_dtypes, dtype))).view(np.uint8)


def _as_floats(raw: Array, dtype: str) -> Array:
    import ml_dtypes

    return np.ascontiguousarray(raw).view(getattr(ml_dtypes, dtype)).astype(np.float64)


def _from_bf16_bytes(packed: Array) -> Array:
    import ml_dtypes

    return np.ascontiguousarray(packed).view(ml_dtypes.bfloat16).astype(np.float64)


def _half_step(values: Array, dtype: str) -> Array:
    mantissa_bits, lowest_exponent = _GRIDS[dtype]
    exponent = np.maximum(np.frexp(values)[1] - 1, lowest_exponent)
    return np.ldexp(0.5, exponent - mantissa_bits)
