"""Guessed numbers are named with their reason; contradictions of a description are noticed."""

from pathlib import Path

import pytest

import hwmodels
from hwmodels.chip import find_chip, list_chips
from hwmodels.doubts import contradictions, guessed_facts
from hwmodels.node import find_node


@pytest.mark.parametrize("name", list_chips())
def test_shipped_chips_do_not_contradict_themselves(name):
    assert list(contradictions(find_chip(name))) == []


def changed(tmp_path, name, old, new):
    """A copy of a shipped chip file with one number changed."""
    text = (Path(hwmodels.__file__).parent / "chips" / f"{name}.yaml").read_text()
    assert text.count(old) == 1
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    return find_chip(path)


def test_a_bandwidth_that_the_stacks_do_not_make_is_noticed(tmp_path):
    chip = changed(tmp_path, "h200", "{value: 4800, unit: GB/s", "{value: 9600, unit: GB/s")
    (sentence,) = contradictions(chip)
    assert "9.6 TB/s" in sentence
    assert "4.8 TB/s" in sentence


def test_fewer_cores_than_the_matrix_rate_needs_are_noticed(tmp_path):
    chip = changed(
        tmp_path, "h200", 'count: {value: 132, unit: "1"', 'count: {value: 66, unit: "1"'
    )
    (sentence,) = contradictions(chip)
    assert "989 TFLOP/s" in sentence
    assert "494.7 TFLOP/s" in sentence


def test_guessed_numbers_are_named_with_the_reason():
    sentences = guessed_facts(find_chip("b200"), find_node("b200", 8))
    gap = [s for s in sentences if s.startswith("b200 launch graph gap 1.37 us is guessed: ")]
    assert len(gap) == 1
    assert any(s.startswith("b200-x8 scale up latency") for s in sentences)
    assert not any("scale up latency" in s for s in guessed_facts(find_chip("b200"), None))
