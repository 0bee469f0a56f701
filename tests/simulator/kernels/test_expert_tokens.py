import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.kernels.expert_tokens import (
    DRAWS,
    _histogram,
    expected_experts,
    expert_draws,
    expert_tiles,
)

DISTRIBUTIONS = ("balanced", "power_law_1.01", "power_law_1.2", "power_law_0.5")


def calls(tokens, experts=8, topk=2, distribution="balanced", ranks=1):
    tokens = np.atleast_1d(np.asarray(tokens, float))
    return {
        "tokens": tokens,
        "experts": np.full(tokens.shape, float(experts)),
        "per_token": np.full(tokens.shape, float(topk)),
        "held": np.full(tokens.shape, float(experts // ranks)),
        "distribution": np.full(tokens.shape, distribution),
    }


def test_balanced_is_the_rule_token_by_token():
    # Two choices of 7 experts are ceil(7 / 2) = 4 apart: token t takes t and t + 4.
    expected = [0] * 7
    for token in range(9):
        for expert in (token, token + 4):
            expected[expert % 7] += 1
    assert expert_draws(9, 7, 2, "balanced").tolist() == [expected]


@given(
    tokens=st.integers(1, 400),
    experts=st.integers(1, 64),
    topk=st.integers(1, 8),
    distribution=st.sampled_from(DISTRIBUTIONS),
)
@settings(max_examples=150)
def test_every_choice_goes_to_an_expert_that_has_at_most_one_a_token(
    tokens, experts, topk, distribution
):
    topk = min(topk, experts)
    draws = expert_draws(tokens, experts, topk, distribution)
    assert len(draws) == (1 if distribution == "balanced" else DRAWS)
    assert (draws.sum(axis=1) == tokens * topk).all()
    assert draws.min() >= 0
    if distribution != "balanced":
        assert draws.max() <= tokens


def test_draws_are_the_same_every_time_and_differ_from_one_another():
    again = expert_draws.__wrapped__(512, 256, 6, "power_law_1.2")
    assert (expert_draws(512, 256, 6, "power_law_1.2") == again).all()
    assert len({tuple(row) for row in again.tolist()}) == DRAWS


def test_a_steeper_law_fills_the_fullest_expert_more():
    fullest = [
        expert_draws(4096, 256, 6, name).max(axis=1).mean()
        for name in ("balanced", "power_law_1.01", "power_law_1.2")
    ]
    assert fullest[0] < fullest[1] < fullest[2]


def test_few_tokens_touch_distinct_experts():
    # 48 choices of 256 experts: what rounding leaves over goes to experts without a token.
    draws = expert_draws(8, 256, 6, "power_law_1.01")
    assert ((draws > 0).sum(axis=1) == 48).all()


def test_tiles_and_touched_experts_of_a_balanced_call():
    # 40 tokens x 2 choices of 8 experts are 10 each: two tiles of 8 an expert, one of 16.
    for tile, each in ((8, 2), (16, 1)):
        found = expert_tiles(calls(40), np.array([float(tile)]))
        assert found.touched.tolist() == [8]
        assert found.total.tolist() == [8 * each]


def test_tiles_are_the_mean_over_draws():
    found = expert_tiles(calls(300, 64, 6, "power_law_1.2"), np.array([16.0]))
    draws = expert_draws(300, 64, 6, "power_law_1.2")
    assert found.total[0] == pytest.approx(np.ceil(draws / 16).sum(axis=1).mean())
    assert found.touched[0] == pytest.approx((draws > 0).sum(axis=1).mean())


def test_calls_of_different_loads_keep_their_own():
    columns = calls([40, 4, 40])
    found = expert_tiles(columns, np.array([8.0, 8.0, 16.0]))
    assert found.total.tolist() == [16, 8, 8]


def test_the_fullest_gpu_of_an_expert_parallel_group():
    found = expert_tiles(calls(300, 64, 6, "power_law_1.2", ranks=4), np.array([1.0]))
    draws = expert_draws(300, 64, 6, "power_law_1.2").reshape(DRAWS, 4, 16)
    assert found.total[0] == pytest.approx(draws.sum(axis=2).max(axis=1).mean())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((4, 8, 2, "zipf"), "'zipf' is unknown"),
        ((4, 8, 2, "power_law_steep"), "unknown"),
        ((4, 8, 2, "power_law_1.0"), "not 1"),
        ((4, 8, 9, "balanced"), "topk 9, 8 experts"),
        ((0, 8, 2, "balanced"), "0 tokens"),
    ],
)
def test_bad_loads_are_a_sentence(arguments, says):
    with pytest.raises(InputError, match=says):
        expert_draws(*arguments)


def test_experts_that_cannot_be_dealt_evenly():
    # Three of eight experts held: they would be dealt to two ranks and two thirds.
    with pytest.raises(InputError, match="8 experts cannot be dealt evenly to 3"):
        _histogram(4, 8, 2, 3, 4, 8, "balanced")


@pytest.mark.parametrize(
    ("tokens", "experts", "ranks", "tile"), [(1, 256, 1, 8), (64, 256, 8, 1), (9000, 384, 4, 1)]
)
def test_uniform_choice_has_the_expected_experts_and_tokens(tokens, experts, ranks, tile):
    asked = calls(tokens, experts, 6, "uniform", ranks)
    found = expert_tiles(asked, np.array([tile]))
    touched = experts * (1 - (1 - 6 / experts) ** tokens) / ranks
    assert found.touched[0] == pytest.approx(touched, rel=1e-6)
    if tile == 1:
        assert found.total[0] == pytest.approx(tokens * 6 / ranks, rel=1e-6)


def test_every_expert_of_few_gets_every_token():
    values, counts = expected_experts(10, 6, 6, 2, 4)
    assert (values.tolist(), counts.tolist()) == ([3.0], [3.0])


@pytest.mark.parametrize("tile", [1, 8])
def test_related_tokens_touch_fewer_experts_with_as_many_rows(tile):
    """64 tokens of 16 requests choose as 44 unrelated ones do: fewer experts, all choices kept."""
    asked = calls(64, 256, 6, "uniform", 1)
    related = expert_tiles(asked | {"alone": np.array([44.2])}, np.array([tile]))
    assert related.touched[0] == pytest.approx(256 * (1 - (250 / 256) ** 44), rel=1e-6)
    alone = expert_tiles(asked | {"alone": np.array([64.0])}, np.array([tile]))
    assert related.touched[0] < alone.touched[0]
    if tile == 1:
        assert related.total[0] == pytest.approx(64 * 6, rel=0.05)
