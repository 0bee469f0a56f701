"""Made-up index queries and keys, seeded: three shapes that real keys may have, none of them real.

Every key is scaled to a root mean square of 1, as the compressor's norm leaves it. Entries are in
the order of the context, and a shorter context is a prefix of a longer one.

Assumes: index weights of the heads are half-normal: positive, a few heads counting most.
Assumes: the rotary part of a key is distributed as the rest, whatever its position.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.indexer.index_case import IndexCase
from workloads.block_scale import Array
from workloads.deepseek_v4.config import ModelConfig

# Clustered: subjects of the context, entries of one stretch, subjects that a query wants.
CENTRES, STRETCH_ENTRIES, WANTED_CENTRES = 512, 64, 8
CENTRE_SHARE = 0.7
# Heavy-tailed: degrees of freedom of Student's t, spread of the channels' scales (log).
TAIL_FREEDOM, CHANNEL_SPREAD = 3.0, 1.0
# Planted: direction that a query's heads share and its matches follow, as shares of the square.
QUERY_ALIGNED, KEY_ALIGNED = 0.2, 0.1


def isotropic(config: ModelConfig, queries: int, entries: int, seed: int) -> IndexCase:
    """Independent normal queries and keys: no structure, so the picks are a matter of luck."""
    rng = np.random.default_rng([seed, 0])
    keys = _normal(rng, entries, config.index_head_dim)
    q = _normal(rng, queries, config.index_n_heads, config.index_head_dim)
    return IndexCase(
        name="isotropic",
        about="independent normal values: scores of the best entries lie closest together",
        q=q,
        k=_unit_rms(keys),
        w=_weights(rng, config, queries),
    )


def clustered(config: ModelConfig, queries: int, entries: int, seed: int) -> IndexCase:
    """Stretches of the context share a centre; each head of a query aims at one it wants."""
    rng = np.random.default_rng([seed, 1])
    dim, heads = config.index_head_dim, config.index_n_heads
    centres = _normal(rng, CENTRES, dim)
    lengths = rng.geometric(1.0 / STRETCH_ENTRIES, entries)
    used = int(np.searchsorted(np.cumsum(lengths), entries)) + 1
    subjects = np.repeat(rng.integers(0, CENTRES, used), lengths[:used])[:entries]
    own, shared = np.sqrt(1.0 - CENTRE_SHARE), np.sqrt(CENTRE_SHARE)
    keys = shared * centres[subjects] + own * _normal(rng, entries, dim)
    wanted = rng.integers(0, CENTRES, (queries, WANTED_CENTRES))
    aims = np.take_along_axis(wanted, rng.integers(0, WANTED_CENTRES, (queries, heads)), axis=1)
    q = np.sqrt(0.5) * (centres[aims] + _normal(rng, queries, heads, dim))
    return IndexCase(
        name="clustered",
        about=f"{CENTRES} centres in stretches of {STRETCH_ENTRIES} entries on average, "
        f"{100 * CENTRE_SHARE:.0f} % of a key's square is its centre; a query's heads aim at "
        f"{WANTED_CENTRES} of them",
        q=q.astype(np.float32),
        k=_unit_rms(keys),
        w=_weights(rng, config, queries),
    )


def heavy_tailed(config: ModelConfig, queries: int, entries: int, seed: int) -> IndexCase:
    """Outlier channels and heavy tails, with entries planted that match a query's direction."""
    rng = np.random.default_rng([seed, 2])
    dim, heads = config.index_head_dim, config.index_n_heads
    noise = _unit_rms(_tailed(rng, entries, dim))
    directions = _unit_rms(_normal(rng, queries, dim))
    keys, planted = noise, []
    for direction in directions:
        count = min(config.index_topk // 2, entries)
        ids = np.sort(rng.choice(entries, count, replace=False))
        keys[ids] = np.sqrt(1.0 - KEY_ALIGNED) * keys[ids] + np.sqrt(KEY_ALIGNED) * direction
        planted.append(ids)
    heads_noise = _unit_rms(_tailed(rng, queries * heads, dim)).reshape(queries, heads, dim)
    q = np.sqrt(1.0 - QUERY_ALIGNED) * heads_noise
    q += np.sqrt(QUERY_ALIGNED) * directions[:, None, :]
    return IndexCase(
        name="heavy-tailed",
        about=f"Student's t with {TAIL_FREEDOM:.0f} degrees of freedom on channels whose scales "
        f"are log-normal (spread {CHANNEL_SPREAD:g}); {config.index_topk // 2} planted matches a "
        f"query share {100 * KEY_ALIGNED:.0f} % of their square with its direction",
        q=q.astype(np.float32),
        k=_unit_rms(keys),
        w=_weights(rng, config, queries),
        planted=tuple(planted),
    )


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def _tailed(rng: np.random.Generator, rows: int, dim: int) -> Array:
    """Student's t in channels of unlike scale: normal values over a chi of each value."""
    scales = rng.lognormal(0.0, CHANNEL_SPREAD, dim).astype(np.float32)
    square = 2.0 / TAIL_FREEDOM * rng.standard_gamma(TAIL_FREEDOM / 2, (rows, dim), np.float32)
    return _normal(rng, rows, dim) / np.sqrt(np.maximum(square, 1e-12)) * scales


def _unit_rms(values: Array) -> Array:
    square = np.einsum("...d,...d->...", values, values)[..., None]
    return (values * np.sqrt(values.shape[-1] / square)).astype(np.float32)


def _weights(rng: np.random.Generator, config: ModelConfig, queries: int) -> Array:
    return np.abs(_normal(rng, queries, config.index_n_heads))


Distribution = Callable[[ModelConfig, int, int, int], IndexCase]
DISTRIBUTIONS: dict[str, Distribution] = {
    "isotropic": isotropic,
    "clustered": clustered,
    "heavy-tailed": heavy_tailed,
}
