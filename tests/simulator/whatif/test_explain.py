"""The change that is foretold for 5 % more is that of the step costed again, within a tenth."""

from __future__ import annotations

import pytest

import simulator.whatif.explain as whole
from reports.explain_report import explain_json, explain_report
from simulator.cost.question import AskedStep, ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.kernels.constants_file import constants_for, fresh_constants, read_constants
from simulator.whatif.change import with_edits
from simulator.whatif.explain import (
    CHIP,
    Number,
    cause_parts,
    explain,
    largest_causes,
    lever_of,
    step_numbers,
)
from tests.sampling import WHOLE


@pytest.fixture(scope="module")
def asked() -> AskedStep:
    return ask(model="v4-flash", chip="h200", count=8, batch=64, context=131072)


@pytest.fixture(scope="module")
def base(asked: AskedStep) -> StepResult:
    return cost_step(asked)


def _costed_again(asked: AskedStep, number: Number) -> int:
    """The step with a number raised by 5 %, by the ways that commands have."""
    if number.of == CHIP:
        unit = "" if number.unit == "1" else number.unit
        value = f"{round(number.value * 1.05)}" if number.whole else f"{number.value * 1.05:.12g}"
        return cost_step(with_edits(asked, [f"{number.name}={value}{unit}"])).total_ps
    family, _, name = number.name.partition(".")
    stored = constants_for(family, asked.chip)
    constants = {**stored.values, name: number.value * 1.05}
    fit = stored.fit.model_copy(update={"constants": constants})
    content = read_constants(family)
    layers = {**content.architectures, stored.architecture: fit}
    with fresh_constants([content.model_copy(update={"architectures": layers})]):
        return cost_step(asked).total_ps


def test_predictions_hold_where_the_step_follows_a_line(asked: AskedStep, base: StepResult) -> None:
    numbers, _ = step_numbers(asked, base)
    named = ["memory.bandwidth", "moe_triton_sglang.tile_clocks"]
    chosen = [number for number in numbers if number.name in named]
    assert len(chosen) == 2
    chosen += numbers if WHOLE else []
    for number in chosen:
        lever = lever_of(asked, base, number, cost_step)
        if lever is None or not lever.change_ps or lever.is_linear is None:
            continue
        assert lever.rerun_ratio == pytest.approx(0.05, abs=0.03)
        if not number.whole:
            assert lever.rerun_ps == _costed_again(asked, number) - base.total_ps, number.name
        off = abs(lever.predicted_ps(lever.rerun_ratio or 0.05) - (lever.rerun_ps or 0))
        assert lever.is_linear == (off <= 0.1 * abs(lever.rerun_ps or 0)), number.name
        assert lever.is_linear or number.name not in named
        assert sum(lever.causes_ps.values()) == lever.change_ps


def test_causes_are_the_largest_and_add_up(base: StepResult) -> None:
    parts = cause_parts(base)
    assert sum(parts.values()) == base.total_ps
    causes = largest_causes(base)
    assert [cause.name for cause in causes] == sorted(parts, key=lambda c: -parts[c])[:3]
    for cause in causes:
        assert cause.time_ps == parts[cause.name]
        assert sum(time_ps for _, time_ps in cause.operations) <= cause.time_ps


def test_an_explanation_ranks_by_what_was_costed(
    asked: AskedStep, base: StepResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three numbers, so that it is quick: one moves much, one a little, one nothing."""
    quick = ("memory.bandwidth", "launch.graph_gap", "power.tdp")
    numbers, coarse = step_numbers(asked, base)
    assert {"memory.stacks", "llc.partitions"} <= set(coarse)
    chosen = [number for number in numbers if number.name in quick]
    monkeypatch.setattr(whole, "step_numbers", lambda *_: (chosen, coarse))
    monkeypatch.setattr(whole, "FORMATS", {"index": ("fp8", "fp4")})
    monkeypatch.setattr(whole, "field_changes", lambda *_, **__: ())
    found = explain(asked, cost_step, shown=2)
    assert [lever.number.name for lever in found.levers] == ["memory.bandwidth", "launch.graph_gap"]
    assert all(lever.is_linear for lever in found.levers)
    assert [lever.moved_cause for lever in found.levers] == ["dram_bandwidth", "launch"]
    assert "power.tdp" in found.still
    data = explain_json(found)
    assert data["levers"][0]["predicted_5_percent_ps"] < 0 < data["levers"][1]["rerun_ps"]
    report = explain_report(found)
    assert "what moves it most: 5 % more memory.bandwidth (chip) -" in report.answer
    (index,) = found.formats
    costed = cost_step(asked.changed(index="fp4"))
    assert index.change_ps == costed.total_ps - base.total_ps
