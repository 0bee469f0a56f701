"""Differences of parts are those of the whole, exactly; a step against itself has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.compare_report import compare_json, compare_report
from reports.report_page import report_html
from reports.step_json import question_json, step_to_json, write_json
from simulator.basis.errors import InputError
from simulator.compare.comparison import (
    CAUSE,
    KIND,
    OPERATION,
    Comparison,
    Side,
    compare,
    side_of,
    side_of_json,
)
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from tests.reports.factory import make_step


def _side(name: str, **asked: Any) -> Side:
    step = ask(**{"model": "v4-flash", "chip": "h200", "count": 8, "batch": 16} | asked)
    return side_of(name, question_json(step.question), cost_step(step))


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(
        [
            _side("sglang"),
            _side("vllm", engine="vllm-0.33"),
            _side("b200 dp8", chip="b200", dp=8),
            _side("mi300x", chip="mi300x"),
        ]
    )


@pytest.mark.parametrize("part", [OPERATION, KIND, CAUSE])
def test_differences_add_up_to_those_of_the_steps(found: Comparison, part: int) -> None:
    for place, side in enumerate(found.sides):
        rows = found.by(part)
        assert sum(row.times_ps[place] for row in rows) == side.total_ps
        change_ps = side.total_ps - found.sides[0].total_ps
        assert sum(row.changes_ps[place] for row in rows) == change_ps


def test_every_cell_is_in_every_sum(found: Comparison) -> None:
    for part in (OPERATION, KIND, CAUSE):
        for row in found.by(part):
            cells = [times for key, times in found.cells() if key[part] == row.name]
            assert tuple(map(sum, zip(*cells, strict=True))) == row.times_ps


def test_the_json_adds_up_too(found: Comparison) -> None:
    data = json.loads(json.dumps(compare_json(found)))
    for place, side in enumerate(data["sides"]):
        for key in ("causes", "operations", "layer_kinds"):
            assert sum(row["changes_ps"][place] for row in data[key]) == side["change_ps"]
    assert {"chip", "engine", "layout"} <= {row["field"] for row in data["input"]}


def test_answers_that_rest_on_less_are_marked(found: Comparison) -> None:
    report = compare_report(found)
    assert len(report.said) == 1
    assert "do not rest on the same" in report.said[0].text
    marked = [card.label for card in report.cards if card.label.endswith("*")]
    assert [label.split(":")[0] for label in marked] == ["mi300x"]
    alike = compare(found.sides[:3])
    assert not compare_report(alike).said


def test_a_step_against_itself_differs_in_nothing() -> None:
    step = make_step()
    sides = [side_of(name, {"phase": "decode", "model": "m"}, step) for name in "ab"]
    found = compare(sides)
    assert found.asked() == []
    assert not any(row.moved_ps for part in (OPERATION, KIND, CAUSE) for row in found.by(part))
    report = compare_report(found)
    assert report.answer.endswith("the same on b, part by part.")
    assert "The questions are the same" in report_html(report)


def test_a_run_on_disk_is_the_step_that_was_costed(tmp_path: Path) -> None:
    step = ask(model="v4-flash", chip="h200", count=8, batch=16)
    result = cost_step(step)
    write_json(tmp_path / "decode.json", step_to_json(result))
    data = json.loads((tmp_path / "decode.json").read_text())
    read = side_of_json("run", data, "decode.json")
    own = side_of("run", read.asked, result)
    assert read == own
    data["kernels"][0]["critical_ps"] += 1
    with pytest.raises(InputError, match="was changed"):
        side_of_json("run", data | {"total_ps": data["total_ps"] - 10**9}, "decode.json")
    with pytest.raises(InputError, match="not the JSON of a step"):
        side_of_json("run", {"kernels": 3}, "other.json")


def test_what_cannot_be_compared_is_refused() -> None:
    step = make_step()
    decode, prefill = (
        side_of(phase, {"phase": phase, "model": "m"}, step) for phase in ("decode", "prefill")
    )
    with pytest.raises(InputError, match="1 answer"):
        compare([decode])
    with pytest.raises(InputError, match="different phases"):
        compare([decode, prefill])
    with pytest.raises(InputError, match="have the name"):
        compare([decode, decode])
