"""Mapping strings: what they say, and those that leave part of the address out."""

from __future__ import annotations

import pytest

from hwmodels.dram.mapping import parse_mapping
from hwmodels.dram.preset import find_preset
from simulator.basis.errors import InputError

ORGANISATION = find_preset("hbm3_5200").organisation


def test_digits_from_the_lowest() -> None:
    digits = parse_mapping("c2,g,p,c,b,s", ORGANISATION).digits
    assert digits == ((2, 0), (4, 2), (2, 1), (16, 0), (4, 3), (2, 4))


def test_one_stack_id_needs_no_digit() -> None:
    organisation = find_preset("hbm2_2400").organisation
    assert parse_mapping("c,p,g,b", organisation).digits == ((32, 0), (2, 1), (4, 2), (4, 3))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("c2,g,p,c,b", "does not cover the address: no digit 's' for the 2 stack ids"),
        ("c2,g,p,b,s", "its columns leave a factor of 16"),
        ("c3,g,p,c,b,s", "'c3' does not divide the 32 bursts"),
        ("c2,g,p,c,b,b,s", "'b' stands in it twice"),
        ("c2,g,p,c,b,s2", "'s2' is no digit"),
        ("c2,g,x,c,b,s", "'x' is no digit"),
        ("", "'' is no digit"),
    ],
)
def test_mappings_that_do_not_work(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_mapping(text, ORGANISATION)
