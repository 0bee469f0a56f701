"""`v4sim prefix prove`: what it prints and writes, its exit code, one sentence for bad input."""

import json

import pytest

from simulator.cli.main import main
from simulator.prove.difference import Difference


def run(capsys, *arguments):
    code = main(["prefix", "prove", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "narrow.yaml"
    path.write_text("sliding_window: 8\ncompress_ratios: [0, 4, 128, 4]\n")
    return path


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim prefix prove" in out


def test_a_proof(capsys, model, tmp_path):
    path, folder = tmp_path / "proof.json", tmp_path / "blocks"
    code, out, _ = run(
        capsys, "--model", model, "--policy", "full,zero:trimmed", "--cut", 293,
        "--folder", folder, "--json", path,
    )  # fmt: skip
    assert code == 0
    assert "2 of 2 resumed requests of exact policies are finite and equal" in out
    assert "one token fewer gives NaN, in 1 of 1 models" in out
    for figure in ("5,461", "5,462", "7,747", "7,748", "120,185", "240,218", "114,723", "232,470"):
        assert figure in out
    data = json.loads(path.read_text())
    assert data["holds"] is True
    (proof,) = data["models"]
    found = proof["smallest_exact_replay"]
    assert found["first_token"]["tokens"] == found["first_token"]["closed_form_tokens"] == 7 * 4
    assert found["whole_window"]["tokens"] == found["whole_window"]["closed_form_tokens"] == 29
    full, trimmed = proof["policies"]
    assert full["resumed"][0]["how"] == "restored"
    assert full["written_bytes"]["window"] == 384 * 4 * 16 * 8
    assert trimmed["written_bytes"]["window"] == 0
    assert trimmed["resumed"][0]["run_again_tokens"] == 29
    kept = {p["policy"]: p["file_bytes"] for p in proof["policies"]}
    for name, policy in (("full", "full"), ("zero-trimmed", "zero:trimmed")):
        files = (folder / "narrow" / name).glob("*.block")
        assert sum(file.stat().st_size for file in files) == kept[policy]


def test_same_seed_same_figures(capsys, model, tmp_path):
    def figures(seed, name):
        path = tmp_path / name
        run(
            capsys, "--model", model, "--policy", "bounded:8", "--cut", 200, "--seed", seed,
            "--json", path,
        )  # fmt: skip
        return json.loads(path.read_text())["models"][0]["bounded_replay"]

    assert figures(3, "a.json") == figures(3, "b.json") != figures(4, "c.json")


def test_a_policy_that_fails_is_exit_code_1(capsys, model, monkeypatch):
    monkeypatch.setattr(Difference, "equal", property(lambda self: self.largest < 0))
    code, out, _ = run(capsys, "--model", model, "--policy", "full", "--cut", 200)
    assert code == 1
    assert "0 of 1 resumed requests of exact policies" in out
    assert "in 0 of 1 models, not in narrow" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policy", "ful"), "unknown window policy 'ful': did you mean 'full'?"),
        (("--model", "v4-pro"), "a proof runs at most 20,000,000"),
        (("--model", "flash-lik-8"), "did you mean 'flash-like-8'"),
        (("--cut", "0"), "a prefix is cut after 1 token or more, but got 0"),
        (("--cut", "70000"), "takes 65,536 tokens, and this proof needs 70,098"),
        (("--policy", "bounded:3"), "3 tokens again, but the windows of flash-like-8 hold 8"),
        (("--seed", "-1"), "--seed"),
        (("--folder", "/dev/null/x"), "cannot keep blocks in /dev/null/x"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, sentence):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err


def test_a_prefix_shorter_than_a_page_is_computed_whole(capsys, model):
    """Nothing is hit and nothing restored, which is no failure."""
    code, out, _ = run(capsys, "--model", model, "--policy", "full,zero", "--cut", 127, "--cut", 1)
    assert code == 0
    assert "4 of 4 resumed requests of exact policies are finite and equal" in out
