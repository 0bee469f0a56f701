"""Five-fold cross-validation over the carried silicon rows: errors by group, and coverage."""

from collections import Counter

import numpy as np
import pytest

from simulator.calibration.dispatch import NOT_COVERED, RowSet, chip_of
from simulator.calibration.validation import predicted_rows, statistics_of
from simulator.kernels import unit_rates
from simulator.kernels.architecture import core_architecture
from simulator.kernels.registry import FAMILIES
from tests.sampling import tenth
from tests.validation.silicon_rows import (
    ENOUGH_ROWS,
    GROUPS,
    LEAST_HELD,
    MOST_HELD,
    OF_AITER,
    SILICON,
    silicon_rows,
)

# With fewer rows a median is chance.
FEWEST_OF_A_SAMPLE = 25
ROWS = {
    "attention_kernel.csv": 3000,
    "attention_module.csv": 6000,
    "collective.csv": 1200,
    "gemm.csv": 5000,
    "mhc.csv": 427,
    "moe.csv": 2577,
}


def rows_of(family):
    return len(silicon_rows().of(family))


def test_every_carried_row_is_lowered_and_judged_under_one_family():
    assert Counter(row.file for row in silicon_rows().rows) == ROWS
    assert rows_of(NOT_COVERED) == 0
    assert sum(rows_of(family) for family in FAMILIES) == sum(ROWS.values())


def test_licence_stands_beside_the_rows():
    text = (SILICON / "README.md").read_text()
    assert "(c) NVIDIA, Apache-2.0" in text
    assert "aiconfigurator-core 0.12.0" in text


def test_every_family_is_judged_in_exactly_one_group():
    counts = Counter(family for group in GROUPS for family in group.families)
    elsewhere = set(unit_rates.FAMILIES) | OF_AITER  # fitted to rows of other machines
    assert counts == Counter(set(FAMILIES) - elsewhere)


def test_stored_constants_predict_a_sample_of_all_rows():
    found = predicted_rows(RowSet(tuple(tenth(silicon_rows().rows, 6))))
    for group in GROUPS:
        own = [row for row in found if row.family in group.families]
        if len(own) >= FEWEST_OF_A_SAMPLE:
            assert statistics_of(own).median_abs_error <= group.median, group.name


@pytest.mark.parametrize("group", tenth(GROUPS, 5), ids=lambda group: group.name)
def test_errors_of_rows_left_out_of_the_fit(group, family_rows):
    rows = [row for family in group.families for row in family_rows(family)]
    found = statistics_of(rows)
    assert found.n == sum(rows_of(family) for family in group.families)
    assert found.median_abs_error <= group.median
    assert found.p90_abs_error <= group.p90


JUDGED = [family for group in tenth(GROUPS, 5) for family in group.families]


@pytest.mark.parametrize("family", [f for f in JUDGED if rows_of(f) >= ENOUGH_ROWS])
def test_intervals_hold_as_many_rows_as_they_say(family, family_rows):
    rows = family_rows(family)
    assert LEAST_HELD <= statistics_of(rows).coverage <= MOST_HELD
    cores = np.array([core_architecture(chip_of(row.chip)) for row in rows])
    for name in np.unique(cores):
        own = [row for row, core in zip(rows, cores, strict=True) if core == name]
        if len(own) >= ENOUGH_ROWS:
            assert LEAST_HELD <= statistics_of(own).coverage <= MOST_HELD, name
