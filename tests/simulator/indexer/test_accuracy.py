"""Recall, score error and output change: by hand on small cases, and the order of the formats."""

from statistics import mean

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.indexer.accuracy import case_accuracy, check_entries, contexts_up_to
from simulator.indexer.distributions import DISTRIBUTIONS
from simulator.indexer.index_case import IndexCase
from simulator.indexer.scores import REFERENCE, Variant
from workloads.deepseek_v4.config import find_model

CONFIG = find_model("v4-flash")
# Chosen before any of them was run.
SEEDS = (11, 12, 13, 14, 15)
ROTATED = {p: Variant(precision=p, hadamard=True) for p in ("fp4", "fp8", "bf16")}


def small(scores, planted=()):
    """One query whose float32 scores are the first value of each key; two are picked."""
    k = np.zeros((len(scores), 128), np.float32)
    k[:, 0] = scores
    q = np.zeros((1, 1, 128), np.float32)
    q[0, 0, 0] = 1.0
    w = np.ones((1, 1), np.float32)
    return IndexCase(name="small", about="", q=q, k=k, w=w, planted=planted)


def small_point(scores, planted=()):
    config = CONFIG.model_copy(update={"index_topk": 2})
    variant = Variant(precision="fp32", bf16_scores=True)
    points = case_accuracy(small(scores, planted), config, 1, variants=[variant])
    return max(points, key=lambda p: p.entries)


def test_recall_by_hand():
    # BF16 steps by 1/128 above 1: three scores become 1, and the lowest ids win: 0 and 1, not 2.
    point = small_point([1.001, 1.0, 1.002, 0.5])
    assert (point.entries, point.recall, point.worst_recall) == (4, 0.5, 0.5)
    assert point.planted_recall is None
    error = np.sqrt((0.001**2 + 0.002**2) / 4) / np.std([1.001, 1.0, 1.002, 0.5])
    assert point.score_error == pytest.approx(error, rel=1e-3)
    assert point.output_change > 0
    assert 0 < point.missed_attention < 1


def test_planted_entries_count_among_float32s_picks_only():
    scores = [1.001, 1.0, 1.002, 0.5]
    assert small_point(scores, (np.array([0, 3]),)).planted_recall == 1.0  # 3 is no pick of any
    assert small_point(scores, (np.array([0, 2]),)).planted_recall == 0.5
    assert small_point(scores, (np.array([3]),)).planted_recall is None


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_float32_finds_everything(name):
    case = DISTRIBUTIONS[name](CONFIG, 2, 2048, 1)
    turned = Variant(precision="fp32", hadamard=True)
    for point in case_accuracy(case, CONFIG, 1, variants=[REFERENCE, turned]):
        if point.variant == REFERENCE:
            assert (point.recall, point.worst_recall, point.score_error) == (1.0, 1.0, 0.0)
            assert (point.output_change, point.missed_attention) == (0.0, 0.0)
        assert point.recall > 0.998


@pytest.fixture(scope="module")
def recalls():
    """Recall at 4,096 entries by (distribution, variant): one value a seed."""
    found = {}
    plain = Variant(precision="fp4")
    for name, make in DISTRIBUTIONS.items():
        for seed in SEEDS:
            case = make(CONFIG, 2, 4096, seed)
            for point in case_accuracy(case, CONFIG, seed, variants=[plain, *ROTATED.values()]):
                if point.entries == 4096:
                    found.setdefault((name, point.variant), []).append(point.recall)
    return found


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_finer_formats_find_more(recalls, name):
    fp4, fp8, bf16 = (recalls[name, variant] for variant in ROTATED.values())
    assert all(finer > coarser for finer, coarser in zip(fp8, fp4, strict=True))
    assert all(finer > coarser for finer, coarser in zip(bf16, fp8, strict=True))
    assert 0.7 < mean(fp4) < mean(fp8) < mean(bf16) < 1.0


def test_hadamard_helps_fp4_on_heavy_tails(recalls):
    rotated, plain = (
        recalls["heavy-tailed", ROTATED["fp4"]],
        recalls["heavy-tailed", Variant(precision="fp4")],
    )
    assert all(r > p for r, p in zip(rotated, plain, strict=True))


def test_hadamard_does_nothing_for_normal_values(recalls):
    rotated, plain = (
        recalls["isotropic", ROTATED["fp4"]],
        recalls["isotropic", Variant(precision="fp4")],
    )
    assert mean(rotated) == pytest.approx(mean(plain), abs=0.02)


def test_contexts_are_halves_with_more_entries_than_picks():
    assert contexts_up_to(65536, 512) == (1024, 2048, 4096, 8192, 16384, 32768, 65536)
    assert contexts_up_to(1025, 512) == (1025,)


@pytest.mark.parametrize(
    ("entries", "words"), [(512, "1 too few"), (2**18 + 5, "5 too many"), (-3, "516 too few")]
)
def test_entries_out_of_range_are_one_sentence(entries, words):
    with pytest.raises(InputError, match=words):
        check_entries(entries, CONFIG)
    assert check_entries(513, CONFIG) == 513
