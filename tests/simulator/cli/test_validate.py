"""`v4sim calibrate` and `v4sim validate` on tiny made-up tables, and every bad input."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.cli import calibrate as calibrate_module
from simulator.cli.main import main
from simulator.kernels.constants_file import FOLDER, constants_for, read_constants
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
    assert "not calibrated on mi300x: constants of hopper" in text
    assert "not calibrated on h100" not in text
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
        "all",
        "groups",
        "families",
        "files",
        "worst",
        "not_covered",
        "too_few",
        "dram",
    }
    figures = {
        "n",
        "median_abs_error",
        "mean_abs_error",
        "p90_abs_error",
        "bias_log",
        "coverage",
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
    options = ["--out", tmp_path / "out"] if command == "calibrate" else []
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


@pytest.mark.skipif(find_spec("scipy") is None, reason="fits need scipy")
def test_calibrate_recovers_constants_and_leaves_the_shipped_ones(capsys, tmp_path):
    table(tmp_path, *(row(size=s, ranks=n) for s in SIZES for n in (2, 4, 8)))
    before = (FOLDER / "nccl_ring.yaml").read_text()
    code, text, _ = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "constants")
    assert code == 0
    assert (FOLDER / "nccl_ring.yaml").read_text() == before
    found = read_constants("nccl_ring", tmp_path / "constants").architectures["hopper"]
    shipped = read_constants("nccl_ring").architectures["hopper"].constants
    assert found.rows == 30
    for name in ("start_us", "hop_us", "link_share"):
        assert found.constants[name] == pytest.approx(shipped[name], rel=0.1)
    assert "nccl_ring on hopper: 30 rows" in text
    assert "one dependent step from rank to rank" in text


def test_calibrate_names_the_families_without_rows_once(capsys, tmp_path):
    table(tmp_path, *(row(size=s, ranks=n) for s in SIZES for n in (2, 4, 8)))
    _, _, err = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "constants")
    (line,) = [line for line in err.splitlines() if "constants stay as they are" in line]
    assert "nccl_alltoall" in line
    assert "nccl_ring" not in line


def test_calibrate_without_enough_rows_writes_nothing(capsys, tmp_path):
    table(tmp_path, row())
    code, _, err = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "constants")
    assert code == 2
    assert "no kernel family covers enough" in err
    assert not (tmp_path / "constants").exists()


def test_missing_scipy_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate_module, "find_spec", lambda name: None)
    table(tmp_path, row())
    assert "v4sim[calibrate]" in refused(capsys, "calibrate", tmp_path)
    assert "v4sim[calibrate]" in refused(capsys, "validate", tmp_path, "--cv")


def test_interrupted_calibration_writes_nothing(capsys, tmp_path, monkeypatch):
    table(tmp_path, *(row(size=s, ranks=n) for s in SIZES for n in (2, 4, 8)))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.calibration.calibrate.cross_validate", interrupt)
    code, _, _ = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "constants")
    assert code == 130
    assert not (tmp_path / "constants").exists()
