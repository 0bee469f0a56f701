"""Tokens of each expert under the distributions that MoE kernels are measured with.

`balanced`: choice j of token t is expert (t + j x ceil(experts / topk)) mod experts.
`power_law_<a>`: each expert draws x with density x^-a on [1, 0.8 x tokens], or on [0.01, 2] where
there are no more choices than experts; draws are scaled to the number of choices, rounded, cut at
one choice a token, and what rounding left is dealt one by one, the emptiest experts first.
`uniform`: every token picks its experts at random; no draws, but the expected number of experts
with each load, which is binomial. Where tokens are related (`alone` fewer unrelated ones would
touch as many experts), each choice stands for as many tokens as come to one of those.

A time is the mean over `DRAWS` draws, which a fixed generator makes the same every time.

Assumes: what rounding leaves over goes to the emptiest experts; with few tokens the measured
times follow this number of distinct experts and not that of the opposite order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError, UnsupportedError
from simulator.kernels.family import Columns
from simulator.kernels.parts import Floats

DRAWS = 5
_STEEPEST = 10.0
_POWER_LAW = "power_law_"
UNIFORM = "uniform"
# Loads further than this many standard deviations from the mean do not occur.
_DEVIATIONS = 8.0
# Range of the drawn loads: as a share of the tokens at most, or where experts outnumber choices.
_LEAST_LOAD, _MOST_SHARE = 1.0, 0.8
_SPARSE_RANGE = (0.01, 2.0)

Counts = NDArray[np.int64]


@lru_cache(maxsize=4096)
def expert_draws(tokens: int, experts: int, topk: int, distribution: str) -> Counts:
    """Tokens of each expert, one row a draw; `balanced` has a single one."""
    if not 1 <= topk <= experts or tokens < 1:
        raise InputError(
            f"expert loads need 1 <= topk <= experts and at least one token, "
            f"got topk {topk}, {experts} experts and {tokens} tokens"
        )
    if distribution == "balanced":
        return _balanced(tokens, experts, topk)[None]
    exponent = power_law_exponent(distribution)
    rows = [
        _power_law(tokens, experts, topk, exponent, np.random.default_rng(draw))
        for draw in range(DRAWS)
    ]
    return np.array(rows)


def power_law_exponent(distribution: str) -> float:
    """The exponent that a distribution's name says; an InputError where it says none."""
    text = distribution.removeprefix(_POWER_LAW)
    try:
        exponent = float(text) if distribution.startswith(_POWER_LAW) else 0.0
    except ValueError:
        exponent = 0.0
    if not 0 < exponent <= _STEEPEST or exponent == 1:
        raise InputError(
            f"distribution {distribution!r} is unknown: expected 'balanced', '{UNIFORM}' or "
            f"'{_POWER_LAW}<a>' with a above 0, up to {_STEEPEST:g} and not 1"
        )
    return exponent


def _balanced(tokens: int, experts: int, topk: int) -> Counts:
    # Each run of as many tokens as experts gives every expert `topk` of them.
    rounds, rest = divmod(tokens, experts)
    apart = -(-experts // topk) * np.arange(topk)
    chosen = (np.arange(rest)[:, None] + apart) % experts
    return rounds * topk + np.bincount(chosen.ravel(), minlength=experts)


def _power_law(
    tokens: int, experts: int, topk: int, exponent: float, generator: np.random.Generator
) -> Counts:
    choices = tokens * topk
    sparse = choices <= experts
    low, high = _SPARSE_RANGE if sparse else (_LEAST_LOAD, _MOST_SHARE * tokens)
    power = 1.0 - exponent
    # Inverse of the cumulative density at uniform draws.
    ends = low**power, high**power
    drawn = (ends[0] + (ends[1] - ends[0]) * generator.random(experts)) ** (1.0 / power)
    counts = np.rint(drawn / drawn.sum() * choices).astype(np.int64)
    return _dealt(np.minimum(counts, tokens), choices, tokens)


def _dealt(counts: Counts, choices: int, tokens: int) -> Counts:
    """Adds what is missing to the emptiest experts, or takes what is too much from the fullest."""
    order = np.argsort(counts, kind="stable")
    missing = choices - int(counts.sum())
    step = 1 if missing > 0 else -1
    while missing:
        open_ones = order[counts[order] < tokens] if step > 0 else order[::-1]
        open_ones = open_ones[counts[open_ones] + step >= 0][: abs(missing)]
        counts[open_ones] += step
        missing -= step * len(open_ones)
    return counts


@dataclass(frozen=True, slots=True)
class ExpertTiles:
    """Experts of each call by how many token tiles they fill, the mean over the draws.

    `experts[i, v]` experts of call i have `tiles[i, v]` tiles each; unused places hold none.
    """

    tiles: Floats
    experts: Floats

    @property
    def touched(self) -> Floats:
        """Experts with at least one token."""
        return np.asarray(self.experts.sum(axis=1))

    @property
    def total(self) -> Floats:
        """Tiles of all experts together."""
        return np.asarray((self.tiles * self.experts).sum(axis=1))


def expert_tiles(calls: Columns, tile_tokens: Floats) -> ExpertTiles:
    """Tiles of the experts on one GPU, the one with most tokens of those that share the experts.

    Assumes: expert parallelism gives each GPU a run of experts, and the fullest is waited for.
    """
    sizes = {
        name: np.asarray(calls[name], dtype=np.int64)
        for name in ("tokens", "experts", "per_token", "held")
    }
    ranks = sizes["experts"] // sizes["held"]
    alone = np.maximum(1, np.rint(calls.get("alone", calls["tokens"]))).astype(np.int64)
    numbers = [sizes["tokens"], sizes["experts"], sizes["per_token"], ranks, alone]
    tiles = np.broadcast_to(np.asarray(tile_tokens, dtype=np.int64), numbers[0].shape)
    keys = list(zip(*(n.tolist() for n in (*numbers, tiles)), calls["distribution"], strict=True))
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    found = [_histogram(*key[:6], str(key[6])) for key in place]
    width = max((len(values) for values, _ in found), default=1)
    values, experts = np.zeros((2, len(found), width))
    for i, (tile_counts, how_many) in enumerate(found):
        values[i, : len(tile_counts)] = tile_counts
        experts[i, : len(how_many)] = how_many
    rows = np.array([place[key] for key in keys], dtype=np.int64)
    return ExpertTiles(values[rows], experts[rows])


@lru_cache(maxsize=16384)
def _histogram(
    tokens: int, experts: int, topk: int, ranks: int, alone: int, tile: int, distribution: str
) -> tuple[Floats, Floats]:
    """Distinct tile counts of an expert, and the mean number of experts that have each."""
    if experts % ranks:
        raise UnsupportedError(f"{experts} experts cannot be dealt evenly to {ranks} GPUs")
    if distribution == UNIFORM:
        return expected_experts(tokens, experts, topk, ranks, tile, alone)
    draws = expert_draws(tokens, experts, topk, distribution)
    by_rank = draws.reshape(len(draws), ranks, -1)
    fullest = by_rank.sum(axis=2).argmax(axis=1)
    here = by_rank[np.arange(len(draws)), fullest]
    values, counts = np.unique(-(-here[here > 0] // tile), return_counts=True)
    return values.astype(float), counts / len(draws)


def expected_experts(
    tokens: int, experts: int, topk: int, ranks: int, tile: int, alone: int | None = None
) -> tuple[Floats, Floats]:
    """Expected experts of one GPU by tile count, where each token picks an expert at topk/experts.

    Assumes: under uniform choice every GPU's experts get the same number of tokens.
    """
    chance = topk / experts
    if chance >= 1.0:
        return np.array([float(-(-tokens // tile))]), np.array([experts / ranks])
    choosing = tokens if alone is None else alone
    mean = choosing * chance
    reach = _DEVIATIONS * math.sqrt(mean * (1 - chance)) + _DEVIATIONS
    loads = np.arange(max(1, math.floor(mean - reach)), min(choosing, math.ceil(mean + reach)) + 1)
    chosen, missed = (
        np.array([math.lgamma(n + 1) for n in counted.tolist()])
        for counted in (loads, choosing - loads)
    )
    logs = math.lgamma(choosing + 1) - chosen - missed + loads * math.log(chance)
    logs = logs + (choosing - loads) * math.log1p(-chance)
    # Rows of a choice come in whole tokens: the part beyond is the chance of one row more.
    rows = loads * (tokens / choosing)
    low = np.floor(rows).astype(np.int64)
    chances = np.exp(logs)
    all_rows = np.concatenate([low, low + 1])
    all_chances = np.concatenate([chances * (1.0 - (rows - low)), chances * (rows - low)])
    if choosing == tokens:
        all_rows, all_chances = loads, chances
    values, place = np.unique(-(-all_rows // tile), return_inverse=True)
    counts = np.bincount(place, weights=all_chances) * experts / ranks
    return values.astype(float), counts
