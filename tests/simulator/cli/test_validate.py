"""`v4sim validate` on tiny made-up tables, and every bad input of it and of `calibrate`."""

import json

import numpy as np
import pandas as pd
import pytest

from hwmodels.chip import find_chip
from simulator.cli.main import main
from simulator.kernels.constants_file import constants_for
from simulator.kernels.nccl import FAMILIES

HEADER = "chip,engine,op,kernel_source,nccl_dtype,num_gpus,op_name,message_size,latency_us"
SIZES = [512 * 4**power for power in range(10)]


def predicted_us(chip, size, ranks):
    calls = {
        "ranks": np.array([float(ranks)]),
        "operation": np.array(["all_gather"]),
        "message_bytes": np.array([2.0 * size]),
        "floating": np.array([1.0]),
    }
    spec = find_chip(chip)
    values = constants_for("nccl_ring", spec).values
    return FAMILIES["nccl_ring"].parts(calls, spec, values).total[0] * 1e6


def row(chip="h200", size=512, ranks=8, factor=1.0, engine="nccl-2.29.2", operation="all_gather"):
    time = predicted_us(chip, size, ranks) * factor
    return f"{chip},{engine},nccl,NCCL,half,{ranks},{operation},{size},{time:.12g}"


def table(folder, *rows, name="collective.csv", header=HEADER):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


def validated(capsys, folder, *options):
    out = folder / "result.json"
    code, text, _ = run(capsys, "validate", folder, "--json", out, *options)
    assert code == 0
    return json.loads(out.read_text()), text


def test_exact_rows_have_no_error_and_are_held(capsys, tmp_path):
    table(tmp_path, *(row(size=s) for s in SIZES))
    data, text = validated(capsys, tmp_path)
    assert data["all"]["n"] == 10
    assert data["all"]["median_abs_error"] == pytest.approx(0, abs=1e-9)
    assert data["all"]["coverage"] == 1
    assert data["not_covered"] == []
    assert "Rows that no kernel family covers: 0" in text


def test_groups_are_by_file_operation_engine_and_chip(capsys, tmp_path):
    table(tmp_path, row("h200", factor=1 / 1.1), row("b200", factor=1 / 0.9))
    data, text = validated(capsys, tmp_path)
    assert [(g["chip"], g["n"]) for g in data["groups"]] == [("b200", 1), ("h200", 1)]
    by_chip = {g["chip"]: g for g in data["groups"]}
    assert by_chip["h200"]["median_abs_error"] == pytest.approx(0.1)
    assert by_chip["h200"]["bias_log"] == pytest.approx(np.log(1.1))
    assert by_chip["b200"]["mean_abs_error"] == pytest.approx(0.1)
    assert "collective.csv, nccl, nccl-2.29.2, h200" in text


def test_the_ten_worst_rows_come_with_line_and_cause(capsys, tmp_path):
    table(tmp_path, *(row(size=s, factor=1 + i / 10) for i, s in enumerate(SIZES + SIZES[:2])))
    data, text = validated(capsys, tmp_path)
    assert len(data["worst"]) == 10
    worst = data["worst"][0]
    assert worst["line"] == 13
    assert worst["predicted_us"] < worst["measured_us"]
    assert worst["cause"] in ("launch", "serial")
    assert f"mostly {worst['cause']} (nccl_ring)" in text


def test_rows_that_no_family_covers_are_counted_by_kind(capsys, tmp_path):
    table(tmp_path, row(), row(operation="broadcast"), row(operation="broadcast"))
    data, text = validated(capsys, tmp_path)
    assert data["all"]["n"] == 1
    assert [kind["n"] for kind in data["not_covered"]] == [2]
    assert "Rows that no kernel family covers: 2" in text


def test_a_table_of_uncovered_rows_only_is_no_error(capsys, tmp_path):
    table(tmp_path, row(operation="broadcast"))
    data, _ = validated(capsys, tmp_path)
    assert data["all"] is None
    assert data["not_covered"][0]["n"] == 1


def test_an_error_below_a_microsecond_is_none_on_the_timer_ladder(capsys, tmp_path):
    header = "chip,engine,op,num_sites,hc_mult,hidden_size,num_tokens,latency_us"
    times = {}
    for chip, engine in (("b200", "vllm-0.24.0"), ("b200", "sglang-0.5.14"), ("h200", "vllm-1")):
        table(tmp_path, f"{chip},{engine},mhc_post,2,4,4096,1,8.0", name="a.csv", header=header)
        data, _ = validated(capsys, tmp_path)
        worst = data["worst"][0]
        off = 0.7 if worst["predicted_us"] > 8 else -0.7
        near = worst["predicted_us"] - off
        table(tmp_path, f"{chip},{engine},mhc_post,2,4,4096,1,{near}", name="a.csv", header=header)
        data, _ = validated(capsys, tmp_path)
        times[chip, engine] = data["all"]["median_abs_error"]
    assert times.pop(("b200", "vllm-0.24.0")) == 0
    assert all(error > 0.01 for error in times.values())


def test_a_chip_without_calibration_says_so(capsys, tmp_path):
    table(tmp_path, row("mi300x", factor=2), row("h100"))
    data, text = validated(capsys, tmp_path)
    assert "mi300x: no measurement of such cores (cdna3), constants of h200" in text
    assert "h100: same cores as h200, 4 guessed facts, not fitted on h100" in text
    assert [family["constants_of"] for family in data["families"]] == ["hopper", "hopper"]


def test_one_file_may_be_given(capsys, tmp_path):
    path = table(tmp_path, row())
    code, text, _ = run(capsys, "validate", path)
    assert code == 0
    assert "all rows" in text


def test_keys_of_the_json_are_stable(capsys, tmp_path):
    table(tmp_path, row())
    data, _ = validated(capsys, tmp_path)
    assert set(data) == {
        "cross_validated",
        "fidelity",
        "sample_rows_a_file",
        "seed",
        "not_run",
        "npu",
        "all",
        "groups",
        "families",
        "files",
        "worst",
        "not_covered",
        "too_few",
        "skipped",
        "dram",
    }
    figures = {
        "n",
        "median_abs_error",
        "mean_abs_error",
        "p90_abs_error",
        "bias_log",
        "coverage",
        "median_width",
    }
    assert set(data["groups"][0]) == figures | {"file", "op", "engine", "chip"}


def test_cross_validation_predicts_rows_that_it_did_not_see(capsys, tmp_path):
    table(tmp_path, *(row(size=s, ranks=n) for s in SIZES for n in (2, 4, 8)))
    data, _ = validated(capsys, tmp_path, "--cv")
    assert data["cross_validated"] is True
    assert data["all"]["n"] == 30
    assert data["all"]["median_abs_error"] < 0.03
    assert data["worst"][0]["file"] == "collective.csv"


def test_cross_validation_of_too_few_rows_says_how_many_it_left_out(capsys, tmp_path):
    table(tmp_path, row(), row(size=2048))
    data, text = validated(capsys, tmp_path, "--cv")
    assert data["all"] is None
    assert data["too_few"] == [{"family": "nccl_ring", "architecture": "hopper", "n": 2}]
    assert "fewer than 10 rows" in text


@pytest.mark.parametrize(
    ("header", "line", "words"),
    [
        (HEADER.replace("latency_us", "time"), None, "column 'latency_us' is missing"),
        (HEADER.replace("num_gpus", "gpus"), None, "column 'num_gpus' is missing"),
        (HEADER, "h200,nccl-2.29.2,nccl,NCCL,half,eight,all_gather,512,9.0", "'eight'"),
        (HEADER, "h200,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512,fast", "'fast'"),
        (HEADER, "h200,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512,-1", "above 0"),
        (HEADER, "h200,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512", "8 values, expected 9"),
        (HEADER, "h200,vlm-0.24,nccl,NCCL,half,8,all_gather,512,9", "did you mean 'vllm'"),
        (HEADER, "h201,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512,9", "unknown chip 'h201'"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "calibrate"])
def test_a_bad_table_is_one_sentence_with_file_and_line(
    capsys, tmp_path, command, header, line, words
):
    path = table(tmp_path, line or row(), header=header)
    options = ["--out", tmp_path / "out.yaml"] if command == "calibrate" else []
    message = refused(capsys, command, tmp_path, *options)
    assert message.startswith(f"{path}:")
    assert words in message


def test_a_folder_without_tables_and_a_missing_one(capsys, tmp_path):
    assert "no .csv file" in refused(capsys, "validate", tmp_path)
    assert "no such folder" in refused(capsys, "validate", tmp_path / "none")
    table(tmp_path)
    assert "no row" in refused(capsys, "validate", tmp_path)
    (tmp_path / "collective.csv").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refused(capsys, "validate", tmp_path)


def test_an_empty_file_lacks_its_columns(capsys, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    assert "column 'chip' is missing" in refused(capsys, "validate", tmp_path)


def test_a_row_that_cannot_be_read_is_skipped_and_said(capsys, tmp_path):
    bad = "h200,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512,fast"
    far = "h200,nccl-2.29.2,nccl,NCCL,half,8,all_gather,1e300,9"
    other = "h299,nccl-2.29.2,nccl,NCCL,half,8,all_gather,512,9"
    path = table(tmp_path, row(), bad, row(size=2048), far, other)
    out = tmp_path / "result.json"
    code, _, err = run(capsys, "validate", tmp_path, "--json", out)
    assert code == 0
    data = json.loads(out.read_text())
    assert data["all"]["n"] == 2
    assert [message.partition(": ")[0] for message in data["skipped"]] == [
        f"{path}:3",
        f"{path}:5",
        f"{path}:6",
    ]
    assert err.count("skipped: ") == 3
    assert "expected at most 1e+15" in data["skipped"][1]
    assert "unknown chip 'h299'" in data["skipped"][2]
    assert f"{path}:3" in refused(capsys, "validate", tmp_path, "--strict")


def test_lines_are_those_of_the_file_with_rows_skipped(capsys, tmp_path):
    table(tmp_path, row(), "h200,short", row(size=2048, factor=3.0))
    data, _ = validated(capsys, tmp_path)
    assert data["worst"][0]["line"] == 4


def test_rows_as_a_file_hold_interval_and_causes(capsys, tmp_path):
    table(tmp_path, *(row(size=s, factor=1.1) for s in SIZES))
    frames = []
    for name in ("rows.csv", "rows.parquet"):
        code, _, _ = run(capsys, "validate", tmp_path / "collective.csv", "--rows", tmp_path / name)
        assert code == 0
        read = pd.read_csv if name.endswith("csv") else pd.read_parquet
        frames.append(read(tmp_path / name))
    for frame in frames:
        assert len(frame) == 10
        assert (frame.p10_us <= frame.predicted_us).all()
        assert (frame.predicted_us <= frame.p90_us).all()
        causes = frame[[name for name in ("launch_us", "serial_us", "communication_us")]]
        assert causes.fillna(0).sum(axis=1).to_numpy() == pytest.approx(frame.predicted_us)
        assert frame.log_error.to_numpy() == pytest.approx(-np.log(1.1))
    assert "expected a name that ends in .csv or .parquet" in refused(
        capsys, "validate", tmp_path / "collective.csv", "--rows", tmp_path / "rows.txt"
    )


def test_rows_are_grouped_by_the_columns_asked_for(capsys, tmp_path):
    table(tmp_path, *(row(size=s, ranks=n) for s in SIZES for n in (2, 4)))
    data, text = validated(capsys, tmp_path, "--by", "num_gpus,cause")
    assert sum(group["n"] for group in data["by"]) == 20
    assert {group["num_gpus"] for group in data["by"]} == {"2", "4"}
    assert "num_gpus, cause" in text
    message = refused(capsys, "validate", tmp_path, "--by", "colour")
    assert "no such column" in message
    assert "num_gpus" in message


def test_slices_find_a_planted_bias_and_none_in_noise(capsys, tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.01, 400)
    sizes = [512 * 2**power for power in range(20)]
    rows = [(s, n) for s in sizes for n in (2, 4, 8) for _ in range(6)]
    table(
        tmp_path, *(row(size=s, ranks=n, factor=np.exp(noise[i])) for i, (s, n) in enumerate(rows))
    )
    data, _ = validated(capsys, tmp_path, "--slices")
    assert data["slices"] == []
    factors = [np.exp(noise[i]) * (1.3 if s >= 2**20 else 1.0) for i, (s, _) in enumerate(rows)]
    table(
        tmp_path, *(row(size=s, ranks=n, factor=f) for (s, n), f in zip(rows, factors, strict=True))
    )
    data, text = validated(capsys, tmp_path, "--slices")
    (found,) = [part for part in data["slices"] if part["bias"] < -0.2]
    assert found["conditions"] == [["message_size", ">=", 2.0**20]]
    assert found["bias"] == pytest.approx(-np.log(1.3), abs=0.02)
    assert "message_size >= 1048576.0" in text


def test_the_page_holds_every_table(capsys, tmp_path):
    table(tmp_path, *(row(size=s, engine="nccl-<b>") for s in SIZES))
    page = tmp_path / "page.html"
    code, text, _ = run(capsys, "validate", tmp_path, "--by", "num_gpus", "--page", page)
    assert code == 0
    html = page.read_text()
    assert "nccl-&lt;b&gt;" in html
    assert "nccl-<b>" not in html.partition("<script")[0]
    for title in ("By file", "By kernel family and chip", "By the columns asked for", "Worst rows"):
        assert title in html
    assert f"wrote {page}" in text
