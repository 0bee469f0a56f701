"""At what rate, and on which unit, a chip multiplies each math class."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError

# Multiply by the scale, and place the bits: per converted weight. Guessed: two instructions.
CONVERT_OPS_PER_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class MathRate:
    """`flops_per_s` of a math class on the `matrix` or `vector` unit.

    `convert` says that weights, or index keys, are converted in the kernel first, to `runs_in`;
    `note` says what a chip without the fitting units does instead, empty where it has them.
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
    Assumes: a chip without FP4 units converts the weights inside the kernel, with 2 vector
        operations for each weight and use.
    Assumes: a chip without FP8 units computes FP8 products at the BF16 rate (FP16 without BF16).
    Assumes: FP32 products run as TF32 where the chip has it, else on the vector units.
    """
    if math == "fp32":
        return _fp32(chip)
    wanted = {"fp8xfp4": "fp8", "fp4_index": "fp4"}.get(math, math)
    chain = {"fp4": ("fp4", "fp8", "bf16", "fp16"), "fp8": ("fp8", "bf16", "fp16")}
    for dtype in chain.get(wanted, ("bf16", "fp16")):
        rate = chip.matrix_flops_per_s(dtype)
        if rate is not None:
            convert = math == "fp8xfp4" and chip.matrix_flops_per_s("fp4") is None
            note = ""
            if dtype != wanted:
                note = f"{chip.name} has no {wanted} units: {math} products run at the {dtype} rate"
            elif convert:
                note = f"{chip.name} has no fp4 units: expert weights are converted in the kernel"
            return MathRate("matrix", rate, convert, note, dtype)
    raise UnsupportedError(f"{chip.name} has no matrix rate that {math} products could run at")


def _fp32(chip: ChipSpec) -> MathRate:
    tf32 = chip.matrix_flops_per_s("tf32")
    if tf32 is not None:
        return MathRate("matrix", tf32, runs_in="tf32")
    own = chip.matrix.fp32
    if own is not None:
        return MathRate("matrix", float(own.si), runs_in="fp32")
    note = f"{chip.name} has no tf32 units: fp32 products run on the vector units"
    return MathRate("vector", chip.vector_flops_per_s, note=note, runs_in="fp32")
