"""What `v4sim init` writes is accepted by its command as it is."""

import shlex

import pytest
import yaml

from hwmodels.chip import list_chips
from hwmodels.chip_price import list_priced_chips
from simulator.cli.init import _kinds
from simulator.cli.main import main
from simulator.engine.profile import list_profiles
from workloads.deepseek_v4.config import list_models

TRACE = ["trace", "synth", "--sessions", "3", "--seed", "1", "--out"]
QUICK = {
    "scenario": ["--set", "traffic.made.requests=20"],
    "plan": ["--no-sensitivity"],
    "tiers": ["--policies", "full"],
    "prices": ["--set", "traffic.made.requests=20"],
}


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("kind", ["chip", "scenario", "tiers", "engine", "model", "prices"])
def test_the_command_that_is_said_takes_the_file_unchanged(
    capsys, tmp_path, monkeypatch, kind
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "init", kind)
    assert code == 0
    command = " ".join(out.split()).partition("then: v4sim ")[2]
    assert (tmp_path / f"my-{kind}.yaml").read_text().startswith(f"# Of {kind} ")
    if "TRACE" in command:
        run(capsys, *TRACE, "TRACE.jsonl")
        command = command.replace("TRACE", "TRACE.jsonl")
    code, out, err = run(capsys, *shlex.split(command), *QUICK.get(kind, []))
    assert code == 0, err


def test_a_small_plan_of_own_trace_chips_and_prices_is_found(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(capsys, *TRACE, "mine.jsonl")
    assert run(capsys, "init", "prices", "--from", "b200")[0] == 0
    arguments = ["--trace", "mine.jsonl", "--chip", "b200", "--most-chips", "2"]
    code, _, err = run(capsys, "init", "plan", *arguments, "--prices", "my-prices.yaml")
    assert code == 0, err
    written = yaml.safe_load((tmp_path / "my-plan.yaml").read_text())
    assert written["scenario"]["traffic"] == {"trace": "./mine.jsonl"}
    assert written["chips"] == [{"chip": "b200", "most_chips": 2, "prices": "my-prices.yaml"}]
    code, _, err = run(capsys, "plan", "my-plan.yaml", "--no-sensitivity")
    assert code == 0, err


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("chip", name) for name in list_chips()),
        *(("engine", name) for name in list_profiles()),
        *(("model", name) for name in [*list_models(), "deepseek-ai/DeepSeek-V4-Pro"]),
        *(("prices", name) for name in list_priced_chips()),
        *(("scenario", name) for name in ("agents", "chat", "documents", "fixed-8k1k")),
        *(("plan", name) for name in ("agents", "chat", "documents")),
    ],
)
def test_everything_that_ships_can_be_begun_with(capsys, tmp_path, kind, name) -> None:
    path = tmp_path / "own.yaml"
    code, _, err = run(capsys, "init", kind, "--from", name, "--out", path)
    assert code == 0, err
    _kinds()[kind].check(path)


def test_a_file_goes_to_the_terminal_and_faults_are_sentences(capsys, tmp_path) -> None:
    code, out, _ = run(capsys, "init", "tiers", "--out", "-")
    assert code == 0
    assert yaml.safe_load(out)["tiers"]
    path = tmp_path / "there.yaml"
    path.write_text("")
    for arguments, words in (
        (["chips"], "unknown kind of file 'chips': did you mean 'chip'?"),
        (["chip", "--from", "h2000"], "did you mean 'h200'?"),
        (["chip", "--out", path], "is there already"),
        (["chip", "--trace", path], "--trace is of a scenario or plan"),
        (["plan", "--trace", tmp_path / "no.jsonl"], "no such trace file"),
    ):
        code, _, err = run(capsys, "init", *arguments)
        assert code == 2
        assert words in " ".join(err.split())
