"""A recording gives the values of the code that it was made from, or none."""

import math

import pytest

from simulator.cost.recorded_step import RecordedShape, Shapes
from simulator.cost.recording import Recording
from workloads.step_shape import StepShape


def _numbers(recording, values):
    return [recording.source(i, lambda v, i=i: v[i], values) for i in range(len(values))]


def _formula(a, b):
    whole = 3 * a + b - 2 * (a + 7) - -(-a // 4)
    return whole, whole * b, sum([a, b, a]), round(a / 3, 2), math.ceil(b / a), max(a, b) % 5, 2**b


def test_a_replay_gives_what_the_code_gives():
    recording = Recording()
    found = _formula(*_numbers(recording, (12, 30)))
    recording.keep([number.place for number in found])
    for given in ((12, 30), (5, 9), (1, 1000)):
        values = recording.replay(given)
        assert [values[number.place] for number in found] == list(_formula(*given))


def test_a_comparison_that_comes_out_otherwise_ends_the_replay():
    recording = Recording()
    found = _formula(*_numbers(recording, (12, 30)))
    recording.keep([number.place for number in found])
    assert recording.replay((30, 12)) is None  # max(a, b) takes the other one


def test_equal_sums_of_whole_numbers_are_one_number():
    a, b, c = _numbers(Recording(), (1, 2, 3))
    assert hash((a + b) + c) == hash(b + (c + a))
    assert (a + b - a) is not None
    assert hash(a + b - a) == hash(b)
    assert 2 * a + 3 - 2 * a == 3


def test_fractions_are_added_in_order():
    recording = Recording()
    a, b = _numbers(recording, (1, 2))
    total = (a * 0.1 + b * 0.2) + 0.3
    recording.keep([total.place])
    assert recording.replay((3, 7))[total.place] == (3 * 0.1 + 7 * 0.2) + 0.3


def test_a_number_is_no_plain_value():
    (a,) = _numbers(Recording(), (1,))
    with pytest.raises(TypeError):
        float(a)
    with pytest.raises(TypeError):
        range(a)


def test_recorded_shapes_count_as_shapes_do():
    first, other = StepShape.uniform(4, 1, 1000), StepShape(((5, 77), (1, 40_000), (5, 77)))
    recording = Recording()
    shape = RecordedShape(recording, Shapes(first, first))

    def counts(step):
        return [
            step.tokens, step.batch, step.window_pairs(128), step.window_past_rows(128),
            step.entry_pairs(4), step.entry_pairs(128), step.picked_pairs(4, 64), step.emitted(4),
            step.entries(4), step.ordered_total(lambda new, past: past / 7),
        ]  # fmt: skip

    found = counts(shape)
    values = recording.replay(Shapes(other, other))
    assert [values[number.place] for number in found] == counts(other)
    assert len({number.place for number in found}) == len(found)
