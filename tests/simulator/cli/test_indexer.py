"""`v4sim indexer`: tables, JSON, page, a user's file, and one sentence for bad input."""

import json
import re

import numpy as np
import pytest

from simulator.cli.main import main

SMALL = ("--chip", "b200", "--context", 8192, "--entries", 1024)


def run(capsys, *arguments):
    code = main(["indexer", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim indexer" in out


def test_answer_tables_json_and_page(capsys, tmp_path):
    path, folder = tmp_path / "answer.json", tmp_path / "out"
    code, out, err = run(capsys, *SMALL, "--json", path, "--out", folder)
    assert code == 0, err
    text = " ".join(out.split())
    for words in (
        "FP4 index keys instead of FP8", "Cost of the index scan", "Accuracy of the picks",
        "Published figures, and ours", "synthetic", "No room at",
    ):  # fmt: skip
        assert words in text
    data = json.loads(path.read_text())
    assert data == json.loads((folder / "indexer.json").read_text())
    assert [row["key_bytes"] for row in data["costs"]] == [68, 132, 256]
    assert {row["distribution"] for row in data["accuracy"]} == set(data["distributions"])
    assert len(data["accuracy"]) == 3 * 8
    assert all(0 <= row["recall"] <= 1 for row in data["accuracy"])
    assert any("converts them inside the kernel" in line for line in data["assumptions"])
    page = (folder / "indexer.html").read_text()
    head = page.partition("<script")[0]
    assert "default-src 'none'" in head
    assert not re.findall(r'(?:src|href)="https?:', head)
    assert "Keys and queries are synthetic" in head
    figures = set(re.findall(r'class="figure" id="([\w-]+)"', head))
    assert figures == {
        "recall-0", "recall-1", "recall-2", "output-0", "output-1", "output-2", "latency", "share",
    }  # fmt: skip


def test_the_seed_decides_the_answer(capsys):
    first, again, other = (run(capsys, *SMALL, "--seed", seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_users_file_replaces_made_up_keys(capsys, tmp_path):
    rng = np.random.default_rng(1)
    shapes = {"q": (2, 64, 128), "k": (1500, 128), "w": (2, 64)}
    np.savez(tmp_path / "layer9.npz", **{n: rng.standard_normal(s) for n, s in shapes.items()})
    path = tmp_path / "answer.json"
    code, out, err = run(
        capsys, "--chip", "b200", "--context", 8192, "--npz", tmp_path / "layer9.npz",
        "--json", path, "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    assert "synthetic" not in out
    assert "the file's keys" in " ".join(out.split())
    data = json.loads(path.read_text())
    assert (data["synthetic"], data["queries"]) == (False, 2)
    assert {row["distribution"] for row in data["accuracy"]} == {"layer9"}
    assert {row["entries"] for row in data["accuracy"]} == {750, 1500}
    page = (tmp_path / "out" / "indexer.html").read_text().partition("<script")[0]
    assert "are synthetic" not in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--npz", "absent.npz"), "there is no file absent.npz"),
        (("--entries", 100), "413 too few"),
        (("--entries", 10**6), "too many"),
        (("--seed", -2), "--seed is -2"),
        (("--context", 2), "holds no index key"),
        (("--context", 2**21), "too many"),
        (("--chip", "h201"), "did you mean"),
        (("--model", "v5"), "v5"),
        (("--batch", 0), "batch must be at least 1"),
        (("--count", 3), "3"),
        (("--json", "absent/x.json"), "there is no folder absent"),
        (("--model", "v3.2"), "counted reference only"),
    ],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_entries_beside_a_file_are_refused(capsys, tmp_path):
    arrays = {"q": np.ones((1, 64, 128)), "k": np.ones((600, 128)), "w": np.ones((1, 64))}
    np.savez(tmp_path / "real.npz", **arrays)
    code, _, err = run(capsys, "--npz", tmp_path / "real.npz", "--entries", 1000)
    assert code == 2
    assert "brings its own 600" in err
