"""What an engine's profile says of itself, and what its programs do not follow of a question."""

from __future__ import annotations

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import math_rate
from simulator.cost.result import StepQuestion
from simulator.lower.profile import EngineProfile

# Formats that the calibrated attention kernels read.
INDEX_DTYPE, KV_DTYPE = "fp8", "fp8"
_INDEX_MATH = {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}


def engine_notes(question: StepQuestion, profile: EngineProfile, chip: ChipSpec) -> tuple[str, ...]:
    """Sentences for a result's notes."""
    notes = []
    if profile.note and profile.name != "ideal":
        notes.append(f"engine {profile.name}: {' '.join(profile.note.split())}")
    if profile.attention is not None and question.fidelity == "tile":
        for what, given, known in (
            ("index keys", question.index_dtype, INDEX_DTYPE),
            ("cache entries", question.kv_dtype, KV_DTYPE),
        ):
            if given != known:
                notes.append(
                    f"{what} in {given} are priced with the kernels for {known} that were measured"
                )
        runs_in = math_rate(chip, _INDEX_MATH[question.index_dtype]).runs_in
        if runs_in != question.index_dtype:
            notes.append(
                f"{chip.name} would have to unpack index keys in {question.index_dtype}, which the "
                f"measured kernels, calibrated with {INDEX_DTYPE} keys on chips with its units, do "
                "not: unpacking counts in the roofline only, below which no time falls; "
                "--engine ideal prices it"
            )
    return tuple(notes)
