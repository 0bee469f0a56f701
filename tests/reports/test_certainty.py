"""The interval beside a time, what stands behind it, and causes that add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.breakdown import StepBreakdown
from reports.causes import cause_bars, causes_sentence, whisker
from reports.certainty import certainty_sentence, interval_text, time_text
from simulator.kernels.standing import Standing
from tests.reports.factory import make_kernel, make_result, make_step

MS = 10**9


def test_a_shared_unit_is_said_once() -> None:
    assert interval_text(9_800_000_000, 11_400_000_000) == "9.8 to 11.4 ms"
    assert interval_text(900 * MS, 1100 * MS) == "900 ms to 1.1 s"


def test_the_step_says_its_unit_once_and_when_nothing_is_calibrated() -> None:
    result = make_result(make_kernel("a", 0, 10 * MS))
    assert time_text(result) == "10 ms (9 to 11)"
    guessed = make_result(make_kernel("a", 0, 10 * MS, calibrated=False))
    assert time_text(guessed) == "10 ms (9 to 11, not calibrated)"
    assert "no kernel of this engine" in certainty_sentence(guessed)
    assert certainty_sentence(result) == (
        "In brackets: where 8 of 10 steps on silicon are expected, calibrated on this chip."
    )


def test_the_step_says_what_it_rests_on() -> None:
    far = Standing("foreign", "b200", "no measurement of such cores (cdna4), constants of b200")
    guessed = make_result(make_kernel("a", 0, 10 * MS, calibrated=False))
    assert certainty_sentence(replace(guessed, standing=far)).endswith(
        "expected, no measurement of such cores (cdna4), constants of b200: a wide guess."
    )
    near = Standing("same cores", "h200", "same cores as h200, 3 guessed facts, not fitted on h100")
    result = replace(make_result(make_kernel("a", 0, 10 * MS)), standing=near)
    assert "same cores as h200, 3 guessed facts" in certainty_sentence(result)
    assert not result.calibrated


def test_launches_without_calibration_are_named() -> None:
    kernels = make_kernel("a", 0, 9 * MS), make_kernel("b", 9 * MS, 10 * MS, calibrated=False)
    assert "10.0 % of the launches' time is not calibrated" in certainty_sentence(
        make_result(*kernels)
    )
    assert certainty_sentence(make_result(*kernels)).endswith("wide intervals: b.")


def test_causes_add_up_to_the_step_and_to_every_group() -> None:
    breakdown = StepBreakdown(make_step())
    total = breakdown.total
    assert sum(total.critical_ps_by_cause.values()) == breakdown.result.total_ps
    for group in (*breakdown.by_operation, *breakdown.by_layer_kind):
        assert sum(group.critical_ps_by_cause.values()) == group.critical_ps
        assert group.low_ps <= group.critical_ps <= group.high_ps
    assert (total.low_ps, total.high_ps) == (breakdown.result.low_ps, breakdown.result.high_ps)


def test_a_covered_part_of_a_launch_shares_its_causes() -> None:
    causes = {"launch": 4, "matrix": 6}
    long = make_kernel("long", 0, 12)
    hidden = make_kernel("hidden", 7, 17, stream=1, causes_ps=causes)
    breakdown = StepBreakdown(make_result(long, hidden))
    found = {group.key: dict(group.critical_ps_by_cause) for group in breakdown.by_operation}
    assert sum(sum(parts.values()) for parts in found.values()) == 17


def test_bars_and_sentence_of_causes() -> None:
    breakdown = StepBreakdown(make_step())
    html = cause_bars(breakdown.total, breakdown.by_operation)
    assert html.count('class="bar"') == 13
    assert "memory bandwidth" in html
    assert "p10 to p90" in html
    assert "memory bandwidth 39.1 %" in causes_sentence(breakdown.total)


@pytest.mark.parametrize(("low", "high", "count"), [(5, 20, 1), (10, 10, 0)])
def test_whiskers_stay_on_their_track(low: int, high: int, count: int) -> None:
    html = whisker(low, high, 10)
    assert html.count("<u ") == count
    if count:
        assert 'left:50.000%;width:50.000%"' in html


def test_a_step_of_nothing_has_no_bars() -> None:
    empty = StepBreakdown(replace(make_result(), low_ps=0, high_ps=0))
    assert "No launch" in cause_bars(empty.total, empty.by_operation)
