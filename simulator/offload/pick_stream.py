"""A seeded stream of picks with stated statistics, to replay through a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simulator.offload.misses import StatedMisses

Ids = NDArray[np.int64]


def pick_stream(
    stated: StatedMisses, *, entries: int, top_k: int, queries: int, seed: int
) -> Iterator[Ids]:
    """Picks [top_k] of consecutive queries over a fixed number of entries; same seed, same picks.

    Assumes: the context does not grow while the picks are drawn.
    """
    rng = np.random.default_rng(seed)
    picks = rng.choice(entries, top_k, replace=False)
    # When an entry was last picked; of those left at one time, and never picked, order is chance.
    left = -rng.random(entries)
    for now in range(queries):
        yield np.sort(picks)
        left[picks] = now + rng.random(top_k)
        leaves = rng.random(top_k) >= stated.overlap
        count = min(int(leaves.sum()), entries - top_k)
        away = np.setdiff1d(np.arange(entries), picks)
        recent = away[np.argsort(-left[away])[: min(stated.return_entries, len(away))]]
        returning = min(int(rng.binomial(count, stated.returns)), len(recent))
        back = rng.choice(recent, returning, replace=False)
        others = np.setdiff1d(away, back)
        fresh = rng.choice(others, count - returning, replace=False)
        stays = np.concatenate([picks[~leaves], picks[leaves][: int(leaves.sum()) - count]])
        picks = np.concatenate([stays, back, fresh])
