"""Math classes: what a product multiplies, and the matrix units that can run it, in one table.

A class names the formats of both operands. Classes `bf16x4`, `bf16x8` and the like have weights of
so many bits, which a kernel unpacks to BF16 before it multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from simulator.basis.errors import InputError, unknown_name

PACKED_BITS = (2, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class MathClass:
    """One class of products.

    `runs_in`: matrix types in order of preference, the first of which is the class's own.
    `unpacks`: matrix type that would take the weights (or index keys) as stored; a chip without
    units for it converts them in the kernel, and None converts nothing. `what` is converted.
    `activation_bytes`, `weight_bytes`: of a value as it moves between cache and cores.
    `flop_weight`: FP8-equivalent FLOP of one FLOP (BF16 2, FP8 1, FP4 index 0.5, FP8 x FP4 1
    reproduce the published ratios; the others follow the width of the units that they run on).
    """

    runs_in: tuple[str, ...]
    activation_bytes: float
    weight_bytes: float
    flop_weight: float
    unpacks: str | None = None
    what: str = "weights"


_BF16, _FP8 = ("bf16", "fp16"), ("fp8", "bf16", "fp16")
_FP4, _INT8 = ("fp4", "fp8", "bf16", "fp16"), ("int8", "bf16", "fp16")
# A matrix type that no chip has: weights of such a class are unpacked on every chip.
NO_UNIT = "packed"

MATH_CLASSES: dict[str, MathClass] = {
    "fp32": MathClass(runs_in=("tf32",), activation_bytes=4, weight_bytes=4, flop_weight=2),
    "bf16": MathClass(runs_in=_BF16, activation_bytes=2, weight_bytes=2, flop_weight=2),
    "fp8": MathClass(
        runs_in=_FP8, activation_bytes=1, weight_bytes=1, flop_weight=1, unpacks="fp8",
        what="index keys",
    ),
    # FP8 activations times MXFP4 weights.
    "fp8xfp4": MathClass(
        runs_in=_FP8, activation_bytes=1, weight_bytes=0.53125, flop_weight=1, unpacks="fp4",
        what="expert weights",
    ),
    "fp4_index": MathClass(
        runs_in=_FP4, activation_bytes=0.5, weight_bytes=0.5, flop_weight=0.5, unpacks="fp4",
        what="index keys",
    ),
    # FP4 activations and weights; without FP4 units the weights are unpacked to BF16.
    "nvfp4": MathClass(
        runs_in=("fp4", *_BF16), activation_bytes=0.5625, weight_bytes=0.5625, flop_weight=0.5,
        unpacks="fp4", what="FP4 weights",
    ),
    "int8": MathClass(runs_in=_INT8, activation_bytes=1, weight_bytes=1, flop_weight=1),
    # INT8 activations times INT4 weights, and FP8 ones times INT4.
    "int8xint4": MathClass(
        runs_in=_INT8, activation_bytes=1, weight_bytes=0.5, flop_weight=1, unpacks=NO_UNIT,
        what="INT4 weights",
    ),
    "fp8xint4": MathClass(
        runs_in=_FP8, activation_bytes=1, weight_bytes=0.5, flop_weight=1, unpacks=NO_UNIT,
        what="INT4 weights",
    ),
} | {
    f"bf16x{bits}": MathClass(
        runs_in=_BF16, activation_bytes=2, weight_bytes=bits / 8, flop_weight=2, unpacks=NO_UNIT,
        what=f"{bits} bit weights",
    )
    for bits in PACKED_BITS
}  # fmt: skip


@lru_cache(maxsize=64)
def math_class(name: str) -> MathClass:
    """A class by name; an unknown one is an error that lists the known."""
    if name not in MATH_CLASSES:
        raise InputError(unknown_name("math class", name, MATH_CLASSES))
    return MATH_CLASSES[name]


# Matrix types that stand in, in order, where a chip has no units for the one that is asked for.
STAND_INS: dict[str, tuple[str, ...]] = {
    "fp4": _FP4,
    "fp8": _FP8,
    "int8": _INT8,
    "bf16": _BF16,
}
