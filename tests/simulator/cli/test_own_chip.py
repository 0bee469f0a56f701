"""An edited chip is named after its file in the answer, the page and the JSON of every command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import hwmodels
from simulator.cli.main import main
from tests.own_files import copied

NAME = "h200 (my-chip.yaml)"
COMMANDS = {
    "step": "step --model v4-flash --count 8 --engine sglang-0.5",
    "capacity": "capacity --model v4-flash --count 8",
    "layout": "layout --pages 128,256 --padding engine --grouping separate",
    "indexer": "indexer --context 8192 --entries 1024",
    "offload": "offload --count 8",
    "bandwidth": "bandwidth --channels 1",
}
WITHOUT_PAGE = ("capacity",)


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    """A copy of a shipped chip in which not even the name differs."""
    path = tmp_path / "my-chip.yaml"
    shutil.copy(Path(hwmodels.__file__).parent / "chips/h200.yaml", path)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The first lines that a command prints, as one."""
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return " ".join(captured.out.partition("\n\n")[0].split())


@pytest.mark.parametrize("command", COMMANDS)
def test_command_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, chip: Path, command: str
) -> None:
    page, json = tmp_path / "out", tmp_path / "answer.json"
    out = [] if command in WITHOUT_PAGE else ["--out", page]
    said = answer(capsys, *COMMANDS[command].split(), "--chip", chip, "--json", json, *out)
    assert NAME in said
    assert NAME in json.read_text()
    pages = list(page.glob("*.html"))
    assert len(pages) == bool(out)
    for path in pages:
        assert NAME in path.read_text()


def test_prefix_names_the_file_of_the_nodes_chip(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, chip: Path
) -> None:
    source = Path(hwmodels.__file__).parent / "nodes/h200-x8.yaml"
    copied(tmp_path, source, "my-node.yaml", ("chip: h200", f"chip: {chip.name}"))
    trace, page, json = tmp_path / "t.jsonl", tmp_path / "out", tmp_path / "answer.json"
    answer(capsys, "trace", "synth", "--out", trace, "--sessions", 2, "--seed", 3)
    code = main([
        *("prefix", "compare", "--trace", str(trace), "--node", str(tmp_path / "my-node.yaml")),
        *("--model", "v4-flash", "--engine", "sglang-0.5", "--policies", "boundary"),
        *("--json", str(json), "--out", str(page)),
    ])  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert NAME in said
    assert NAME in json.read_text()
    assert NAME in (page / "prefix.html").read_text()
    node = ("--node", tmp_path / "my-node.yaml", "--model", "v4-flash", "--engine", "sglang-0.5")
    said = answer(capsys, "prefix", "crossover", *node, "--json", json)
    # The path is long, and may be broken at the end of a line.
    assert "my-node.yaml" in said.replace(" ", "")
    assert NAME in json.read_text()


def test_serve_and_plan_name_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, chip: Path
) -> None:
    made = {"input_tokens": 2000, "output_tokens": 8, "requests": 3, "concurrency": 1}
    scenario = {
        **{"name": "own", "model": "v4-flash", "chip": chip.name, "parallel": {"tp": 8}},
        **{"engine": "sglang-0.5", "traffic": {"made": made}, "service_levels": {"tpot_ms": 60}},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(scenario))
    page, json = tmp_path / "out", tmp_path / "answer.json"
    said = answer(capsys, "serve", tmp_path / "own.yaml", "--json", json, "--out", page)
    assert NAME in said
    assert chip.name in json.read_text()
    assert NAME in (page / "serve.html").read_text()
    question = {
        **{"name": "own", "scenario": scenario, "layouts": [[8, 1]]},
        **{"chips": [{"chip": chip.name, "most_chips": 8}], "engines": ["sglang-0.5"]},
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(question))
    said = answer(capsys, "plan", tmp_path / "plan.yaml", "--json", json, "--no-sensitivity")
    assert NAME in said
    assert NAME in json.read_text()


def test_a_plan_with_a_chip_file_that_is_not_there_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = {"input_tokens": 2000, "output_tokens": 8, "requests": 3, "concurrency": 1}
    scenario = {
        **{"name": "own", "model": "v4-flash", "chip": "h200"},
        **{"traffic": {"made": made}, "service_levels": {"tpot_ms": 60}},
    }
    question = {"name": "own", "scenario": scenario, "chips": [{"chip": "no.yaml"}]}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(question))
    code = main(["plan", str(tmp_path / "plan.yaml")])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err == f"error: {tmp_path / 'no.yaml'}: no such chip file\n"
