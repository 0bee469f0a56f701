import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.run_stats import RecordedChoices, RunStats, alone_tokens
from workloads.step_shape import StepShape


@pytest.mark.parametrize(
    ("experts", "tokens", "expected"),
    [
        (384, 1, 6), (384, 8, 45.5), (384, 64, 243.8), (384, 256, 377.2),
        (256, 1, 6), (256, 8, 44.2), (256, 64, 199.9), (256, 256, 255.4),
    ],
)  # fmt: skip
def test_expected_experts_of_the_models(experts, tokens, expected):
    assert RunStats().expected_experts(experts, 6, tokens) == pytest.approx(expected, abs=0.05)


@given(experts=st.integers(1, 64), data=st.data(), tokens=st.integers(1, 200))
def test_expected_experts_lie_between_one_token_s_and_all(experts, data, tokens):
    per_token = data.draw(st.integers(1, experts))
    touched = RunStats().expected_experts(experts, per_token, tokens)
    assert per_token - 1e-9 <= touched <= experts + 1e-9
    more = RunStats().expected_experts(experts, per_token, tokens + 1)
    # One further token misses each untouched expert with chance 1 - k/E.
    assert experts - more == pytest.approx((experts - touched) * (1 - per_token / experts))


def test_recorded_experts_replace_the_expectation():
    assert RunStats(distinct_experts=5.0).expected_experts(8, 2, 100) == 5.0
    assert RunStats(distinct_experts=50.0).expected_experts(8, 2, 100) == 8.0


def test_one_query_touches_its_picks():
    assert RunStats().distinct_picks(1000, 64, 1) == pytest.approx(64)
    assert RunStats().distinct_picks(64, 64, 5) == pytest.approx(64)


def test_nothing_visible_or_picked_touches_nothing():
    assert RunStats().distinct_picks(0, 0, 3) == 0
    assert RunStats().distinct_picks(10, 0, 3) == 0
    assert RunStats().distinct_picks(10, 5, 0) == 0


def test_further_queries_renew_a_share_of_their_picks():
    # 100 of 1000, then 10 % of 100 picks fall on 900 untouched of 1000: 9 new.
    assert RunStats(top_k_overlap=0.9).distinct_picks(1000, 100, 2) == pytest.approx(109)
    assert RunStats(top_k_overlap=1.0).distinct_picks(1000, 100, 50) == pytest.approx(100)
    free = 1000 * (1 - 0.9**3)
    assert RunStats(top_k_overlap=0.0).distinct_picks(1000, 100, 3) == pytest.approx(free)


@given(
    visible=st.integers(1, 5000), data=st.data(), queries=st.integers(1, 500),
    overlap=st.floats(0, 1),
)  # fmt: skip
def test_distinct_picks_lie_between_one_query_s_and_all_touches(visible, data, queries, overlap):
    picks = data.draw(st.integers(1, visible))
    touched = RunStats(top_k_overlap=overlap).distinct_picks(visible, picks, queries)
    assert picks - 1e-6 <= touched <= min(visible, picks * queries) + 1e-6


def choices(picks=None, experts=None, requests=None):
    rows = len(next(iter((picks or experts).values())))
    return RecordedChoices(
        digest="test", picks=picks or {}, experts=experts or {},
        requests=np.arange(rows) if requests is None else requests,
    )  # fmt: skip


def test_recorded_tokens_touch_what_they_touched():
    ids = np.array([[0, 1], [1, 2], [1, 7], [0, 1]])
    stats = RunStats.of(choices(experts={"a": ids}))
    assert stats.expected_experts(8, 2, 4) == pytest.approx(4)
    assert stats.expected_experts(8, 2, 400) == pytest.approx(4)
    assert stats.expected_experts(8, 2, 1) == pytest.approx(2)
    # Two of four: expert 1 always, 0 in all but one of six pairs, 2 and 7 in three each.
    assert stats.expected_experts(8, 2, 2) == pytest.approx(1 + 5 / 6 + 1 / 2 + 1 / 2)
    both = RunStats.of(choices(experts={"a": ids, "b": np.zeros((4, 2), int)}))
    assert both.expected_experts(8, 2, 4) == pytest.approx((4 + 1) / 2)
    assert both.top_k_overlap == RunStats().top_k_overlap


def test_recorded_uniform_choices_are_as_stated():
    random = np.random.default_rng(5)
    ids = np.stack([random.permutation(256)[:6] for _ in range(512)])
    stats = RunStats.of(choices(experts={"a": ids}))
    for tokens in (1, 16, 128):
        stated = RunStats().expected_experts(256, 6, tokens)
        assert stats.expected_experts(256, 6, tokens) == pytest.approx(stated, rel=0.02)


def test_overlap_is_that_of_one_request_s_consecutive_queries():
    picks = np.array([[0, 1, 2, 3], [9, 9, 9, 9], [1, 2, 3, 4], [2, 3, 8, -1]])
    stats = RunStats.of(choices(picks={"a": picks}, requests=np.array([0, 1, 0, 0])))
    assert stats.top_k_overlap == pytest.approx((3 / 4 + 2 / 3) / 2)
    assert "layers with picks: 1," in stats.told
    assert "(recorded)" in stats.told
    apart = RunStats.of(choices(picks={"a": picks}))
    assert apart.top_k_overlap == RunStats().top_k_overlap
    assert "(stated)" in apart.told
    assert RunStats().told == "nothing recorded"


def test_statistics_can_be_keys():
    one = RunStats.of(choices(experts={"a": np.array([[0, 1]])}))
    assert hash(one) == hash(RunStats.of(choices(experts={"a": np.array([[0, 1]])})))
    assert one != RunStats()


def test_verified_tokens_choose_as_fewer_unrelated_ones():
    """Four of a request touch 31 % fewer experts; prompts and single tokens are unrelated."""
    four = alone_tokens(StepShape.uniform(16, 4, 1000), 64)
    assert four == pytest.approx(64 * 0.69)
    assert alone_tokens(StepShape.uniform(16, 1, 1000), 16) == 16
    assert alone_tokens(StepShape.uniform(1, 4096, 0), 4096) == 4096
    assert alone_tokens(StepShape.uniform(2, 4, 1000), 32) == pytest.approx(4 * 2 * 4 * 0.69)
    sparse = [RunStats().expected_experts(10**6, 6, 4, alone) for alone in (4 * 0.69, None)]
    assert sparse[0] / sparse[1] == pytest.approx(1 - 0.31, abs=1e-4)
