"""At what rate, and on which unit, a chip multiplies each math class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.engine.kernel import Product, Shape

# Multiply by the scale, and place the bits: per converted weight. Guessed: two instructions.
CONVERT_OPS_PER_WEIGHT = 2


class _Converted(NamedTuple):
    stored: str
    what: str


# What is converted of a math class where a chip has no units for the format that it is stored in.
_CONVERTED = {
    "fp8xfp4": _Converted("fp4", "expert weights"),
    "fp4_index": _Converted("fp4", "index keys"),
    "fp8": _Converted("fp8", "index keys"),
}


@dataclass(frozen=True, slots=True)
class MathRate:
    """`flops_per_s` of a math class on the `matrix` or `vector` unit.

    `convert` says that weights or index keys are converted in the kernel first, to `runs_in` (of
    `fp8` index keys only, see `product_rate`); `note` says what a chip without the fitting units
    does instead, empty where it has them.
    """

    unit: str
    flops_per_s: float
    convert: bool = False
    note: str = ""
    runs_in: str = "bf16"


def math_rate(chip: ChipSpec, math: str) -> MathRate:
    """Rate of a math class.

    Assumes: FP8 activations times FP4 weights run at the FP8 rate, as DeepSeek-V4's report states
        for current chips.
    Assumes: a chip without units for the format of FP4 weights or of index keys converts them
        inside the kernel, with 2 vector operations (place the bits, multiply by the scale) for each
        value and use, and multiplies in the next format that it has units for: FP4 index keys as
        FP8 or BF16, FP8 keys as BF16.
    Assumes: a chip without FP8 units multiplies FP8 weights at the BF16 rate (FP16 without BF16)
        and takes no time to convert them.
    Assumes: kernels that convert index keys can be written; DeepGEMM's FP4 scan of index keys runs
        on SM100 only, and engines keep FP8 keys on chips without FP4 units.
    Assumes: FP32 products run as TF32 where the chip has it, else on the vector units.
    """
    if math == "fp32":
        return _fp32(chip)
    wanted = {"fp8xfp4": "fp8", "fp4_index": "fp4"}.get(math, math)
    chain = {"fp4": ("fp4", "fp8", "bf16", "fp16"), "fp8": ("fp8", "bf16", "fp16")}
    for dtype in chain.get(wanted, ("bf16", "fp16")):
        rate = chip.matrix_flops_per_s(dtype)
        if rate is not None:
            converted = _CONVERTED.get(math)
            if converted is not None and chip.matrix_flops_per_s(converted.stored) is not None:
                converted = None
            does = [f"{math} products run at the {dtype} rate"] if dtype != wanted else []
            if converted is not None:
                does.append(f"{converted.what} are converted in the kernel")
            lacking = converted.stored if converted and dtype == wanted else wanted
            note = f"{chip.name} has no {lacking} units: {', '.join(does)}" if does else ""
            convert = converted is not None
            return MathRate("matrix", rate, convert, note, dtype)
    raise UnsupportedError(f"{chip.name} has no matrix rate that {math} products could run at")


def product_rate(chip: ChipSpec, product: Product) -> MathRate:
    """Rate of a product; FP8 ones convert index keys where they have to, never weights."""
    rate = math_rate(chip, product.math)
    if product.math == "fp8" and product.shape is Shape.MATRIX:
        return replace(rate, convert=False)
    return rate


def _fp32(chip: ChipSpec) -> MathRate:
    tf32 = chip.matrix_flops_per_s("tf32")
    if tf32 is not None:
        return MathRate("matrix", tf32, runs_in="tf32")
    own = chip.matrix.fp32
    if own is not None:
        return MathRate("matrix", float(own.si), runs_in="fp32")
    note = f"{chip.name} has no tf32 units: fp32 products run on the vector units"
    return MathRate("vector", chip.vector_flops_per_s, note=note, runs_in="fp32")
