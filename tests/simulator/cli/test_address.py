"""`v4sim address`: text, JSON, the page, and one sentence for bad input."""

import json
import re

import pytest

from simulator.cli.main import main


def run(capsys, *arguments):
    code = main(["address", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim address" in out


def test_text_of_a_batch(capsys):
    code, out, _ = run(
        capsys, "--request", "300:4", "--request", "0:130", "--page-seed", 3,
        "--pool-page", "c128=512",
    )  # fmt: skip
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert any(line.startswith("packed row 3: request 0 in row 0, position 303") for line in lines)
    assert "reads  c128        entries 0-1 -> slots" in out
    assert "through c128 page table of row 0: slot = page x 4 + entry mod 4" in lines
    assert "reads  own rows    positions 300-303 of the step, from no pool" in lines
    assert re.search(r"indexer: 8 of 76 visible entries picked: \d", out)
    assert "not read: window: 288 positions beyond the window: 0-287" in lines
    assert "not read: c128: 1 entry not complete at this position: 2" in lines
    assert re.search(r"not read: c4: 68 entries visible, not in the top-k: ", out)


def test_json_and_page_hold_the_same(capsys, tmp_path):
    out, path = tmp_path / "out", tmp_path / "a.json"
    code, text, _ = run(
        capsys, "--model", "v4-flash", "--request", "300:4", "--layer", 2, "--row", 2,
        "--out", out, "--json", path,
    )  # fmt: skip
    assert code == 0
    data = json.loads(path.read_text())
    assert data == json.loads((out / "address.json").read_text())
    (row,) = data["rows"]
    (layer,) = row["layers"]
    assert (row["position"], layer["kind"]) == (302, "csa")
    index = next(a for a in layer["accesses"] if a["pool"] == "c4_index")
    assert index["runs"][0] == {"first": 0, "count": 64, "slot": 0, "place": 0, "page": 0}
    page = (out / "address.html").read_text()
    assert "default-src 'none'" in page
    assert page.count("<script") == 1  # the page's own
    assert page.count("<svg viewBox") == 5
    assert 'href="address.json"' in page
    assert f"wrote {out / 'address.html'}" in text


def test_a_long_answer_says_what_it_leaves_out(capsys):
    code, out, _ = run(capsys, "--model", "v4-pro", "--request", "99999:1", "--layer", 2)
    assert code == 0
    assert "and 386 more runs, 25,000 slots in all (--json)" in out
    assert "indexer: 1,024 of 25,000 visible entries; which ones depends on values" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "there is no request to address; give --request PAST:NEW"),
        (("--request", "300"), "request '300' is not PAST:NEW"),
        (("--request", "1:1", "--request", "2:1", "--slots", 1), "but there are 1 (1 short)"),
        (("--request", "9999:1"), "tiny allows 4,096 (5,904 too many)"),
        (("--request", "1:1", "--pool-page", "c128=64"), "it cannot hold one entry"),
        (("--request", "1:1", "--layer", 9), "layer 9 does not exist"),
        (("--request", "1:1", "--layer", -1), "-1"),
        (("--request", "1:1", "--row", 1), "packed row 1 does not exist"),
        (("--request", "1:1", "--values", "perhaps"), "perhaps"),
        (("--batch", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")


def test_two_page_sizes_of_one_pool_are_refused(capsys):
    options = ["--request", "300:4", "--pool-page", "c128=512", "--pool-page", "c128=1024"]
    code, out, err = run(capsys, *options)
    assert (code, out) == (2, "")
    assert "gives pool c128 pages of 512 tokens and of 1,024" in err
