"""Dots of the roofline, their names and what has no place on log axes."""

from __future__ import annotations

from typing import Any

import pytest

from reports.breakdown import StepBreakdown
from reports.distinct_kernels import distinct_kernels
from reports.dot_labels import Dot, label_places
from reports.roofline_figure import Roofline, roofline
from simulator.cost.result import KernelRecord, StepResult
from tests.reports.factory import make_kernel, make_result, make_step


def _roofline(result: StepResult) -> Roofline:
    drawn = roofline(result, StepBreakdown(result))
    assert drawn is not None
    return drawn


def _dots(drawn: Roofline) -> list[dict[str, Any]]:
    return [trace for trace in drawn.figure["data"] if trace["mode"] == "markers+text"]


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
    assert all(name in drawn.caption for name in named)
    assert "H200 states no peak for fp32" in drawn.caption


def test_roofs_are_those_of_classes_in_use() -> None:
    drawn = _roofline(make_result(make_kernel("a", 0, 5_000, flops={"fp8": 10})))
    labels = [trace["text"][1] for trace in drawn.figure["data"] if trace["mode"] == "lines+text"]
    assert [label.strip() for label in labels] == ["DRAM 4.8 TB/s", "fp8 1.979 PFLOP/s"]


def test_nothing_to_draw() -> None:
    result = make_result(make_kernel("a", 0, 5, flops={}))
    assert roofline(result, StepBreakdown(result)) is None


def test_kinds_of_layers_merge_where_the_work_is_equal() -> None:
    same = [make_kernel("a", 100 * i, 100 * i + 50, kind=kind) for i, kind in enumerate("xy")]
    assert _kinds(*same) == ["a (x, y)"]
    other = make_kernel("a", 200, 250, kind="z", dram_read_bytes=1000)
    assert _kinds(*same, other) == ["a (x, y)", "a (z)"]


def test_names_do_not_overlap() -> None:
    near = [Dot(name="left", x_px=100, y_px=100, size_px=20)]
    near.append(Dot(name="right", x_px=125, y_px=100, size_px=20))
    first, second = label_places(near)
    assert first != "middle right"
    assert second == "middle right"


def test_a_name_without_room_is_left_out() -> None:
    crowd = [
        Dot(name="", x_px=x, y_px=y, size_px=10) for x in range(0, 200, 9) for y in range(0, 200, 9)
    ]
    assert label_places([Dot(name="middle", x_px=100, y_px=100, size_px=10)], crowd) == [""]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_large_kernels_are_named(phase: str) -> None:
    drawn = _roofline(make_step(phase=phase))
    names = [text for dots in _dots(drawn) for text in dots["text"] if text]
    assert "indexer_score" in names
