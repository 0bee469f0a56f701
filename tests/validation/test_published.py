"""Published figures: the carried rows, the loader's refusals, and predictions by hand."""

import json
from collections import Counter

import pytest

from hwmodels.chip import find_chip
from simulator.basis.errors import FileFormatError
from simulator.calibration.published import (
    PATH,
    CollectiveCall,
    CoreCall,
    GemmCall,
    compared,
    read_published,
)
from simulator.cli.main import main

ROWS = read_published().rows
COMPARED = [found for row in ROWS for found in compared(row)]
GEMM = {"family": "gemm_fp8_deepgemm", "chip": "h800", "m": 4096, "n": 7168, "k": 2048}
RING = {"family": "nccl_ring", "chip": "h200", "ranks": 8}


def test_all_rows_are_carried_and_each_is_compared_or_has_its_reason():
    assert len(ROWS) == 89
    assert sum(bool(row.calls) for row in ROWS) == 33
    assert sum(row.not_covered is not None for row in ROWS) == 56


def test_dense_and_grouped_gemms_of_h800_are_close():
    errors = [abs(f.time_difference) for f in COMPARED if f.call.chip == "h800" and f.row.gemm]
    assert len(errors) == 16
    assert sorted(errors)[len(errors) // 2] < 0.08
    assert max(errors) < 0.3


def test_the_time_of_a_rate_and_of_a_time_differ_by_the_same_sign():
    rate = next(f for f in COMPARED if f.row.unit == "TFLOPS")
    time = next(f for f in COMPARED if f.row.unit == "us")
    assert (rate.time_difference > 0) == (rate.predicted < rate.row.value)
    assert (time.time_difference > 0) == (time.predicted > time.row.value)
    for found in (rate, time):
        assert found.low < found.predicted < found.high
        assert found.holds == (found.low <= found.row.value <= found.high)


def test_a_group_of_gemms_is_one_as_wide():
    wide = GemmCall(**{**GEMM, "n": 4 * 7168})
    groups = GemmCall(**GEMM, groups=4)
    assert groups.seconds() == wide.seconds()
    assert groups.work == wide.work == 2 * 4096 * 4 * 7168 * 2048


def test_a_kernel_alone_has_no_gap_before_it():
    alone = GemmCall(**GEMM, kernel_only=True)
    gap = GemmCall(**GEMM).seconds() - alone.seconds()
    assert gap == pytest.approx(find_chip("h800").launch_gap_s)


def test_bus_bandwidth_counts_what_a_ring_sends():
    size = 2**30
    assert CollectiveCall(**RING, operation="all_reduce", bytes=size).work == size * 2 * 7 / 8
    assert CollectiveCall(**RING, operation="all_gather", bytes=size).work == size * 7 / 8


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_many_queries_run_at_the_rate_of_a_key(phase):
    few = CoreCall(chip="h800", phase=phase, queries=13200, heads=64, keys=2**14)
    more = few.model_copy(update={"queries": 26400})
    assert more.seconds() == pytest.approx(2 * few.seconds(), rel=0.02)
    wider = few.model_copy(update={"heads": 128})
    # Wider heads share the keys that they read, which may be what fewer heads wait for.
    assert 1.5 * few.seconds() < wider.seconds() < 2.04 * few.seconds()
    assert few.work / few.seconds() < find_chip("h800").matrix_flops_per_s("bf16")


def edited(tmp_path, old, new):
    text = PATH.read_text()
    assert text.count(old) >= 1
    path = tmp_path / "published.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("not_covered: dense_attention\n", "shape_: x\n", "shape_"),
        ("    not_covered: dense_attention\n", "", "exactly one of gemm, core"),
        ("not_covered: copy", "not_covered: copies", "'copies' is not listed"),
        ("source: deepgemm-pr74", "source: deepgemm-pr75", "'deepgemm-pr75' is not listed"),
        ("  no_chip: ", "  nothing: x\n  no_chip: ", "'nothing' is used by no row"),
        ("value: 289.0", "value: -289.0", "expected more than 0"),
        ("value: 289.0", "value: much", "value"),
        ("chip: h800, m: 64", "chip: h801, m: 64", "unknown chip 'h801'"),
        ("family: gemm_bf16", "family: gemm_bf17", "gemm_bf1"),
        ('value: 46.5\n    unit: "TFLOPS"', 'value: 46.5\n    unit: "TB/s"', "'TB/s' is not pred"),
        ("seen: excerpt", "seen: heard", "seen"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, old, new, words):
    path = edited(tmp_path, old, new)
    with pytest.raises(FileFormatError) as raised:
        read_published(path)
    assert raised.value.message.startswith(f"{path}:")
    assert words in raised.value.message


def test_the_command_prints_every_row_or_its_reason(capsys, tmp_path):
    out = tmp_path / "published.json"
    assert main(["validate", "--published", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    data = json.loads(out.read_text())
    assert len(data["compared"]) == len(COMPARED)
    kernels = Counter(found.row.kernel for found in COMPARED)
    assert Counter(line["kernel"] for line in data["compared"]) == kernels
    assert sum(line["n"] for line in data["not_covered"]) == 56
    assert "Published figures that no kernel family covers: 56 of 89" in text
    for line in data["not_covered"]:
        assert line["reason"] in text


@pytest.mark.parametrize("also", [["folder"], ["--cv"]])
def test_published_rows_come_alone(capsys, also):
    assert main(["validate", "--published", *also]) == 2
    assert "--published has its own rows" in capsys.readouterr().err


def test_nothing_to_validate_says_what_to_give(capsys):
    assert main(["validate"]) == 2
    assert "give a folder of tables, or --published" in capsys.readouterr().err
