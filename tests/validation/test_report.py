"""REPORT.md says what is computed: the same words, and numbers that agree."""

import re

import pytest

from simulator.calibration.published import read_published
from simulator.kernels.registry import FAMILIES
from tests.sampling import WHOLE
from tests.validation.report import (
    REPORT,
    constant_table,
    dram_table,
    left_out_table,
    published_table,
    report,
    unfitted_table,
)

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?:\s?%)?")
# Fits of other scipy versions end a little elsewhere.
PERCENT, RELATIVE = 0.6, 0.02


def disagreement(text, other):
    """First line of two reports whose words or numbers differ, with that line of the other."""
    lines, others = text.splitlines(), other.splitlines()
    for line, beside in zip(lines, others, strict=False):
        numbers, besides = NUMBER.findall(line), NUMBER.findall(beside)
        if NUMBER.sub("#", line) != NUMBER.sub("#", beside):
            return line, beside
        if not all(map(agree, numbers, besides)):
            return line, beside
    longer = max(lines, others, key=len)
    return None if len(lines) == len(others) else (longer[min(len(lines), len(others))], "nothing")


def agree(one, other):
    values = [float(word.replace(",", "").rstrip(" %")) for word in (one, other)]
    if "%" in one:
        return values[0] == pytest.approx(values[1], abs=PERCENT)
    if "." in one or "e" in one:
        return values[0] == pytest.approx(values[1], rel=RELATIVE)
    return values[0] == values[1]


@pytest.mark.skipif(not WHOLE, reason="cross-validates all rows: make test-all does")
def test_the_report_is_what_is_computed(family_rows, dram_runs):
    computed = report({family: family_rows(family) for family in FAMILIES}, dram_runs)
    assert disagreement(REPORT.read_text(), computed) is None, "run 'make validation'"


def test_tables_that_need_no_fit_stand_in_the_report(dram_runs):
    text, published = REPORT.read_text(), read_published()
    tables = [unfitted_table(), left_out_table(published)]
    tables += [constant_table(), published_table(published), dram_table(dram_runs)]
    for computed in tables:
        head = computed.partition("\n")[0]
        kept = next(b for b in text.split("\n\n") if b.partition("\n")[0] == head)
        assert disagreement(kept.rstrip("\n"), computed) is None, "run 'make validation'"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("| a | 1,958 | 4.1% |", "| a | 1,958 | 4.3% |", True),
        ("| a | 1,958 | 4.1% |", "| a | 1,959 | 4.1% |", False),
        ("| a | 1,958 | 4.1% |", "| a | 1,958 | 5.1% |", False),
        ("| a | 1,958 | 4.1% |", "| b | 1,958 | 4.1% |", False),
        ("| a | -0.1% |", "| a | +0.1% |", True),
        ("| c | 8.867e-06 |", "| c | 8.9e-06 |", True),
        ("| c | 8.867e-06 |", "| c | 8.867e-05 |", False),
        ("| c | 16.02 |", "| c | 17.02 |", False),
        ("one", "one\nmore", False),
        ("one\nmore", "one", False),
    ],
)
def test_a_report_that_differs_is_told(one, other, same):
    assert (disagreement(one, other) is None) == same


def test_the_report_names_no_machine():
    text = REPORT.read_text()
    assert not re.search(r"/(?:work|home|tmp|root|Users)/", text)
