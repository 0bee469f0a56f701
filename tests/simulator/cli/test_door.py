"""The door: help in groups, sizes, glossary, completion, data on standard output, progress."""

import json

import pytest

from simulator.cli import progress as shown
from simulator.cli.help import PANELS
from simulator.cli.main import app, main
from simulator.cli.progress import progress, progress_text

STEP = ["step", "--model", "v4-flash", "--chip", "h200", "--count", "8"]


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def commands() -> list[str]:
    names = [command.name for command in app.registered_commands]
    return [str(n) for n in (*names, *(group.name for group in app.registered_groups))]


def test_every_command_stands_in_one_group_with_its_whole_description(capsys) -> None:
    _, out, _ = run(capsys, "--help")
    placed = [name for panel in PANELS.values() for name in panel]
    assert len(placed) == len(set(placed))
    assert set(commands()) <= set(placed)
    assert "More:" not in out
    assert "..." not in out.replace("COMMAND [ARGS]...", "")
    for title in PANELS:
        assert f"\n{title}:\n" in out


@pytest.mark.parametrize("command", ["step", "capacity", "serve"])
def test_options_stand_in_groups(capsys, command) -> None:
    _, out, _ = run(capsys, command, "--help")
    assert "\nDeployment:\n" in out or "\nLike a benchmark tool:\n" in out
    assert "128K = 131,072" in " ".join(out.split())


def test_a_size_is_the_number_in_full(capsys) -> None:
    code, out, _ = run(capsys, *STEP, "--context", "128K", "--json", "-")
    assert code == 0
    assert json.loads(out)["question"]["context_tokens"] == 131072
    _, plain, _ = run(capsys, *STEP, "--context", "131072")
    assert "131,072 tokens" in " ".join(plain.split())
    code, _, err = run(capsys, *STEP, "--context", "12q")
    assert code == 2
    assert err.startswith("error: --context '12q' is no number of tokens")


def test_data_alone_is_on_standard_output(capsys) -> None:
    _, out, err = run(capsys, "chips", "list", "--json", "-")
    assert json.loads(out)["chips"]
    assert "h200" in err
    _, out, err = run(capsys, "chips", "list")
    assert "h200" in out
    assert not err


def test_the_glossary_says_what_words_mean(capsys) -> None:
    code, out, _ = run(capsys, "glossary")
    assert code == 0
    assert "TTFT: time to first token" in out
    assert "Kinds of layer" in out
    _, one, _ = run(capsys, "glossary", "goodput")
    assert len(one.splitlines()) < 5
    code, _, err = run(capsys, "glossary", "gudput")
    assert code == 2
    assert "did you mean 'goodput'?" in err


def test_a_shell_completes_names(capsys, monkeypatch) -> None:
    monkeypatch.setenv("_V4SIM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "v4sim step --chip h2")
    monkeypatch.setenv("COMP_CWORD", "3")
    main([])
    assert capsys.readouterr().out.split() == ["h20", "h200"]


def test_progress_says_how_many_how_fast_and_how_long() -> None:
    assert progress_text(12, 40, 4.0) == "12 of 40, 3/s, 9 s left"
    assert progress_text(600, 6000, 60.0) == "600 of 6,000, 10/s, 9 min 0 s left"
    assert progress_text(5, None, 2.0) == "5, 2.5/s"
    assert progress_text(0, 40, 0.0) == "0 of 40"


def test_progress_is_lines_where_it_is_no_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setattr(shown, "LINE_EVERY_S", 0.0)
    with progress("points", 3) as tick:
        for _ in range(3):
            tick()
        tick(3, 3, "done")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "points: 1 of 3", "points: 2 of 3", "points: 3 of 3", "done: 3 of 3",
    ]  # fmt: skip


def test_columns_without_room_are_named(capsys, monkeypatch) -> None:
    from simulator.cli.options import console

    monkeypatch.setenv("COLUMNS", "60")
    console.cache_clear()
    _, out, _ = run(capsys, *STEP, "--kernels")
    console.cache_clear()
    assert "No room at 60 columns for:" in out
