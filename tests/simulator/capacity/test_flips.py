"""Where a verdict turns: at the value named it is the other one, one step before it is not."""

from dataclasses import replace

import pytest

from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import CapacityQuestion, ask_capacity
from simulator.capacity.flips import Flip, flip_sentence, flips
from simulator.capacity.verdict import judge


def at(question: CapacityQuestion, flip: Flip, value: float) -> bool:
    if flip.name == "the requests":
        return capacity_of(replace(question, wanted_requests=int(value))).is_enough
    if flip.name == "the memory share":
        return capacity_of(question.changed(memory_share=value / 1000)).is_enough
    if flip.name == "the tokens in flight":
        return capacity_of(replace(question, in_flight_tokens=int(value))).is_enough
    part = replace(question.contexts[0], context_tokens=int(value))
    return capacity_of(replace(question, contexts=(part,))).is_enough


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33"])
@pytest.mark.parametrize("requests", [None, 20, 60, 400])
def test_a_verdict_turns_at_the_value_named_and_not_before(engine, requests) -> None:
    question = ask_capacity(
        model="v4-flash", chip="b200", count=8, engine=engine, contexts="262144", max_requests=None,
        requests=requests if engine == "vllm-0.33" or requests != 400 else 256,
    )  # fmt: skip
    capacity = capacity_of(question)
    found = flips(capacity)
    assert found
    assert [f.distance for f in found] == sorted(f.distance for f in found)
    for flip in found:
        step = 1 if flip.at > flip.now else -1
        assert at(question, flip, flip.at) != capacity.is_enough, flip
        assert at(question, flip, flip.at - step) == capacity.is_enough, flip
    assert judge(capacity, hangs_on=True).flips == found


def test_the_sentence_names_the_nearest_input_first() -> None:
    question = ask_capacity(model="v4-flash", chip="b200", count=8, engine="vllm-0.33", requests=39)
    sentence = flip_sentence(flips(capacity_of(question)))
    assert sentence is not None
    assert sentence.startswith("The verdict hangs most on ")
    assert flip_sentence(()) is None
