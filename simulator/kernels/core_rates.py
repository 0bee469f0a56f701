"""What one core multiplies and converts in a clock cycle, by format, from a chip's peak rates."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from workloads.math_class import STAND_INS

# Multiply by the scale, and place the bits: per converted value. Guessed: two instructions.
CONVERT_OPS = 2
_STORED = {"fp4_index": "fp4", "fp8xfp4": "fp4", "nvfp4": "fp4"}


@dataclass(frozen=True, slots=True)
class CoreRate:
    """`macs_per_clock` of one core; `converts`: values are unpacked in the kernel before."""

    macs_per_clock: float
    runs_in: str
    converts: bool


def core_rate(chip: ChipSpec, math: str) -> CoreRate:
    """Rate of a core's matrix unit for a math class.

    Assumes: a chip without units for the format of cached keys converts them inside the kernel to
        the next format that it has units for.
    """
    stored = _STORED.get(math, math)
    for dtype in STAND_INS.get(stored, STAND_INS["bf16"]):
        peak = chip.matrix_flops_per_s(dtype)
        if peak is not None:
            each = peak / 2 / chip.core_count / chip.peak_clock_hz
            return CoreRate(each, dtype, dtype != stored)
    raise UnsupportedError(f"{chip.name} has no matrix rate that {math} products could run at")


def vector_ops_per_clock(chip: ChipSpec) -> float:
    """Elementwise operations of one core in a clock; a fused multiply-add counts as one.

    Assumes: elementwise operations do not fuse into multiply-adds: half the vector peak.
    """
    return chip.vector_flops_per_s / 2 / chip.core_count / chip.peak_clock_hz
