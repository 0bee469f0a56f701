"""Files of the user's, whatever name stands in them: figures of serve, sweep and plan are equal."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.basis.errors import InputError
from simulator.plan.plan_question import load_plan
from simulator.plan.search import search
from simulator.serve.run import run_scenario
from simulator.serve.scenario import load_scenario
from simulator.serve.scenario_file import open_scenario
from simulator.sweep.compute import Task, compute
from simulator.sweep.grid import parse_grid
from simulator.sweep.point import span
from simulator.sweep.row import point_row
from tests.own_files import (
    own_chip,
    own_engine,
    own_model,
    own_node,
    own_prices,
    own_tiers,
)

BASE: dict[str, Any] = {
    "name": "own",
    "model": "v4-flash",
    "chip": "h200",
    "parallel": {"tp": 8},
    "engine": "vllm-0.33",
    "traffic": {
        "synth": {"kind": "chat", "sessions": 3, "output_mean": 20},
        "first": 8,
        "concurrency": 2,
        "longest_wait_s": 1,
    },
    "scheduler": {"preempt": "swap"},
    "prefix_cache": {"tiers": "node"},
    "service_levels": {"ttft_s": 5, "tpot_ms": 60, "percentile": 95},
}
KINDS = {
    "chip": (("chip",), own_chip),
    "node": (("chip",), own_node),
    "model": (("model",), own_model),
    "engine": (("engine",), own_engine),
    "tiers": (("prefix_cache", "tiers"), own_tiers),
    "prices": (("prices",), own_prices),
}


def changed(keys: tuple[str, ...], value: str) -> dict[str, Any]:
    data = copy.deepcopy(BASE)
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return data


def written(folder: Path, data: dict[str, Any], name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(data))
    return path


def figures(path: Path) -> dict[str, Any]:
    return point_row(run_scenario(load_scenario(path)))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return figures(written(tmp_path_factory.mktemp("shipped"), BASE))


@pytest.mark.parametrize("kind", KINDS)
def test_serving_on_a_renamed_copy_is_equal(
    tmp_path: Path, shipped: dict[str, Any], kind: str
) -> None:
    keys, make = KINDS[kind]
    path = written(tmp_path, changed(keys, make(tmp_path)))
    found = figures(path)
    assert all(found[name] for name in ("usd", "hit_tokens", "joules"))
    assert found == shipped


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_of_a_sweep_on_a_renamed_copy_is_equal(
    tmp_path: Path, shipped: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, make = KINDS[kind]
    path = written(tmp_path, BASE)
    monkeypatch.chdir(tmp_path)  # files that the grid names are found from here
    (point,) = span(path, parse_grid([f"{'.'.join(keys)}={make(tmp_path)}"]))
    assert point.scenario is not None
    assert str(tmp_path) in json.dumps(point.scenario.model_dump(mode="json"))
    outcome = compute(Task(point.digest, point.inputs, point.scenario))
    assert outcome.error == ""
    assert outcome.row == shipped


def planned(folder: Path, **changes: Any) -> dict[str, Any]:
    scenario = {k: v for k, v in BASE.items() if k not in ("parallel", "engine")}
    question = {
        "name": "own",
        "scenario": scenario,
        "chips": [{"chip": "h200", "most_chips": 8}],
        "engines": ["vllm-0.33"],
        "layouts": [[8, 1]],
    }
    result = search(load_plan(written(folder, question | changes, "plan.yaml")))
    assert result.best is not None
    return asdict(replace(result.best, candidate=None))  # type: ignore[arg-type]


def plan_changes(kind: str, name: str) -> dict[str, Any]:
    if kind in ("chip", "node"):
        return {"chips": [{"chip": name, "most_chips": 8}]}
    if kind == "prices":
        return {"chips": [{"chip": "h200", "most_chips": 8, "prices": name}]}
    if kind == "engine":
        return {"engines": [name]}
    keys = KINDS[kind][0]
    scenario = {k: v for k, v in changed(keys, name).items() if k not in ("parallel", "engine")}
    return {"scenario": scenario}


@pytest.fixture(scope="module")
def shipped_plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return planned(tmp_path_factory.mktemp("plan"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_with_a_renamed_copy_is_equal(
    tmp_path: Path, shipped_plan: dict[str, Any], kind: str
) -> None:
    name = KINDS[kind][1](tmp_path)
    assert planned(tmp_path, **plan_changes(kind, name)) == shipped_plan


def test_numbers_of_the_users_files_are_used(tmp_path: Path, shipped: dict[str, Any]) -> None:
    slower = own_node(tmp_path, ("latency: {value: 1.0, unit: us", "latency: {value: 90, unit: us"))
    found = figures(written(tmp_path, changed(("chip",), slower) | {"engine": "ideal"}))
    same = figures(written(tmp_path, BASE | {"engine": "ideal"}))
    assert found["tpot_ms_mean"] > 1.5 * same["tpot_ms_mean"]
    prices = own_prices(tmp_path, ("default: rental", "default: tco-hyperscaler"))
    assert shipped["usd_per_chip_hour"] == 1.6
    assert figures(written(tmp_path, changed(("prices",), prices)))["usd_per_chip_hour"] == 1.41


def test_an_edited_node_is_another_point_of_a_sweep(tmp_path: Path) -> None:
    path = written(tmp_path, changed(("chip",), own_node(tmp_path)))
    (first,) = span(path, ())
    own_node(tmp_path, ("latency: {value: 1.0, unit: us", "latency: {value: 90, unit: us"))
    (second,) = span(path, ())
    assert first.digest != second.digest


def test_files_of_a_change_are_found_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scenarios").mkdir()
    path = written(tmp_path / "scenarios", BASE)
    monkeypatch.chdir(tmp_path)
    asked = open_scenario(path, [f"chip={own_chip(tmp_path)}", "engine=ideal"])
    assert asked.chip == str(tmp_path / "chips/my-chip.yaml")
    assert asked.engine == "ideal"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chips": [{"chip": "h2000"}, {"chip": "h200"}]}, "unknown chip 'h2000': did you mean"),
        ({"chips": [{"chip": "h200"}, {"chip": "no.yaml"}]}, "no.yaml: no such chip file"),
        ({"chips": [{"chip": "h20"}]}, "no price of a h20 is known"),
        ({"chips": [{"chip": "h200", "prices": "tco"}]}, "unknown price of h200 'tco'"),
        ({"engines": ["vllm-0.33", "vllm"]}, "unknown engine 'vllm'"),
        ({"scenario": {"model": "v5"}}, "unknown model 'v5'"),
        ({"scenario": {"index_dtype": "fp7"}}, "unknown index dtype 'fp7'"),
        ({"scenario": {"expert_dtype": "fp7"}}, "unknown expert dtype 'fp7'"),
        ({"scenario": {"prefix_cache": {"tiers": "nodes"}}}, "unknown tiers 'nodes'"),
        ({"scenario": {"prefix_cache": {"window_policy": "al"}}}, "unknown window policy 'al'"),
    ],
)
def test_a_plan_tells_what_is_wrong_with_its_input(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    scenario = {k: v for k, v in BASE.items() if k not in ("parallel", "engine")}
    question = {"name": "own", "chips": [{"chip": "h200"}], "engines": ["vllm-0.33"]} | changes
    question["scenario"] = scenario | changes.get("scenario", {})
    with pytest.raises(InputError, match=words):
        search(load_plan(written(tmp_path, question | {"layouts": [[8, 1]]}, "plan.yaml")))


def test_a_candidate_that_cannot_be_is_ruled_out_and_no_error(tmp_path: Path) -> None:
    scenario = {k: v for k, v in BASE.items() if k not in ("parallel", "engine")}
    question = {
        "name": "own",
        "scenario": scenario,
        "chips": [{"chip": "h200", "most_chips": 8}],
        "engines": ["vllm-0.33", "trtllm-1.3"],  # the latter needs FP4 units
        "layouts": [[8, 1], [3, 1], [1, 1]],
    }
    result = search(load_plan(written(tmp_path, question, "plan.yaml")))
    assert result.best is not None
    said = " / ".join(out.reason for out in result.ruled_out)
    assert "needs matrix units that multiply fp4" in said
    assert "tp 3 does not divide" in said
    assert "does not fit" in said
