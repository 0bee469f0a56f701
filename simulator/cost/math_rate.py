"""At what rate, and on which unit, a chip multiplies each math class."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.engine.kernel import Product, Shape
from workloads.math_class import NO_UNIT, math_class

# Multiply by the scale, and place the bits: per converted weight. Guessed: two instructions.
CONVERT_OPS_PER_WEIGHT = 2


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
    Assumes: weights of 2 to 8 bits with BF16 activations are unpacked in the kernel on every chip,
        at the same 2 operations a weight; so are INT4 weights of INT8 and FP8 products.
    Assumes: kernels that convert index keys can be written; DeepGEMM's FP4 scan of index keys runs
        on SM100 only, and engines keep FP8 keys on chips without FP4 units.
    Assumes: FP32 products run as TF32 where the chip has it, else on the vector units.
    """
    if math == "fp32":
        return _fp32(chip)
    own = math_class(math)
    wanted = own.runs_in[0]
    for dtype in own.runs_in:
        rate = chip.matrix_flops_per_s(dtype)
        if rate is not None:
            convert = own.unpacks is not None and not _has_units(chip, own.unpacks)
            does = [f"{math} products run at the {dtype} rate"] if dtype != wanted else []
            if convert:
                does.append(f"{own.what} are converted in the kernel")
            # Weights that no chip multiplies as stored are no shortcoming of this one.
            lacking = own.unpacks if convert and dtype == wanted else wanted
            note = f"{chip.name} has no {lacking} units: {', '.join(does)}" if does else ""
            if lacking == NO_UNIT:
                note = f"{own.what} of {math} products are unpacked to {dtype} in the kernel"
            return MathRate("matrix", rate, convert, note, dtype)
    raise UnsupportedError(f"{chip.name} has no matrix rate that {math} products could run at")


def _has_units(chip: ChipSpec, stored: str) -> bool:
    """Whether a chip multiplies values as they are stored."""
    return stored != NO_UNIT and chip.matrix_flops_per_s(stored) is not None


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
