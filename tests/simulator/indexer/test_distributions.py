"""Made-up keys are what their words say, and the same for the same seed."""

import numpy as np
import pytest

from simulator.indexer.distributions import (
    CENTRES,
    DISTRIBUTIONS,
    KEY_ALIGNED,
    clustered,
    heavy_tailed,
    isotropic,
)
from workloads.deepseek_v4.config import find_model

CONFIG = find_model("v4-flash")


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_shapes_types_and_norm(name):
    case = DISTRIBUTIONS[name](CONFIG, 3, 1000, 11)
    assert case.name == name
    assert (case.q.shape, case.k.shape, case.w.shape) == ((3, 64, 128), (1000, 128), (3, 64))
    assert {case.q.dtype, case.k.dtype, case.w.dtype} == {np.dtype(np.float32)}
    assert np.sqrt(np.mean(case.k.astype(float) ** 2, axis=1)) == pytest.approx(1.0, abs=1e-5)
    assert (case.w >= 0).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_seed_decides_all(name):
    make = DISTRIBUTIONS[name]
    first, again, other = (make(CONFIG, 2, 700, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.k, again.k)
    assert np.array_equal(first.q, again.q)
    assert not np.array_equal(first.k, other.k)


def kurtosis(values):
    centred = values.astype(float) - values.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def test_isotropic_is_normal_and_heavy_tailed_is_not():
    assert kurtosis(isotropic(CONFIG, 1, 4000, 1).k) == pytest.approx(3.0, abs=0.1)
    assert kurtosis(heavy_tailed(CONFIG, 1, 4000, 1).k) > 6.0


def test_neighbours_of_clustered_keys_are_alike():
    k = clustered(CONFIG, 1, 4000, 1).k.astype(float)
    cosines = (k[:-1] * k[1:]).mean(axis=1)
    # 63 of 64 neighbours share a centre that holds 70 % of the square.
    assert cosines.mean() == pytest.approx(0.7 * 63 / 64, abs=0.05)
    loose = isotropic(CONFIG, 1, 4000, 1).k.astype(float)
    assert abs((loose[:-1] * loose[1:]).mean()) < 0.01
    assert CENTRES < 4000


def test_planted_entries_lie_along_their_querys_direction():
    case = heavy_tailed(CONFIG, 2, 3000, 1)
    aim = case.q[0].mean(axis=0)  # the heads' own parts cancel out
    aim /= np.linalg.norm(aim)
    cosine = case.k @ aim / np.sqrt(128)
    planted = np.isin(np.arange(3000), case.planted[0])
    assert planted.sum() == CONFIG.index_topk // 2
    assert cosine[planted].mean() > 0.6 * np.sqrt(KEY_ALIGNED)
    assert abs(cosine[~planted].mean()) < 0.05
