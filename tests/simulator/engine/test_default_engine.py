"""One default engine everywhere: calibrated, or the chip's own; `ideal` says what it is."""

import inspect
from pathlib import Path

import pytest

from hwmodels.chip import find_chip, list_chips
from simulator.capacity.capacity_question import ask_capacity
from simulator.cli.main import main
from simulator.cost.question import ask
from simulator.deployment import ask_deployment
from simulator.engine.default_engine import default_engine, engine_text
from simulator.engine.profile import find_profile
from simulator.plan.candidates import candidates
from simulator.plan.plan_question import load_plan
from simulator.prefix.comparison import deployment_for
from simulator.serve.scenario_file import open_scenario

SCENARIO = """
name: small
model: v4-flash
chip: {chip}
parallel: {{tp: 8}}
traffic:
  made: {{requests: 4, concurrency: 2, input_tokens: 512, output_tokens: 4}}
"""
PLAN = """
name: small
scenario:
  name: small
  model: v4-flash
  chip: h200
  service_levels: {ttft_s: 5}
  traffic:
    made: {requests: 4, concurrency: 2, input_tokens: 512, output_tokens: 4}
chips:
  - {chip: h200}
  - {chip: ascend-910c, prices: {usd_per_chip_hour: 1.0, date: "2026-01-01", source: made up}}
"""
CHIPS = [("h200", "sglang-0.5"), ("mi300x", "atom"), ("ascend-910c", "ascend")]


def test_every_chip_has_a_shipped_default() -> None:
    for name in list_chips():
        chip = find_chip(name)
        own = {"AMD": "atom", "Huawei": "ascend"}.get(chip.vendor, "sglang-0.5")
        assert find_profile(default_engine(chip)).name == own


@pytest.mark.parametrize(("chip", "engine"), CHIPS)
def test_questions_and_scenarios_without_an_engine(chip: str, engine: str, tmp_path: Path) -> None:
    assert ask(model="v4-flash", chip=chip, count=8).question.engine == engine
    assert ask_capacity(model="v4-flash", chip=chip, count=8).engine == engine
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO.format(chip=chip))
    assert open_scenario(path).engine == engine
    assert open_scenario(path, ["engine=ideal"]).engine == "ideal"


def test_a_chip_put_into_a_scenario_brings_its_engine(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO.format(chip="h200"))
    assert open_scenario(path, ["chip=ascend-910c"]).engine == "ascend"


def test_plans_take_the_default_of_each_chip(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    found = {c.scenario.chip: c.scenario.engine for c in candidates(load_plan(path))}
    assert found == {"h200": "sglang-0.5", "ascend-910c": "ascend"}


def test_no_function_has_a_default_of_its_own() -> None:
    assert inspect.signature(ask_deployment).parameters["engine"].default is None
    for function in (ask, ask_capacity, deployment_for):
        assert "engine" not in inspect.signature(function).parameters


COMMANDS = [
    ["step", "--model", "v4-flash", "--count", "8"],
    ["capacity", "--model", "v4-flash", "--count", "8"],
    ["layout", "--pages", "128,256", "--padding", "engine", "--grouping", "separate"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(("chip", "engine"), CHIPS)
def test_headlines_name_the_default(
    capsys: pytest.CaptureFixture[str], command: list[str], chip: str, engine: str
) -> None:
    assert main([*command, "--chip", chip]) == 0
    headline = " ".join(capsys.readouterr().out.split())[:200]
    assert engine in headline


def test_crossover_and_offload_fit_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefix", "crossover", "--prefixes", "8192"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("v4-flash on h200-x8, sglang-0.5: ")
    assert "does not fit" not in out
    assert main(["offload", "--contexts", "8192"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("v4-flash on 2 x b200 with sglang-0.5, ")


def test_ideal_says_that_it_is_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_text("sglang-0.5") == "sglang-0.5"
    command = ["--model", "v4-flash", "--chip", "h200", "--count", "8", "--engine", "ideal"]
    for name in ("step", "capacity"):
        assert main([name, *command]) == 0
        assert "ideal (a bound, no engine)" in " ".join(capsys.readouterr().out.split())[:200]


@pytest.mark.parametrize("chip", ["h200", "b200"])
@pytest.mark.parametrize(
    ("phase", "batch", "context"),
    [("decode", 1, 8192), ("decode", 64, 131072), ("prefill", 1, 8192)],
)
def test_ideal_is_a_bound(chip: str, phase: str, batch: int, context: int) -> None:
    from simulator.cost.step import cost_step

    times = {}
    for engine in ("ideal", "sglang-0.5", "vllm-0.22", "vllm-0.33", "trtllm-1.3"):
        asked = ask(
            model="v4-flash", chip=chip, count=8, phase=phase, batch=batch, context=context,
            engine=engine,
        )  # fmt: skip
        result = cost_step(asked, must_fit=False)
        times[engine] = result.total_ps
    assert min(times, key=times.__getitem__) == "ideal"
