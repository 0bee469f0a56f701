"""Other formats of a key-value row than the default: FP4 with block scales, or FP8 without any.

| format | bytes for V4 | content |
|---|---|---|
| `Mxfp4KvEntry(448, 64)` | 368 | e2m1, bf16 rotary dims, a ue8m0 scale per 32, padded to 8 |
| `Nvfp4KvEntry(448, 64)` | 384 | e2m1, bf16 rotary dims, an e4m3 scale per 16, padded to 16 |
| `Fp8UniformKvEntry(448, 64)` | 512 | e4m3, rotary dims too, one scale a tensor |

Sources: SGLang pull 37138 (368 B); FlashInfer 4955 and 3937 (384 B); SGLang 0.5.23
`deepseek_v4_trtllm_backend.py` (512 B).
Assumes: the scale that FP8 rows share over a tensor is 1: keys are normed, so that they lie in the
range of e4m3 as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workloads.block_scale import (
    E2M1_MAX,
    E4M3_MAX,
    Array,
    as_floats,
    block_amax,
    half_step_of,
    pow2_scales,
    to_bytes,
    ue8m0_values,
)
from workloads.entry_format import EntryFormat


@dataclass(frozen=True, slots=True)
class KvEntry(EntryFormat):
    """A key-value row of `nope` dims without and `rope` dims with rotary position."""

    nope: int
    rope: int

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.nope + self.rope

    @property
    def rotary_values(self) -> int:
        """The dims with rotary position."""
        return self.rope


@dataclass(frozen=True, slots=True)
class Fp4KvEntry(KvEntry):
    """e2m1 values, two to a byte, with a scale a block; rotary dims in bf16."""

    block: ClassVar[int]
    pad_bytes: ClassVar[int]

    @property
    def scaled_values(self) -> int:
        """The values without rotary position."""
        return self.nope

    @property
    def _data(self) -> int:
        return -(-self.nope // 2)

    @property
    def _blocks(self) -> int:
        return -(-self.nope // self.block)

    @property
    def nbytes(self) -> int:
        """Data, rotary part and scales, padded."""
        used = self._data + 2 * self.rope + self._blocks
        return -(-used // self.pad_bytes) * self.pad_bytes

    @abstractmethod
    def _scales(self, values: Array) -> tuple[Array, Array]:
        """(scale of every block, the byte that it is stored in) of values [n, nope]."""

    @abstractmethod
    def _stored_scales(self, raw: Array) -> Array:
        """Scales of their bytes."""

    def _spread(self, scales: Array) -> Array:
        return np.repeat(scales, self.block, axis=1)[:, : self.nope]

    def encode(self, values: Array) -> Array:
        """Round and pack; the even value is in the low nibble."""
        out = np.zeros((len(values), self.nbytes), dtype=np.uint8)
        nope = values[:, : self.nope]
        scales, raw = self._scales(nope)
        nibbles = to_bytes(
            np.clip(nope / self._spread(scales), -E2M1_MAX, E2M1_MAX), "float4_e2m1fn"
        )
        nibbles = np.pad(nibbles, ((0, 0), (0, self.nope % 2)))
        out[:, : self._data] = nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
        rope_end = self._data + 2 * self.rope
        out[:, self._data : rope_end] = to_bytes(values[:, self.nope :], "bfloat16")
        out[:, rope_end : rope_end + self._blocks] = raw
        return out

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        data = packed[:, : self._data]
        nibbles = np.stack([data & 15, data >> 4], axis=2).reshape(len(packed), 2 * self._data)
        values = as_floats(nibbles[:, : self.nope].astype(np.uint8), "float4_e2m1fn")
        rope_end = self._data + 2 * self.rope
        scales = self._stored_scales(packed[:, rope_end : rope_end + self._blocks])
        rope = as_floats(packed[:, self._data : rope_end], "bfloat16")
        return np.concatenate([values * self._spread(scales), rope], axis=1)

    def half_step(self, values: Array) -> Array:
        """Half a step of e2m1 under the block's scale, and of bf16.

        A scale that was rounded down leaves the largest values of its block beyond e2m1's range:
        what is cut off of them counts as well.
        """
        nope = values[:, : self.nope]
        scales = self._spread(self._scales(nope)[0])
        cut = np.maximum(np.abs(nope) - E2M1_MAX * scales, 0.0)
        low = np.maximum(half_step_of(nope / scales, "float4_e2m1fn") * scales, cut)
        return np.concatenate([low, half_step_of(values[:, self.nope :], "bfloat16")], axis=1)


@dataclass(frozen=True, slots=True)
class Mxfp4KvEntry(Fp4KvEntry):
    """A ue8m0 scale per 32 values."""

    precision: ClassVar[str] = "mxfp4"
    block: ClassVar[int] = 32
    pad_bytes: ClassVar[int] = 8

    def _scales(self, values: Array) -> tuple[Array, Array]:
        scales = pow2_scales(values, self.block, E2M1_MAX)
        return scales, (np.frexp(scales)[1] - 1 + 127).astype(np.uint8)

    def _stored_scales(self, raw: Array) -> Array:
        return ue8m0_values(raw)


@dataclass(frozen=True, slots=True)
class Nvfp4KvEntry(Fp4KvEntry):
    """An e4m3 scale per 16 values.

    Assumes: scales are rounded to the nearest e4m3 value without a second scale over the tensor.
    """

    precision: ClassVar[str] = "nvfp4"
    block: ClassVar[int] = 16
    pad_bytes: ClassVar[int] = 16

    def _scales(self, values: Array) -> tuple[Array, Array]:
        wanted = np.clip(block_amax(values, self.block) / E2M1_MAX, 2.0**-9, E4M3_MAX)
        raw = to_bytes(wanted, "float8_e4m3fn")
        return as_floats(raw, "float8_e4m3fn"), raw

    def _stored_scales(self, raw: Array) -> Array:
        return as_floats(raw, "float8_e4m3fn")


@dataclass(frozen=True, slots=True)
class Fp8UniformKvEntry(KvEntry):
    """e4m3 throughout."""

    precision: ClassVar[str] = "fp8-uniform"

    @property
    def scaled_values(self) -> int:
        """All of them."""
        return self.dim

    @property
    def nbytes(self) -> int:
        """A byte a value."""
        return self.dim

    def encode(self, values: Array) -> Array:
        """Round; what is beyond e4m3's range takes its end."""
        return to_bytes(np.clip(values, -E4M3_MAX, E4M3_MAX), "float8_e4m3fn")

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        return as_floats(packed, "float8_e4m3fn")

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3, and what is cut off at the end of its range."""
        cut = np.maximum(np.abs(values) - E4M3_MAX, 0.0)
        return np.maximum(half_step_of(values, "float8_e4m3fn"), cut)
