"""Grids: typed values, axes that clash, and texts that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.sweep.grid import MOST_POINTS, parse_axis, parse_grid

WORDS = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True).filter(
    lambda word: word not in ("true", "false", "null")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(VALUES, min_size=1, max_size=5, unique_by=lambda v: json.dumps(v, sort_keys=True)))
def test_values_come_back_as_they_were_typed(values):
    text = ", ".join(json.dumps(value) for value in values)
    axis = parse_axis(f"traffic.made={text}")
    assert axis.keys == ("traffic", "made")
    assert json.dumps(axis.values) == json.dumps(values)


def test_values_are_typed_as_in_yaml():
    assert parse_axis("a=4,0.5,vllm-0.33,null,true,'4'").values == (
        4,
        0.5,
        "vllm-0.33",
        None,
        True,
        "4",
    )
    assert parse_axis("parallel={tp: 4},{tp: 1, dp: 4}").values == ({"tp": 4}, {"tp": 1, "dp": 4})


def test_a_value_twice_counts_once_but_text_is_no_number():
    assert parse_axis("a=4,8,4").values == (4, 8)
    assert len(parse_axis("a=4,'4'").values) == 2


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "needs a grid"),
        (["parallel.tp"], "--grid parallel.tp: expected a field"),
        (["=4"], "expected a field"),
        (["parallel..tp=4"], "expected a field"),
        (["parallel.tp="], "no value after '='"),
        (["parallel.tp=4,,8"], "cannot be read"),
        (["parallel.tp=[4"], "cannot be read"),
        (["parallel.tp=4 #8"], "cannot be read"),
        (["seed=1", "seed=2"], "both set 'seed'"),
        (["parallel.tp=1", "parallel={tp: 2}"], "both set 'parallel.tp'"),
        ([f"{key}={','.join(map(str, range(150)))}" for key in ("seed", "replicas")], "22,500"),
    ],
)
def test_what_is_no_grid_is_refused_in_one_sentence(texts, words):
    with pytest.raises(InputError, match=r".") as caught:
        parse_grid(texts)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_the_largest_grid_is_taken():
    values = ",".join(map(str, range(MOST_POINTS)))
    assert len(parse_grid([f"seed={values}"])[0].values) == MOST_POINTS
