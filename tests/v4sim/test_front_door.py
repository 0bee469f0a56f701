"""`import v4sim`: examples run, answers equal the commands', show short tables and save files."""

from __future__ import annotations

import ast
import doctest
import json
from pathlib import Path
from typing import Any

import pytest

import v4sim
import v4sim.questions
from simulator.cli.main import main
from tests.sampling import tenth

DOCS = Path(__file__).parents[2] / "docs"
MOST_LETTERS = 4000


EXAMPLES = {
    "v4sim": lambda: doctest.testmod(v4sim),
    "v4sim.questions": lambda: doctest.testmod(v4sim.questions),
    "python.md": lambda: doctest.testfile(str(DOCS / "python.md"), module_relative=False),
}


@pytest.mark.parametrize("name", tenth(list(EXAMPLES), 1))
def test_examples_run(name: str) -> None:
    found = EXAMPLES[name]()
    assert found.attempted >= 2
    assert not found.failed


@pytest.mark.parametrize("name", tenth(["prefixes", "steps"], 1))
def test_notebooks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    space: dict[str, Any] = {}
    shown = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            if isinstance(value, v4sim.Answer):
                assert len(value._repr_html_()) < MOST_LETTERS
                shown += 1
    assert shown


FLASH = v4sim.Deployment(model="v4-flash", chip="b200", count=8)
ANSWERS = {
    "step": lambda: FLASH.step(batch=8, context="8K"),
    "prefill": lambda: FLASH.step(phase="prefill", context="2K"),
    "capacity": lambda: FLASH.capacity(context="1M", requests=40),
    "serve": lambda: v4sim.serve("chat", traffic__made__requests=10),
    "plan": lambda: v4sim.plan("small"),
    "run": lambda: v4sim.run("fp8"),
}


@pytest.mark.parametrize("name", tenth(list(ANSWERS), 2))
def test_every_answer_has_a_table_a_figure_and_files(name: str, tmp_path: Path) -> None:
    answer = ANSWERS[name]()
    html = answer._repr_html_()
    assert len(html) < MOST_LETTERS
    assert answer.sentence.split(":")[0][:40] in html.replace("&#x27;", "'")
    assert len(answer.to_pandas())
    assert answer.figure().data
    assert json.dumps(answer.to_dict())
    files = answer.save(tmp_path)
    assert all(path.is_file() for path in files)
    assert any(path.suffix == ".html" for path in files)


def test_answers_are_those_of_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    words = ["--model", "v4-pro", "--chip", "b200", "--count", "8", "--context", "256K", "--json"]
    main(["capacity", *words, str(path)])
    asked = {"model": "v4-pro", "chip": "b200", "count": 8}
    found = v4sim.capacity(context="256K", **asked)
    assert json.loads(path.read_text()) == json.loads(json.dumps(found.to_dict()))
    main(["step", *words, str(path)])
    step = v4sim.step(context="256K", **asked)
    assert json.loads(path.read_text())["total_ps"] == step.to_dict()["total_ps"]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: v4sim.Deployment(model="v4-flsh", chip="h200"), "did you mean 'v4-flash'?"),
        (lambda: v4sim.step(model="v4-flash", chip="h200", context="1G"), "'1G' is no number"),
        (
            lambda: v4sim.step(v4sim.Deployment(model="v4-flash", chip="b200"), tp=2),
            "a deployment is given, and tp beside it",
        ),
        (
            lambda: v4sim.Deployment.of_launch("vllm serve m --max-num-seqs 4", chip="b200"),
            "--max-num-seqs of the launch command is about requests",
        ),
        (lambda: v4sim.serve("chatt"), "did you mean 'chat'?"),
    ],
)
def test_faults_are_sentences(ask: Any, words: str) -> None:
    with pytest.raises(v4sim.InputError) as caught:
        ask()
    assert words in str(caught.value)
