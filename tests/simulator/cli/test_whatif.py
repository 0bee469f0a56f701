"""`v4sim whatif`: a step before and after edits of its chip, and its numbers one at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwmodels import chip
from simulator.cli.main import main
from simulator.whatif import fields
from tests.laws.models import RAW_CONFIG


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """Options of a small model on one chip."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(RAW_CONFIG))
    shape = ["--context", "256", "--engine", "sglang-0.5", "--exact-context"]
    return ["--model", str(path), "--chip", "h200", *shape]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), " ".join(captured.err.split())


def test_changes_of_kernels_add_up_to_that_of_the_step(capsys, tmp_path, tiny) -> None:
    edits = ["--set", "launch.graph_gap=3us", "--set", "cores.count=66"]
    out = tmp_path / "a.json"
    code, text, _ = run(capsys, "whatif", *tiny, *edits, "--json", out)
    assert code == 0
    name = "h200 (launch.graph_gap=3 us, cores.count=66)"
    assert "on h200 and" in text
    assert f"on {name}: +" in text
    data = json.loads(out.read_text())
    step = data["step"]
    assert (step["chip_before"], step["chip_after"]) == ("h200", name)
    assert step["change_ps"] == step["after_ps"] - step["before_ps"] > 0
    assert sum(kernel["change_ps"] for kernel in step["kernels"]) == step["change_ps"]
    assert sum(kernel["before_ps"] for kernel in step["kernels"]) == step["before_ps"]
    assert data["fields"] == []
    assert data["schema"] == "v4sim.whatif/1"
    for edited, key in (([], "before_ps"), (edits, "after_ps")):
        run(capsys, "step", *tiny, *edited, "--json", out)
        assert json.loads(out.read_text())["total_ps"] == step[key]


def test_fields_are_ranked_by_what_they_do(capsys, tmp_path, tiny) -> None:
    out = tmp_path / "a.json"
    chosen = "power.all_in,dies_per_package,launch.graph_gap,cores.count"
    code, text, _ = run(capsys, "whatif", *tiny, "--fields", chosen, "--json", out)
    assert code == 0
    data = json.loads(out.read_text())
    assert data["step"] is None
    found = [own for own in data["fields"] if not own["fault"]]
    sizes = [abs(own["change_ps"]) for own in found]
    assert sizes == sorted(sizes, reverse=True)
    assert found[0]["field"] == "launch.graph_gap"
    assert found[0]["kernel"]
    assert data["fields"][-1]["fault"] == "no smaller value is legal"
    assert data["fields"][-1]["change_ps"] is None
    assert found[0]["edit"] in text
    assert "Without effect on this step: power.all_in" in text
    assert "Not costed: dies_per_package halved, 1 now: no smaller value is legal" in text


def test_fields_of_an_edited_chip_start_from_its_numbers(capsys, tmp_path, tiny) -> None:
    out = tmp_path / "a.json"
    options = ("--set", "cores.count=100", "--fields", "cores.count", "--json", out)
    assert run(capsys, "whatif", *tiny, *options)[0] == 0
    data = json.loads(out.read_text())
    assert data["fields_of_chip"] == "h200 (cores.count=100)"
    assert {own["edit"] for own in data["fields"]} == {"cores.count=50", "cores.count=200"}
    assert data["fields_base_ps"] == data["step"]["after_ps"]


def test_the_machine_runs_both_chips(capsys, tmp_path, tiny) -> None:
    out = tmp_path / "a.json"
    options = ("--fidelity", "cycle", "--set", "launch.graph_gap=3us", "--json", out)
    code, text, _ = run(capsys, "whatif", *tiny, *options)
    assert code == 0
    assert "at fidelity cycle" in text
    assert json.loads(out.read_text())["step"]["change_ps"] > 0


def test_an_interrupt_leaves_the_fields_so_far(capsys, tmp_path, tiny, monkeypatch) -> None:
    real = fields.step_parts
    calls = []

    def interrupted(result):
        calls.append(result)
        if len(calls) > 3:  # the step itself and two fields before
            raise KeyboardInterrupt
        return real(result)

    monkeypatch.setattr(fields, "step_parts", interrupted)
    out = tmp_path / "a.json"
    options = ("--fields", "cores.count,cores.clock", "--json", out)
    code, text, err = run(capsys, "whatif", *tiny, *options)
    assert code == 130
    assert "cores.count=66" in text
    assert "interrupted after 2 of 4 changes" in err
    assert not out.exists()


def test_a_file_may_be_given(capsys, tmp_path, tiny) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text((Path(chip.__file__).parent / "chips" / "h200.yaml").read_text())
    options = [*tiny, "--chip", str(own), "--set", "cores.count=66"]
    code, text, _ = run(capsys, "whatif", *options)
    assert code == 0
    assert "h200 (mine.yaml, cores.count=66)" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "nothing is changed: give edits of the chip"),
        (("--set", "cores.cnt=4"), "near it are cores.count"),
        (("--set", "cores.count"), "no value is given"),
        (("--fields", "cores.cnt"), "near it are cores.count"),
        (("--set", "cores.count=9", "--fidelity", "cycel"), "did you mean 'cycle'"),
        (("--set", "memory.capacity=1MiB"), "does not fit"),
    ],
)
def test_faults_are_one_sentence(capsys, tiny, options, words) -> None:
    code, out, err = run(capsys, "whatif", *tiny, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("error:") == 1
