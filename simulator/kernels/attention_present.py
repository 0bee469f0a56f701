"""Which kernels of an attention module a call has, by kind of layer, phase and length."""

from __future__ import annotations

import numpy as np

from simulator.kernels.attention_calls import HEADS_PER_GROUP, AttentionCalls, plain_call
from simulator.kernels.sparse_core import HEADS as LEAST_HEADS
from simulator.lower.calls import AttentionCall
from simulator.lower.kernel_section import AttentionDecisions

# Kernels by the kind of layer that has them; all others are in every module.
COMPRESSES = ("compressor_gemm", "compressor")
CSA_ONLY = (
    "index_weights",
    "index_compressor_gemm",
    "index_compressor",
    "index_query",
    "index_rope",
    "index_logits",
    "top_k",
)
# What a prefill of short rows may leave out: the indexer's queries, and their scores.
QUERIES = ("index_query", "index_rope")
SCORES = ("index_logits", "top_k")


def present(part: str, calls: AttentionCalls, decisions: AttentionDecisions) -> np.ndarray:
    """Calls that launch a kernel of the module."""
    if part in COMPRESSES:
        return calls.compresses
    if part in CSA_ONLY:
        return calls.csa & ~_short(part, calls, decisions)
    if part == "pad":
        return calls.heads < LEAST_HEADS
    if part == "regroup":
        permuted = (calls.heads > HEADS_PER_GROUP) & (calls.tokens > 1)
        return permuted & (decisions.regroup_launches > 0)
    return np.ones_like(calls.csa)


def left_out(call: AttentionCall, decisions: AttentionDecisions) -> frozenset[str]:
    """Parts of the module that a call does not launch."""
    calls = plain_call(call)
    parts = (*COMPRESSES, *CSA_ONLY, "pad", "regroup")
    return frozenset(part for part in parts if not present(part, calls, decisions))


def _short(part: str, calls: AttentionCalls, decisions: AttentionDecisions) -> np.ndarray:
    """Calls of short rows, in which the indexer would select every entry."""
    parts = {"all": QUERIES + SCORES, "scores": SCORES, "none": ()}[decisions.short_rows]
    return ~calls.decode & ~calls.selects & (part in parts)
