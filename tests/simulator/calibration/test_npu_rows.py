"""Tables of Ascend machines: told apart by header, asked of their own step, or said why not."""

import math
from pathlib import Path

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.basis.errors import FileFormatError
from simulator.calibration.npu_fit import PHYSICS, layers_of
from simulator.calibration.npu_rows import COLUMNS, predict_npu_row, read_npu_rows
from simulator.calibration.tables_in_folder import read_folder
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.kernels.constants_file import constants_for
from simulator.kernels.unit_rates import ASCEND

MADE_UP = {
    "chip": "Ascend 950DT", "n_chips": "16", "software": "own", "model": "DeepSeek-V4-Flash",
    "precision": "Hybrid MXFP8-MXFP4", "parallel": "attention DP, MoE EP", "phase": "decode",
    "batch": "16", "context": "8192", "new_tokens": "", "metric": "TPOT", "value": "5.0",
    "unit": "ms", "source": "made up", "date": "", "note": "MTP1, 0.7 drafts accepted a step",
}  # fmt: skip


def table(tmp_path: Path, *changes: dict[str, str]) -> Path:
    lines = [",".join(MADE_UP)]
    lines += [
        ",".join(f'"{text}"' for text in {**MADE_UP, **change}.values()) for change in changes
    ]
    path = tmp_path / "npu.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_is_told_apart_by_its_header(tmp_path: Path) -> None:
    found = read_folder(table(tmp_path, {}))
    assert len(found.npu) == 1
    assert not found.measured
    assert not found.dram


def test_a_row_is_the_step_that_a_user_asks_for(tmp_path: Path) -> None:
    rate = {"metric": "output throughput per chip", "unit": "tok/s/chip"}
    rows = read_npu_rows(table(tmp_path, {}, rate))
    time, throughput = (predict_npu_row(row) for row in rows)
    asked = ask(
        model="v4-flash", chip="ascend-950dt", count=16, tp=1, dp=16, ep=16, batch=16,
        context=8192, draft_tokens=1, expert_dtype="fp4", kv_dtype="fp8", index_dtype="fp8",
    )  # fmt: skip
    step_ms = cost_step(asked, must_fit=False).total_ps * 1e-9
    assert time.predicted == pytest.approx(step_ms / 1.7)
    assert throughput.predicted == pytest.approx(1.7e3 / step_ms)
    assert time.low is not None
    assert time.high is not None
    assert time.low < step_ms / 1.7 < time.high < 4.001 * time.low


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chip": "Ascend (device not stated)"}, "not named"),
        ({"metric": "TPOT upper bound"}, "a limit"),
        ({"model": "DeepSeek-R1"}, "no graph"),
        ({"software": "pypto-lib"}, "no profile"),
        ({"phase": "serving", "metric": "TPOT mean"}, "prompts interrupt"),
    ],
)
def test_what_cannot_be_asked_says_why(tmp_path: Path, change: dict[str, str], words: str) -> None:
    (row,) = read_npu_rows(table(tmp_path, change))
    found = predict_npu_row(row)
    assert found.predicted is None
    assert words in found.reason


@pytest.mark.parametrize("value", ["", "x", "-1", "nan"])
def test_a_value_that_is_no_time_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(FileFormatError, match="expected a number greater than 0"):
        read_npu_rows(table(tmp_path, {"value": value}))
    assert "value" in COLUMNS


def test_the_fit_prices_a_row_as_the_step_does(tmp_path: Path) -> None:
    """With the stored constants both give the same time, but for tiles chosen at the peaks."""
    (row,) = read_npu_rows(table(tmp_path, {}))
    chip = find_chip("ascend-950dt")
    stored = {name: dict(constants_for(name, chip).values) for name in ASCEND}
    found = predict_npu_row(row)
    assert found.predicted is not None
    assert layers_of(row).seconds(stored) * 1e3 == pytest.approx(found.predicted, rel=0.03)


@pytest.mark.parametrize("name", ASCEND)
def test_constants_are_of_both_cores_with_standard_errors(name: str) -> None:
    for chip in ("ascend-950dt", "ascend-a3-die", "ascend-910b3"):
        found = constants_for(name, find_chip(chip))
        assert found.architecture.startswith("ascend")
        assert set(found.fit.standard_errors) == set(found.values) == set(PHYSICS[name])


def test_parts_are_a_start_and_the_slowest_unit() -> None:
    family = ASCEND["ascend_matmul"]
    calls = {unit: np.array([1e-6]) for unit in ("cube", "vector", "memory", "link")}
    constants = {"start_us": 4.0, "cube": 0.5, "vector": 1.0, "memory": 0.8, "link": 1.0}
    seconds = family.parts(calls, find_chip("ascend-950dt"), constants).total
    assert math.isclose(float(seconds[0]), 4e-6 + 2e-6)
