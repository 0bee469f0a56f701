"""Shares of the peaks are rates over peaks, of the math classes used."""

from __future__ import annotations

from reports.breakdown import GroupTotal, StepBreakdown
from reports.peak_shares import dram_share_text, matrix_share_text
from tests.reports.factory import PEAKS, make_kernel, make_result

SECOND_PS = 10**12


def _group(**changes: object) -> GroupTotal:
    return StepBreakdown(make_result(make_kernel("a", 0, SECOND_PS, **changes))).total


def test_dram() -> None:
    group = _group(dram_read_bytes=2_400_000_000_000, dram_write_bytes=0)
    assert dram_share_text(group, PEAKS, SECOND_PS) == "50 %"
    assert dram_share_text(group, PEAKS, 2 * SECOND_PS) == "25 %"
    assert dram_share_text(_group(dram_read_bytes=0, dram_write_bytes=0), PEAKS, SECOND_PS) == "–"


def test_matrix_math_counts_each_class_against_its_own_peak() -> None:
    half_each = {"bf16": 494_750_000_000_000, "fp8": 989_500_000_000_000}
    assert matrix_share_text(_group(flops=half_each), PEAKS, SECOND_PS) == "100 %"
    assert matrix_share_text(_group(flops={"fp8": 10**12}), PEAKS, SECOND_PS) == "<1 %"
    assert matrix_share_text(_group(flops={"fp32": 10**12}), PEAKS, SECOND_PS) == "–"
    assert matrix_share_text(_group(flops={}), PEAKS, SECOND_PS) == "–"
