"""Random weights for any config, scaled so that activations and logits stay near one.

Values are exact in float32, so a run from a float32 file equals a run from memory. With few index
heads some index scores tie at exactly zero (every ReLU shut); configs for comparisons of top-k
choices should use 32 or more.

    weights = random_weights(config, seed=7)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.evaluate.golden_file import expected_weights

SPREADS = {
    "sinks": (0.0, 0.5),
    "norm.weight": (1.0, 0.3),
    "position_bias": (0.0, 0.2),
    "e_score_correction_bias": (0.0, 0.1),
    "base": (0.0, 0.5),
    "scale": (0.0, 0.5),
    "embed_tokens.weight": (0.0, 1.0),
}
"""Ending of a name -> mean and standard deviation; any other weight is a matrix with 1/sqrt(in)."""


def random_weights(
    config: Mapping[str, Any],
    seed: int | np.random.Generator,
    dtype: type[np.floating] = np.float64,
    mtp: bool = False,
) -> dict[str, np.ndarray]:
    """Weights under their Hugging Face names; same seed, same weights.

    `mtp` adds the multi-token-prediction layers. A generator may be given instead of a seed.
    `tid2eid` is int64 and names no expert twice for a token.
    """
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in expected_weights(config, mtp=mtp).items():
        if name.endswith("tid2eid"):
            every = np.tile(np.arange(config["n_routed_experts"]), (shape[0], 1))
            weights[name] = rng.permuted(every, axis=1)[:, : shape[1]].copy()
        else:
            mean, spread = _spread(name, shape)
            values = mean + spread * rng.standard_normal(shape)
            weights[name] = values.astype(np.float32).astype(dtype)
    return weights


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    for ending, spread in SPREADS.items():
        if name.endswith(ending):
            return spread
    return 0.0, shape[-1] ** -0.5
