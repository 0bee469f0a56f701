import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.run_stats import RunStats


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
