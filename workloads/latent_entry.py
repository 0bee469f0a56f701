"""The cache row of multi-head latent attention: a latent that all heads share, and rotary values.

656 bytes for V3.2: 512 values in e4m3 with an FP32 scale for 128 of them, 64 rotary ones in BF16.
Source: FlashMLA `tests/quant.py` (V3.2's FP8 sparse layout).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workloads.block_scale import (
    E4M3_MAX,
    Array,
    as_floats,
    block_amax,
    half_step_of,
    to_bytes,
)
from workloads.entry_format import EntryFormat

LATENT_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Fp8LatentEntry(EntryFormat):
    """`latent` values in e4m3 with an FP32 scale per 128, then `rope` values in BF16."""

    precision: ClassVar[str] = "fp8"
    latent: int
    rope: int

    @property
    def rotary_values(self) -> int:
        """The values that keep BF16."""
        return self.rope

    @property
    def scaled_values(self) -> int:
        """The values of the latent."""
        return self.latent

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.latent + self.rope

    @property
    def _scales(self) -> int:
        return -(-self.latent // LATENT_BLOCK)

    @property
    def nbytes(self) -> int:
        """Latent, scales, rotary part."""
        return self.latent + 4 * self._scales + 2 * self.rope

    def _scale_values(self, values: Array) -> Array:
        amax = block_amax(values[:, : self.latent], LATENT_BLOCK)
        smallest = np.finfo(np.float32).tiny
        return np.where(amax > 0, np.maximum(amax / E4M3_MAX, smallest), 1.0).astype(np.float32)

    def _spread(self, scales: Array) -> Array:
        return np.repeat(scales.astype(np.float64), LATENT_BLOCK, axis=1)[:, : self.latent]

    def encode(self, values: Array) -> Array:
        """Round and pack."""
        scales = self._scale_values(values)
        scaled = np.clip(values[:, : self.latent] / self._spread(scales), -E4M3_MAX, E4M3_MAX)
        data = to_bytes(scaled, "float8_e4m3fn")
        rope = to_bytes(values[:, self.latent :], "bfloat16")
        return np.concatenate([data, np.ascontiguousarray(scales).view(np.uint8), rope], axis=1)

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        end = self.latent + 4 * self._scales
        scales = np.ascontiguousarray(packed[:, self.latent : end]).view(np.float32)
        latent = as_floats(packed[:, : self.latent], "float8_e4m3fn") * self._spread(scales)
        return np.concatenate([latent, as_floats(packed[:, end:], "bfloat16")], axis=1)

    def half_step(self, values: Array) -> Array:
        """Half a step of e4m3 under the block's scale, and of BF16."""
        scales = self._spread(self._scale_values(values))
        low = half_step_of(values[:, : self.latent] / scales, "float8_e4m3fn") * scales
        return np.concatenate([low, half_step_of(values[:, self.latent :], "bfloat16")], axis=1)
