"""Formats of one cache entry: packed bytes, and the exact rounding they stand for.

| format | bytes for V4 | content |
|---|---|---|
| `Fp8KvEntry(448, 64)` | 584 | e4m3, bf16 rotary dims, a ue8m0 scale per 64, scales padded to 8 |
| `Bf16Entry(512)` | 1024 | bf16 |
| `PlainEntry(n, dtype)` | n x itemsize | no rounding |

Index keys have their own formats in `index_entry`. Source: FlashMLA `tests/quant.py` (584).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workloads.block_scale import (
    E4M3_MAX,
    Array,
    as_floats,
    block_scaled,
    half_step_of,
    pow2_scales,
    to_bytes,
    ue8m0_values,
)

KV_BLOCK = 64


class EntryFormat(ABC):
    """Packed bytes of one entry of `dim` values."""

    __slots__ = ()
    # Number format by the name that a deployment asks for: fp8, fp4, bf16 or fp32.
    precision: ClassVar[str] = "fp32"

    @property
    @abstractmethod
    def dim(self) -> int:
        """Values of an entry."""

    @property
    def rotary_values(self) -> int:
        """Values with rotary position, which come last and may be stored wider."""
        return 0

    @property
    def scaled_values(self) -> int:
        """Values that are stored narrower than they are multiplied, with scales."""
        return 0

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
class VectorEntry(EntryFormat):
    """An entry whose values are all stored alike."""

    values: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.values


@dataclass(frozen=True, slots=True)
class PlainEntry(VectorEntry):
    """Values as they are, in a float type."""

    dtype: str = "float32"

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
class Bf16Entry(VectorEntry):
    """bfloat16 values."""

    precision: ClassVar[str] = "bf16"

    @property
    def nbytes(self) -> int:
        """Bytes of an entry."""
        return 2 * self.values

    def encode(self, values: Array) -> Array:
        """Round to nearest even bf16."""
        return to_bytes(values, "bfloat16")

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        return as_floats(packed, "bfloat16")

    def half_step(self, values: Array) -> Array:
        """Half a bf16 step: 2^-9 of the power of two at or below the value."""
        return half_step_of(values, "bfloat16")


@dataclass(frozen=True, slots=True)
class Fp8KvEntry(EntryFormat):
    """A key-value row: `nope` dims in e4m3 with a ue8m0 scale per 64, `rope` dims in bf16."""

    precision: ClassVar[str] = "fp8"
    nope: int
    rope: int

    @property
    def rotary_values(self) -> int:
        """The values that keep bf16."""
        return self.rope

    @property
    def scaled_values(self) -> int:
        """The values without rotary position."""
        return self.nope

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
        data, exponents = block_scaled(values[:, : self.nope], KV_BLOCK, E4M3_MAX, "float8_e4m3fn")
        out[:, : self.nope] = data
        rope_end = self.nope + 2 * self.rope
        out[:, self.nope : rope_end] = to_bytes(values[:, self.nope :], "bfloat16")
        out[:, rope_end : rope_end + self._scales] = exponents
        return out

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        rope_end = self.nope + 2 * self.rope
        data = as_floats(packed[:, : self.nope], "float8_e4m3fn")
        scales = ue8m0_values(packed[:, rope_end : rope_end + self._scales])
        nope = data * np.repeat(scales, KV_BLOCK, axis=1)[:, : self.nope]
        return np.concatenate(
            [nope, as_floats(packed[:, self.nope : rope_end], "bfloat16")], axis=1
        )

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3 under the block's scale, and of bf16."""
        nope = values[:, : self.nope]
        scales = np.repeat(pow2_scales(nope, KV_BLOCK, E4M3_MAX), KV_BLOCK, axis=1)
        scales = scales[:, : self.nope]
        low = half_step_of(nope / scales, "float8_e4m3fn") * scales
        return np.concatenate([low, half_step_of(values[:, self.nope :], "bfloat16")], axis=1)
