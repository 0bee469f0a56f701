"""Proofs of window policies as JSON: stable keys, units in names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.prove.difference import TOLERANCE, Difference
from simulator.prove.full_size import FullSizeReplay
from simulator.prove.proof import ModelProof, PolicyProof
from simulator.prove.replay_count import ReplayCount
from simulator.prove.replay_search import BoundedError, SmallestReplay
from simulator.prove.resume import Resumed

SCHEMA = "v4sim.prefix-proof/1"


def proofs_to_json(
    proofs: Sequence[ModelProof], full_size: Sequence[FullSizeReplay]
) -> dict[str, Any]:
    """All models and the counts at full size."""
    return {
        "schema": SCHEMA,
        "tolerance": TOLERANCE,
        "holds": all(proof.holds for proof in proofs),
        "models": [_model(proof) for proof in proofs],
        "full_size": [_full_size(replay) for replay in full_size],
    }


def _model(proof: ModelProof) -> dict[str, Any]:
    geometry, search = proof.geometry, proof.search
    return {
        "model": proof.model,
        "window_tokens": geometry.n_win,
        "layers": geometry.layers,
        "compress_ratios": list(proof.ratios),
        "prompt_tokens": proof.lengths.prompt,
        "stored_tokens": proof.lengths.total,
        "cut_tokens": list(proof.lengths.cuts),
        "holds": proof.holds,
        "policies": [_policy(policy) for policy in proof.policies],
        "smallest_exact_replay": {
            "boundary_tokens": search.boundary,
            "first_token": _smallest(search.first_token, geometry.first_token_tokens),
            "whole_window": _smallest(search.whole_window, geometry.tight_tokens),
            "stated_tokens": geometry.replay_tokens,
            "holds": proof.counts_hold,
        },
        "bounded_replay": [_bounded(error) for error in proof.bounded],
    }


def _policy(policy: PolicyProof) -> dict[str, Any]:
    return {
        "policy": policy.policy,
        "claims_exact": policy.exact,
        "holds": policy.holds,
        "written_bytes": policy.written_bytes,
        "read_bytes": policy.read_bytes,
        "file_bytes": policy.file_bytes,
        "damaged": policy.damaged,
        "resumed": [_resumed(resumed) for resumed in policy.resumed],
    }


def _resumed(resumed: Resumed) -> dict[str, Any]:
    return {
        "cut_tokens": resumed.cut,
        "boundary_tokens": resumed.boundary,
        "checkpoint_tokens": resumed.checkpoint,
        "how": resumed.how,
        "run_again_tokens": resumed.work.tokens,
        "run_again_token_layers": resumed.work.token_layers,
        "rebuilt_kv_rows": resumed.work.kv_rows,
        "equal": resumed.equal,
        "logits": _difference(resumed.logits),
        "window": _difference(resumed.window),
        "state": _difference(resumed.state),
        "same_choices_fraction": resumed.same_choices,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "largest": difference.largest,
        "not_finite": difference.not_finite,
        "values": difference.values,
    }


def _smallest(found: SmallestReplay, closed_form_tokens: int) -> dict[str, Any]:
    return {
        "tokens": found.tokens,
        "closed_form_tokens": closed_form_tokens,
        "not_finite_with_one_token_fewer": found.not_finite_below,
        "values": found.values,
    }


def _bounded(error: BoundedError) -> dict[str, Any]:
    return {
        "tokens": error.tokens,
        "first_token_largest_error": error.first_token,
        "largest_error": error.all_tokens,
        "same_choices_fraction": error.same_choices,
        "same_window": error.same_window,
    }


def _full_size(replay: FullSizeReplay) -> dict[str, Any]:
    geometry = replay.geometry
    return {
        "model": replay.model,
        "window_tokens": geometry.n_win,
        "layers": geometry.layers,
        "stated_tokens": geometry.replay_tokens,
        "stated_token_layers": geometry.replay_tokens * geometry.layers,
        "first_token": _count(replay.first_token),
        "whole_window": _count(replay.whole_window),
    }


def _count(count: ReplayCount) -> dict[str, int]:
    return {
        "tokens": count.tokens,
        "rebuilt_kv_rows": count.kv_rows,
        "token_layers": count.token_layers,
    }
