"""What an engine's profile says of itself, and what its programs do not follow of a question."""

from __future__ import annotations

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import math_rate
from simulator.cost.result import StepQuestion
from simulator.lower.default_engine import IDEAL
from simulator.lower.profile import EngineProfile, find_profile

# Formats that the calibrated attention kernels read.
INDEX_DTYPE, KV_DTYPE = "fp8", "fp8"
_INDEX_MATH = {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}


def priced_as(question: StepQuestion, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences on formats that are asked for and whose kernels are priced as another's."""
    profile = find_profile(question.engine)
    if profile.attention is None or question.fidelity == "roofline":
        return ()
    unpacked = math_rate(chip, _INDEX_MATH[question.index_dtype]).runs_in != question.index_dtype
    asked = (
        ("Index keys", question.index_dtype, INDEX_DTYPE, unpacked),
        ("Cache entries", question.kv_dtype, KV_DTYPE, False),
    )
    return tuple(
        f"{what} asked for in {given}; {profile.name}'s kernels are priced as {known}: "
        + (
            f"bytes of memory and capacity change, times only where the roofline of {given} is "
            "longer"
            if given == "bf16" or slower
            else "only bytes of memory and capacity change"
        )
        for what, given, known, slower in asked
        if given != known
    )


def engine_notes(question: StepQuestion, profile: EngineProfile, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences for a result's notes."""
    notes = []
    if profile.note and profile.name != IDEAL:
        notes.append(f"engine {profile.name}: {' '.join(profile.note.split())}")
    if profile.attention is not None and question.fidelity == "tile":
        runs_in = math_rate(chip, _INDEX_MATH[question.index_dtype]).runs_in
        if runs_in != question.index_dtype:
            notes.append(
                f"{chip.name} would have to unpack index keys in {question.index_dtype}, which the "
                f"measured kernels, calibrated with {INDEX_DTYPE} keys on chips with its units, do "
                "not: unpacking counts in the roofline only, below which no time falls; "
                "--engine ideal prices it"
            )
    return tuple(notes)
