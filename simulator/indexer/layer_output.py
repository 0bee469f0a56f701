"""What other picks do to the layer: sparse attention over window and picked entries, with sink.

The indexer is trained to pick what attention would look at, so made-up attention must agree with
it somehow; how, is stated here and nowhere tuned. Where a model has run, its attention is used.

Assumes: a picked entry's attention logit is its float32 index score, standardised over all
    entries of the context, plus unit noise for each head; window rows have unit noise alone.
Assumes: the sink's logit is 0, and key-value rows are exact: only the picks differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from workloads.block_scale import Array
from workloads.deepseek_v4.config import ModelConfig

# Square of a query along the direction that carries the index score, over that of the rest.
SCORE_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChange:
    """Against the float32 picks: relative L2 change of the output; attention that went missing."""

    output_change: float
    missed_attention: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryAttention:
    """q [heads, dim], keys [window + entries, dim], sink [heads]; K = V, shared by all heads."""

    q: Array
    keys: Array
    sink: Array
    window: int

    def over(self, entries: Array) -> QueryAttention:
        """The same over the window and some of the entries."""
        kept = np.concatenate([np.arange(self.window), self.window + entries])
        return replace(self, keys=self.keys[kept])


def made_up_attention(
    config: ModelConfig, standardised: Array, rng: np.random.Generator
) -> QueryAttention:
    """Attention of one query whose picked entries have these index scores [entries]."""
    dim, heads, window = config.head_dim, config.num_attention_heads, config.sliding_window
    axis = _normal(rng, dim)
    axis /= np.linalg.norm(axis)
    q = _normal(rng, heads, dim)
    q += (np.sqrt(SCORE_SHARE * dim) - q @ axis)[:, None] * axis
    keys = _normal(rng, window + len(standardised), dim)
    along = np.concatenate([np.zeros(window, np.float32), standardised.astype(np.float32)])
    # q . key / sqrt(dim) = noise + score
    keys += (along / np.sqrt(SCORE_SHARE) - keys @ axis)[:, None] * axis
    return QueryAttention(q=q, keys=keys, sink=np.zeros(heads, np.float32), window=window)


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def layer_changes(
    attention: QueryAttention, masks: Mapping[str, Array], reference: Array
) -> dict[str, LayerChange]:
    """Change by name; masks and reference say which of the entries are picked, [entries] bool."""
    weights = _unnormalised(attention)
    exact, shares = _attend(attention, weights, reference)
    norm = float(np.linalg.norm(exact))
    found = {}
    for name, mask in masks.items():
        out, _ = _attend(attention, weights, mask)
        missed = shares[:, attention.window :][:, reference & ~mask].sum(axis=1)
        found[name] = LayerChange(
            output_change=float(np.linalg.norm(out - exact)) / norm,
            missed_attention=float(missed.mean()),
        )
    return found


def _unnormalised(attention: QueryAttention) -> tuple[Array, Array]:
    """exp(logit - largest) of every key [heads, keys] and of the sink [heads]."""
    logits = attention.q @ attention.keys.T * np.float32(attention.q.shape[1] ** -0.5)
    top = np.maximum(logits.max(axis=1), attention.sink)
    return np.exp(logits - top[:, None]), np.exp(attention.sink - top)


def _attend(
    attention: QueryAttention, weights: tuple[Array, Array], mask: Array
) -> tuple[Array, Array]:
    """Output [heads, dim] over the window and the entries of the mask; softmax shares of those."""
    keys, sink = weights
    seen = np.concatenate([np.ones(attention.window, dtype=bool), mask])
    kept = keys * seen
    shares = kept / (kept.sum(axis=1) + sink)[:, None]
    return shares @ attention.keys, shares
