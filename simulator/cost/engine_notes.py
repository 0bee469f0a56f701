"""What an engine's profile says of itself, and what its programs do not follow of a question."""

from __future__ import annotations

from simulator.cost.result import StepQuestion
from simulator.lower.profile import EngineProfile

# Formats that the calibrated attention kernels read.
INDEX_DTYPE, KV_DTYPE = "fp8", "fp8"


def engine_notes(question: StepQuestion, profile: EngineProfile) -> tuple[str, ...]:
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
    return tuple(notes)
