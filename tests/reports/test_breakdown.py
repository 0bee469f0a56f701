"""Sums by operation, by kind and in all are those of the records."""

from __future__ import annotations

import pytest

from reports.breakdown import BETWEEN_LAUNCHES, SUMMED_FIELDS, StepBreakdown, math_classes
from simulator.cost.result import StepResult
from tests.reports.factory import make_kernel, make_result, make_step


@pytest.fixture(scope="module")
def result() -> StepResult:
    return make_step()


@pytest.mark.parametrize("grouping", ["by_operation", "by_layer_kind"])
def test_groups_add_up_to_the_step(result: StepResult, grouping: str) -> None:
    breakdown = StepBreakdown(result)
    groups = getattr(breakdown, grouping)
    assert sum(group.critical_ps for group in groups) == result.total_ps
    assert sum(group.launches for group in groups) == len(result.kernels)
    assert sum(group.duration_ps for group in groups) == sum(k.duration_ps for k in result.kernels)
    for name in SUMMED_FIELDS:
        assert sum(group.amounts[name] for group in groups) == breakdown.total.amounts[name]
        assert breakdown.total.amounts[name] == sum(getattr(k, name) for k in result.kernels)


def test_total_holds_everything(result: StepResult) -> None:
    total = StepBreakdown(result).total
    assert total.critical_ps == result.total_ps
    assert sum(total.critical_ps_by_bound.values()) == result.total_ps
    assert total.total_flops == sum(kernel.total_flops for kernel in result.kernels)
    assert total.dram_bytes == sum(kernel.dram_bytes for kernel in result.kernels)


def test_layers_of_a_kind_are_counted(result: StepResult) -> None:
    scopes = {group.key: group.scopes for group in StepBreakdown(result).by_layer_kind}
    assert scopes["swa"] + scopes["csa"] + scopes["hca"] == 43


def test_time_between_launches_is_launch_overhead() -> None:
    breakdown = StepBreakdown(make_result(make_kernel("a", 4, 10), total_ps=13))
    first, second = breakdown.by_operation
    assert (first.key, first.critical_ps, first.bound) == (BETWEEN_LAUNCHES, 7, "launch")
    assert (second.key, second.critical_ps, second.bound) == ("a", 6, "memory")


def test_a_hidden_group_is_bound_by_what_its_launches_are() -> None:
    hidden = make_kernel("hidden", 10, 20, stream=1, bound="vector")
    breakdown = StepBreakdown(make_result(make_kernel("a", 0, 100), hidden))
    group = breakdown.by_operation[1]
    assert (group.critical_ps, group.duration_ps, group.bound) == (0, 10, "vector")


def test_math_classes_are_those_with_flop() -> None:
    result = make_result(make_kernel("a", 0, 5, flops={"fp8": 2, "bf16": 0}))
    assert math_classes(result) == ("fp8",)
