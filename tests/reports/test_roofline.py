"""Dots of the roofline, their names and what has no place on log axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.breakdown import StepBreakdown
from reports.roofline_figure import Roofline, distinct_kernels, roofline
from reports.svg import draw
from simulator.cost.result import KernelRecord, StepResult
from tests.reports.factory import make_kernel, make_result, make_step


def _roofline(result: StepResult) -> Roofline:
    drawn = roofline(result, StepBreakdown(result))
    assert drawn is not None
    return drawn


def _dots(drawn: Roofline) -> list[dict[str, Any]]:
    return [trace for trace in drawn.figure["data"] if trace["mode"] == "markers"]


def _names(drawn: Roofline) -> list[str]:
    return [annotation["text"] for annotation in drawn.figure["layout"]["annotations"]]


def _kinds(*kernels: KernelRecord) -> list[str]:
    return sorted(group.key for group in distinct_kernels(StepBreakdown(make_result(*kernels))))


def test_a_dot_lies_where_its_numbers_say() -> None:
    kernel = make_kernel("a", 0, 2_000, flops={"bf16": 600, "fp8": 200}, dram_read_bytes=190)
    (dots,) = _dots(_roofline(make_result(kernel)))
    assert dots["x"] == [800 / 200]
    assert dots["y"] == [800 / 2e-9]
    assert dots["name"] == "memory bandwidth"


def test_every_kernel_has_a_dot_or_is_named() -> None:
    result = make_step()
    drawn = _roofline(result)
    shown = {text.split(" (")[0][3:] for dots in _dots(drawn) for text in dots["customdata"]}
    named = {kernel.name for kernel in result.kernels} - shown
    assert "attn_all_reduce" in named
    remarks = " ".join(drawn.remarks)
    assert all(name in remarks for name in named)
    assert "H200 states no peak for fp32" in remarks


def test_roofs_are_those_of_classes_in_use() -> None:
    drawn = _roofline(make_result(make_kernel("a", 0, 5_000, flops={"fp8": 10})))
    labels = [trace["text"][1] for trace in drawn.figure["data"] if trace["mode"] == "lines+text"]
    assert [label.strip() for label in labels] == ["DRAM 4.8 TB/s", "fp8 1.979 PFLOP/s"]


def test_equal_roofs_are_one_line() -> None:
    result = make_result(make_kernel("a", 0, 5_000, flops={"fp8": 10, "fp8xfp4": 10}))
    peaks = replace(result.peaks, matrix_flops_per_s={"fp8": 2e15, "fp8xfp4": 2e15})
    drawn = _roofline(replace(result, peaks=peaks))
    labels = [trace["text"][1] for trace in drawn.figure["data"] if trace["mode"] == "lines+text"]
    assert labels[1:] == ["fp8/fp8xfp4 2 PFLOP/s"]


def test_nothing_to_draw() -> None:
    result = make_result(make_kernel("a", 0, 5, flops={}))
    assert roofline(result, StepBreakdown(result)) is None


def test_kinds_of_layers_merge_where_the_work_is_equal() -> None:
    same = [make_kernel("a", 100 * i, 100 * i + 50, kind=kind) for i, kind in enumerate("xy")]
    assert _kinds(*same) == ["a (x, y)"]
    other = make_kernel("a", 200, 250, kind="z", dram_read_bytes=1000)
    assert _kinds(*same, other) == ["a (x, y)", "a (z)"]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_large_kernels_are_named(phase: str) -> None:
    drawn = _roofline(make_step(phase=phase))
    assert "indexer_score" in _names(drawn)
    groups = distinct_kernels(StepBreakdown(make_step(phase=phase)))
    placed = {text.split("<br>")[0][3:-4] for dots in _dots(drawn) for text in dots["customdata"]}
    waited_for = [group for group in groups if group.key in placed and group.critical_ps]
    assert len(_names(drawn)) == len(waited_for)
    told = draw(drawn.figure, 1180)
    assert not {"indexer_score", "experts_up"} & set(told.unnamed)


def test_hidden_kernels_are_open_circles_without_a_name() -> None:
    hidden = make_kernel("small", 10, 20, stream=1, dram_read_bytes=1_000)
    drawn = _roofline(make_result(make_kernel("large", 0, 100), hidden))
    (dots,) = _dots(drawn)
    assert dots["marker"]["symbol"] == ["circle", "circle-open"]
    assert _names(drawn) == ["large"]
    assert "beside something longer: small." in drawn.remarks[0]


def test_the_area_of_a_dot_is_its_share_of_the_step() -> None:
    kernels = [make_kernel("a", 0, 400), make_kernel("b", 400, 500, dram_read_bytes=10_000)]
    (dots,) = _dots(_roofline(make_result(*kernels)))
    large, small = dots["marker"]["size"]
    assert large**2 == pytest.approx(4 * small**2)


def test_kinds_stand_in_a_name_only_to_tell_dots_apart() -> None:
    kernels = [make_kernel("a", 0, 100), make_kernel("b", 100, 200)]
    kernels.append(make_kernel("b", 200, 300, kind="hca", dram_read_bytes=10_000))
    names = {*_names(_roofline(make_result(*kernels)))}
    assert names == {"a", "b (csa)", "b (hca)"}
