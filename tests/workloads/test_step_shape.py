from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from workloads.step_shape import StepShape, capped_sum, floor_sum

REQUESTS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 400)), min_size=1, max_size=5).map(
    tuple
)
RATIOS = st.sampled_from([1, 2, 3, 4, 128])


def queries(step):
    """Positions of all queries of a step."""
    return [t for new, past in step.requests for t in range(past, past + new)]


@given(n=st.integers(0, 500), ratio=st.integers(1, 40))
def test_floor_sum_is_the_sum(n, ratio):
    assert floor_sum(n, ratio) == sum(u // ratio for u in range(1, n + 1))


@given(n=st.integers(0, 500), ratio=st.integers(1, 20), cap=st.integers(0, 40))
def test_capped_sum_is_the_sum(n, ratio, cap):
    assert capped_sum(n, ratio, cap) == sum(min(u // ratio, cap) for u in range(1, n + 1))


@given(requests=REQUESTS, window=st.integers(1, 130))
def test_window_sums_are_those_of_the_queries(requests, window):
    step = StepShape(requests)
    assert step.window_pairs(window) == sum(min(t + 1, window) for t in queries(step))
    kept = sum(len([t for t in range(past) if t > past - window]) for _, past in requests)
    assert step.window_past_rows(window) == kept
    written = sum(
        len([t for t in range(past, past + new) if t >= past + new - window])
        for new, past in requests
    )
    assert step.window_written_rows(window) == written


@given(requests=REQUESTS, ratio=RATIOS, top_k=st.integers(1, 60))
def test_entry_sums_are_those_of_the_queries(requests, ratio, top_k):
    step = StepShape(requests)
    visible = [(t + 1) // ratio for t in queries(step)]
    assert step.entry_pairs(ratio) == sum(visible)
    assert step.picked_pairs(ratio, top_k) == sum(min(count, top_k) for count in visible)
    # An entry is complete with the last token of its block.
    assert step.emitted(ratio) == len([t for t in queries(step) if t % ratio == ratio - 1])
    held = [t for new, past in requests for t in range(past + new) if t % ratio == ratio - 1]
    assert step.entries(ratio) == len(held)


@given(requests=REQUESTS)
def test_counts(requests):
    step = StepShape(requests)
    assert step.batch == len(requests)
    assert step.tokens == len(queries(step))


@given(requests=REQUESTS, cut=st.integers(1, 59), ratio=RATIOS)
def test_sums_of_two_chunks_are_those_of_the_whole(requests, cut, ratio):
    """With a cached prefix P a chunk costs F(P + S) - F(P)."""
    new, past = requests[0][0] + cut, requests[0][1]
    whole = StepShape(((new, past),))
    first, second = StepShape(((cut, past),)), StepShape(((new - cut, past + cut),))
    for total in (
        lambda step: step.window_pairs(7),
        lambda step: step.entry_pairs(ratio),
        lambda step: step.picked_pairs(ratio, 5),
        lambda step: step.emitted(ratio),
        lambda step: step.tokens,
    ):
        assert total(first) + total(second) == total(whole)


# Whole prompts of S tokens: the exact integers of the reference table.
PREFILL = {
    8192: (1_040_448, 8_386_560, 3_669_504, 6_290_432, 258_112),
    65_536: (8_380_480, 536_854_528, 33_029_632, 65_010_688, 16_744_960),
    2**20: (134_209_600, 137_438_691_328, 536_346_112, 1_071_643_648, 4_294_451_200),
}


@pytest.mark.parametrize(("s", "expected"), PREFILL.items())
def test_prefill_pairs_of_a_whole_prompt(s, expected):
    step = StepShape(((s, 0),))
    assert expected == (
        step.window_pairs(128),
        step.entry_pairs(4),
        step.picked_pairs(4, 512),
        step.picked_pairs(4, 1024),
        step.entry_pairs(128),
    )


@pytest.mark.parametrize("s", PREFILL)
def test_prefill_pairs_follow_the_published_closed_forms(s):
    step = StepShape(((s, 0),))
    assert step.window_pairs(128) == 128 * s - 8128
    for m in (4, 128):
        assert step.entry_pairs(m) == Fraction(s * s, 2 * m) - Fraction(s, 2) + Fraction(s, m)
    for k in (512, 1024):
        closed = Fraction(k * k * 4, 2) - Fraction(k * 4, 2) + k + k * (s - k * 4)
        assert step.picked_pairs(4, k) == closed


@pytest.mark.parametrize(
    ("n", "window", "csa_pro", "csa_flash", "hca"),
    [
        (1, 1, 0, 0, 0),
        (127, 127, 31, 31, 0),
        (128, 128, 32, 32, 1),
        (2048, 128, 512, 512, 16),
        (4096, 128, 1024, 512, 32),
        (2**20, 128, 1024, 512, 8192),
    ],
)
def test_keys_that_a_decode_step_at_context_n_sees(n, window, csa_pro, csa_flash, hca):
    step = StepShape.uniform(1, 1, n - 1)
    assert step.window_pairs(128) == window
    assert step.picked_pairs(4, 1024) == csa_pro
    assert step.picked_pairs(4, 512) == csa_flash
    assert step.entry_pairs(128) == hca
    three = StepShape.uniform(3, 1, n - 1)
    assert three.picked_pairs(4, 1024) == 3 * csa_pro


def test_uniform_and_split():
    assert StepShape.uniform(2, 3, 4).requests == ((3, 4), (3, 4))
    step = StepShape(((1, 10), (1, 20), (1, 30), (1, 40), (1, 50)))
    assert step.split(1) is step
    assert step.split(2).requests == ((1, 10), (1, 30), (1, 50))
    assert step.split(8).requests == ((1, 10),)


def test_steps_compare_by_their_requests():
    assert StepShape(((1, 2),)) == StepShape.uniform(1, 1, 2)
    assert hash(StepShape(((1, 2),))) == hash(StepShape.uniform(1, 1, 2))
    assert StepShape(((1, 2), (3, 4))) != StepShape(((3, 4), (1, 2)))


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ((), ["at least one request"]),
        (((0, 5),), ["new = 0", "past = 5"]),
        (((1, 5), (2, -1)), ["new = 2", "past = -1"]),
    ],
)
def test_bad_requests_are_refused(requests, words):
    with pytest.raises(InputError) as caught:
        StepShape(requests)
    for word in words:
        assert word in caught.value.message


def test_an_empty_uniform_batch_is_refused():
    with pytest.raises(InputError, match="batch must be at least 1, but 0"):
        StepShape.uniform(0, 1, 1)
