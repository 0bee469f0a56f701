"""Rounding, score rule and pick agree with the model's own operations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.indexer.index_case import IndexCase
from simulator.indexer.scores import (
    REFERENCE,
    ROUNDED_ROWS,
    SCORED_KEYS,
    Variant,
    format_of,
    rotated,
    rounded,
    scores,
    top_k,
)
from workloads.index_entry import hadamard


def case(queries=2, entries=40, heads=3, dim=32, seed=1):
    rng = np.random.default_rng(seed)
    shapes = {"q": (queries, heads, dim), "k": (entries, dim), "w": (queries, heads)}
    return IndexCase(
        name="c", about="", **{n: rng.standard_normal(s, np.float32) for n, s in shapes.items()}
    )


def test_score_is_the_sum_over_heads_of_weighted_rectified_products():
    given_case = case(entries=SCORED_KEYS + 3)  # more than one block of keys
    found = scores(given_case, REFERENCE)
    q, k, w = (a.astype(float) for a in (given_case.q, given_case.k, given_case.w))
    for query, entry in ((0, 0), (1, 39), (0, SCORED_KEYS + 2)):
        by_hand = sum(w[query, h] * max(0.0, q[query, h] @ k[entry]) for h in range(3))
        assert found[query, entry] == pytest.approx(by_hand, rel=1e-5, abs=1e-5)


def test_one_known_score():
    one = IndexCase(
        name="one",
        about="",
        q=np.array([[[1, 2], [-1, 0]]], np.float32),
        k=np.array([[3, 4], [-3, 1]], np.float32),
        w=np.array([[0.5, 2.0]], np.float32),
    )
    # 0.5 (3 + 8) + 2 relu(-3) = 5.5; 0.5 relu(-1) + 2 x 3 = 6
    assert scores(one, REFERENCE).tolist() == [[5.5, 6.0]]


@pytest.mark.parametrize("precision", ["fp4", "fp8", "bf16"])
def test_rounding_is_that_of_the_cache_entry_format(precision):
    values = case(entries=ROUNDED_ROWS + 5, dim=128).k  # more than one block of rows
    entry = format_of(precision, 128)
    expected = entry.decode(entry.encode(values.astype(np.float64)))
    assert np.array_equal(rounded(values, precision), expected.astype(np.float32))
    assert not np.array_equal(rounded(values, precision), values)


def test_queries_are_rounded_as_keys_are():
    plain = case(dim=128)
    coarse = scores(plain, Variant(precision="fp4"))
    q, k = rounded(plain.q, "fp4"), rounded(plain.k, "fp4")
    dots = np.maximum(np.einsum("qhd,kd->qkh", q, k), 0.0)
    assert coarse == pytest.approx(np.einsum("qkh,qh->qk", dots, plain.w), rel=1e-4, abs=1e-4)


def test_rotation_leaves_exact_scores_as_they_are():
    plain = case(dim=128)
    turned = rotated(plain)
    assert turned.k == pytest.approx(hadamard(plain.k.astype(float)), abs=1e-5)
    assert scores(turned, REFERENCE) == pytest.approx(scores(plain, REFERENCE), abs=1e-3)


def test_scores_in_bf16_have_eight_bits():
    found = scores(case(), Variant(precision="fp32", bf16_scores=True))
    assert not (found.view(np.uint32) & 0xFFFF).any()


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(arrays(np.float32, n, elements=st.integers(-3, 3)), st.integers(1, n))
    )
)
def test_pick_is_that_of_a_stable_sort(row_and_count):
    row, count = row_and_count
    expected = np.sort(np.argsort(-row, kind="stable")[:count])  # as workloads.ops.indexer.TopK
    assert np.array_equal(top_k(row, count), expected)
