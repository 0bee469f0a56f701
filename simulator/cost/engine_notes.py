"""What an engine's profile says of itself, and what its programs do not follow of a question."""

from __future__ import annotations

from collections.abc import Sequence

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import math_rate
from simulator.cost.price import Price
from simulator.cost.question import AskedStep
from simulator.cost.result import StepQuestion
from simulator.engine.default_engine import IDEAL
from simulator.engine.kernel import Kernel
from simulator.engine.profile import EngineProfile

# Formats in which the engines' attention kernels were measured.
INDEX_DTYPE, KV_DTYPE = "fp8", "fp8"
_INDEX_MATH = {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}


def priced_as(asked: AskedStep) -> tuple[str, ...]:
    """Sentences for the first lines on what the engine does not do, or was not measured in.

    Formats are priced by their bytes, math class and conversion, with a wider interval.
    """
    question, deployment = asked.question, asked.deployment
    budget = (deployment.budget_note,) if deployment.budget_note else ()
    if deployment.profile.module is None or question.fidelity == "roofline":
        return (*deployment.as_if, *budget)
    runs_in = math_rate(deployment.chip, _INDEX_MATH[question.index_dtype]).runs_in
    unpacked = f", unpacked to {runs_in}" if runs_in != question.index_dtype else ""
    formats = (
        ("Index keys", question.index_dtype, INDEX_DTYPE, unpacked),
        ("Cache entries", question.kv_dtype, KV_DTYPE, ""),
        ("Experts", question.expert_dtype, None if question.expert_dtype != "bf16" else "", ""),
    )
    measured = tuple(
        f"{what} in {given}{how}: as if {deployment.profile.name} had this kernel, not measured"
        for what, given, known, how in formats
        if known is not None and given != known
    )
    return (*measured, *deployment.as_if, *budget)


# Formats of weights in which an engine's kernels were measured, or priced as such before.
_KNOWN_MATH = ("fp32", "bf16", "fp8", "fp8xfp4", "fp4_index")


def unmeasured_formats(
    asked: AskedStep, kernels: Sequence[Kernel], prices: Sequence[Price]
) -> tuple[str, ...]:
    """Sentences on weights in formats that the engine has no measured kernel for on the chip."""
    question, profile = asked.question, asked.deployment.profile
    if profile.module is None or question.fidelity == "roofline":
        return ()
    names: dict[str, dict[str, None]] = {}
    for kernel, price in zip(kernels, prices, strict=True):
        for product in kernel.demand.products:
            if product.math not in _KNOWN_MATH and not price.calibrated:
                names.setdefault(product.math, {})[kernel.name] = None
    return tuple(
        f"{profile.name} has no measured kernel for {math} products on {question.chip}: "
        f"{', '.join(own)} priced from the chip's description, with a wide interval"
        for math, own in names.items()
    )


def engine_notes(question: StepQuestion, profile: EngineProfile, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences for a result's notes."""
    if profile.note and profile.name != IDEAL:
        return (f"engine {profile.name}: {' '.join(profile.note.split())}",)
    return ()
