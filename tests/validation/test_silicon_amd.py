"""Tuned kernels of AITER on MI355X: rows, fits with rows left out, and what rests on none."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from hwmodels.chip import find_chip
from simulator.calibration.dispatch import NOT_COVERED, dispatched
from simulator.calibration.tables_in_folder import read_folder
from simulator.calibration.validation import cross_validated_rows, predicted_rows, statistics_of
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.kernels.constants_file import constants_for

ROWS = Path(__file__).parent / "silicon_amd"
# What five-fold cross-validation gave when the rows came, and a tenth more.
MEDIANS = {"gemm_bf16_aiter": 0.055, "gemm_fp8_aiter": 0.085, "moe_aiter": 0.06}


@cache
def rows():
    return dispatched(read_folder(ROWS).measured)


def test_every_row_is_of_a_family_and_of_one_chip():
    assert Counter(row.file for row in rows().rows) == {"gemm.csv": 1490, "moe.csv": 104}
    assert not len(rows().of(NOT_COVERED))
    assert {row.chip for row in rows().rows} == {"mi355x"}


def test_licence_stands_beside_the_rows():
    text = (ROWS / "README.md").read_text()
    assert "Advanced Micro Devices, Inc., MIT License" in text


@pytest.mark.parametrize("family", MEDIANS)
def test_shipped_constants_are_within_what_rows_left_out_give(family):
    own = [row for row in predicted_rows(rows()) if row.family == family]
    assert statistics_of(own).median_abs_error <= MEDIANS[family]


def test_rows_left_out_of_the_fit_are_held():
    for family, most in MEDIANS.items():
        statistics = statistics_of(cross_validated_rows((family,), rows()))
        assert statistics.median_abs_error <= most, family
        assert 0.72 <= statistics.coverage <= 0.88, family


def test_a_core_takes_in_operands_at_what_was_measured_of_its_cache():
    # 27.8 bytes a clock and CU were read from the caches of an MI300X; kernels come near that.
    for family in ("gemm_bf16_aiter", "gemm_fp8_aiter"):
        assert 14 <= constants_for(family, find_chip("mi355x")).values["feed"] <= 30


def test_what_no_row_was_fitted_to_is_not_called_calibrated():
    found = cost_step(ask(model="v4-pro", chip="mi355x", count=8, batch=4, context=1536))
    calibrated = {kernel.name for kernel in found.kernels if kernel.calibrated}
    assert {"experts", "qkv_a", "q_b", "o_b", "gate", "logits"} <= calibrated
    assert not calibrated & {"core", "top_k", "attn_all_reduce", "attn_hc_pre", "route"}
    assert found.question.engine == "atom"


def test_four_bit_experts_stay_as_they_are_where_no_unit_multiplies_them():
    for chip in ("mi355x", "mi325x", "mi300x"):
        assert ask(model="v4-flash", chip=chip, count=4).deployment.formats.expert == "fp4"
    assert ask(model="v4-flash", chip="h200", count=4).deployment.formats.expert == "fp8"
