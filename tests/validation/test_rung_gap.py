"""The machine and the closed forms are near each other, on random kernels of V4 steps."""

from __future__ import annotations

import numpy as np

from tests.sampling import WHOLE
from tests.validation.rung_gap import random_gaps

COUNT = 200 if WHOLE else 20


def test_random_kernels_are_near_their_closed_forms() -> None:
    gaps = np.abs([gap.share for gap in random_gaps(COUNT, seed=12)])
    assert np.median(gaps) < 0.05
    assert np.quantile(gaps, 0.9) < (0.15 if WHOLE else 0.3)
