"""What an engine's profile says of itself, and what its programs do not follow of a question."""

from __future__ import annotations

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import math_rate
from simulator.cost.question import profile_of
from simulator.cost.result import StepQuestion
from simulator.lower.default_engine import IDEAL
from simulator.lower.profile import EngineProfile

# Formats in which the engines' attention kernels were measured.
INDEX_DTYPE, KV_DTYPE = "fp8", "fp8"
_INDEX_MATH = {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}


def priced_as(question: StepQuestion, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences on formats that are asked for and in which the engine's kernels were not measured.

    They are priced by their bytes, math class and conversion, with a wider interval.
    """
    profile = profile_of(question)
    if profile.module is None or question.fidelity == "roofline":
        return ()
    runs_in = math_rate(chip, _INDEX_MATH[question.index_dtype]).runs_in
    unpacked = f", unpacked to {runs_in}" if runs_in != question.index_dtype else ""
    asked = (
        ("Index keys", question.index_dtype, INDEX_DTYPE, unpacked),
        ("Cache entries", question.kv_dtype, KV_DTYPE, ""),
    )
    return tuple(
        f"{what} in {given}{how}: as if {profile.name} had this kernel, not measured"
        for what, given, known, how in asked
        if given != known
    )


def engine_notes(question: StepQuestion, profile: EngineProfile, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences for a result's notes."""
    if profile.note and profile.name != IDEAL:
        return (f"engine {profile.name}: {' '.join(profile.note.split())}",)
    return ()
