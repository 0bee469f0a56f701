"""Published serving figures: bands, arithmetic of differences, files and refusals."""

import json

import pytest

from simulator.basis.errors import FileFormatError
from simulator.claims.serving import COMPUTED, MEASURES, compare_row
from simulator.claims.serving_row import _PATH, ServingRow, serving_rows
from simulator.cli.main import main
from simulator.serve.scenario_file import open_scenario

ROWS, SOURCES = serving_rows()
TESTED = [row for row in ROWS if row.bands]


def test_the_figures_that_have_to_hold_have_a_band():
    assert {row.name for row in TESTED} == {
        "slowdown-pro",
        "slowdown-pro-plain",
        "slowdown-flash",
        "slowdown-flash-plain",
        "index-share-32k",
        "index-share-128k",
        "million-room-tp8",
        "million-room-dp8",
        "million-room-gain",
    }
    # A loss of about a tenth: between a twentieth and a seventh.
    for row in TESTED:
        if row.name.startswith("slowdown"):
            assert row.bands["decode_slowdown"] <= 4


@pytest.mark.parametrize("row", TESTED, ids=lambda row: row.name)
def test_a_figure_is_in_its_band(row):
    for found in compare_row(row):
        assert found.verdict == "held", (found.published, found.ours)


def test_index_keys_by_hand():
    # Flash at 128K, FP8 keys: 21 CSA layers score 32,768 keys of 132 B. They read 512 picks of
    # 584 B, 20 HCA layers 1,024 entries, and all 43 layers their window but for the query's row.
    keys = 21 * 32_768 * 132
    rows = 21 * 512 + 20 * 1024 + 43 * 127
    share = 100 * keys / (keys + rows * 584)
    assert COMPUTED["index-share-128k"]()["index_share"] == pytest.approx(share, abs=0.05)
    assert share == pytest.approx(81, abs=0.3)


def test_every_row_can_be_computed_or_served():
    for row in ROWS:
        assert set(row.published) <= set(MEASURES)
        assert (row.scenario is None) == (row.name in COMPUTED)
        if row.scenario is not None:
            assert row.scenario.name in (row.name, f"{row.name}-4k", "million-gain-tp8")


def changed(name, **published):
    row = next(row for row in ROWS if row.name == name)
    return row.model_copy(update={"published": published})


def test_differences_are_relative_and_shares_in_points():
    row = changed("index-share-32k", index_share=60.0)
    (found,) = compare_row(row)
    assert found.difference == pytest.approx(found.ours - 60)
    assert found.verdict == "off"
    assert found.is_explained
    row = changed("million-room-tp8", requests=10.0).model_copy(update={"bands": {}})
    (found,) = compare_row(row)
    assert found.difference == pytest.approx(found.ours / 10 - 1)
    assert found.verdict == ""
    assert found.is_explained


def test_served_figures_belong_to_one_run():
    found = {one.name: one.ours for one in compare_row(next(r for r in ROWS if r.name == ONE))}
    # One request after another: its tokens over its time, on four chips.
    seconds = found["ttft_s"] + 1023 * found["tpot_ms"] / 1000
    assert found["tokens_per_s_chip"] == pytest.approx(9216 / seconds / 4, rel=1e-6)


ONE = "h200-flash-c1"


def test_the_command_writes_scenarios_that_serve_takes(capsys, tmp_path):
    out, path = tmp_path / "out", tmp_path / "t.json"
    names = ["--only", ONE, "--only", "index-share-32k"]
    assert main(["claims", "--serving", *names, "--out", str(out), "--json", str(path)]) == 0
    text = capsys.readouterr().out
    records = json.loads(path.read_text())["serving"]
    assert [r["figure"] for r in records] == [
        "index_share",
        "ttft_s",
        "tpot_ms",
        "tokens_per_s_chip",
    ]
    assert "1 of 1 figures with a band are in it; 3 have none" in text
    assert "Why ours differs: 8,192 tokens take" in " ".join(text.split())
    (file,) = out.glob("*.yaml")
    row = next(row for row in ROWS if row.name == ONE)
    assert open_scenario(file) == row.scenario
    assert records[1]["scenarios"] == [row.scenario.model_dump(mode="json", exclude_none=True)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serving", "--only", "h200-flsh-c1"], "h200-flash-c1"),
        (["--only", ONE], "--only and --out go with --serving"),
        (["--out", "x"], "--only and --out go with --serving"),
    ],
)
def test_what_cannot_be_asked(capsys, arguments, words):
    assert main(["claims", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("source: lmsys", "source: lmsy", "source is 'lmsy'"),
        ("- name: slowdown-flash\n", "- name: slowdown-pro\n", "slowdown-pro is there twice"),
        ("bands: {decode_slowdown: 3.5}", "bands: {slowdown: 3.5}", "has a band, but no figure"),
        ("concurrency: 1}", "concurrency: 0}", "expected more than 0"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, old, new, words):
    text = _PATH.read_text()
    assert old in text
    path = tmp_path / "serving.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileFormatError) as raised:
        serving_rows(path)
    assert raised.value.message.startswith(f"{path}:")
    assert words in raised.value.message


def test_rows_name_known_sources():
    assert {row.source for row in ROWS} == set(SOURCES)
    assert all(isinstance(row, ServingRow) for row in ROWS)
