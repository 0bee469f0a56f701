"""Folds of rows for cross-validation, the same every time."""

from __future__ import annotations

import numpy as np

FOLDS = 5


def folds_of(count: int) -> list[np.ndarray]:
    """Row numbers of each fold, dealt from a fixed shuffle."""
    order = np.random.default_rng(0).permutation(count)
    return [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]
