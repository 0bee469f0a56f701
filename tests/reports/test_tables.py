"""Frames and files hold the records exactly."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from reports import tables
from reports.breakdown import SUMMED_FIELDS
from reports.table import Column, Table, to_frame, write_parquet
from simulator.cost.result import StepResult
from tests.reports.factory import make_kernel, make_result, make_step


@pytest.fixture(scope="module")
def result() -> StepResult:
    return make_step()


def test_a_row_a_launch_in_whole_numbers(result: StepResult) -> None:
    frame = tables.kernel_frame(result)
    assert list(frame["path"]) == [kernel.path for kernel in result.kernels]
    whole = [name for name in frame if name.endswith(("_ps", "_bytes", "_ops", "stream"))]
    whole += [name for name in frame if name.startswith("flops_")]
    assert len(whole) >= 20
    assert {str(frame[name].dtype) for name in whole} == {"int64"}
    for name in ("start_ps", "end_ps", "duration_ps", *SUMMED_FIELDS):
        assert frame[name].tolist() == [getattr(kernel, name) for kernel in result.kernels]
    for name in ("bf16", "fp8", "fp32"):
        counted = [kernel.flops.get(name, 0) for kernel in result.kernels]
        assert frame[f"flops_{name}"].tolist() == counted
    assert frame["nodes"][0] == ";".join(result.kernels[0].nodes)


def test_sums_by_stream_are_those_of_the_records(result: StepResult) -> None:
    by_stream = tables.kernel_frame(result).groupby("stream")["duration_ps"].sum()
    assert set(by_stream.index) == {0, 1, 2}
    for stream, duration_ps in by_stream.items():
        assert duration_ps == sum(k.duration_ps for k in result.kernels if k.stream == stream)


@pytest.mark.parametrize("table", ["operation_frame", "layer_kind_frame", "totals_frame"])
def test_grouped_tables_conserve_totals(result: StepResult, table: str) -> None:
    frame = getattr(tables, table)(result)
    launches = tables.kernel_frame(result)
    assert frame["critical_ps"].sum() == result.total_ps
    assert frame["critical_share"].sum() == pytest.approx(1)
    assert frame["launches"].sum() == len(result.kernels)
    for name in ("duration_ps", "flops_fp8", *SUMMED_FIELDS):
        assert frame[name].dtype == np.int64
        assert frame[name].sum() == launches[name].sum()


def test_numbers_beyond_a_float_survive(tmp_path: Path) -> None:
    odd = 2**53 + 1
    result = make_result(make_kernel("a", odd, odd + 2, dram_read_bytes=2**62 + 1))
    assert tables.kernel_frame(result)["start_ps"][0] == odd
    tables.write_parquet(tmp_path / "a.parquet", tables.kernel_table(result))
    tables.write_csv(tmp_path / "a.csv", tables.kernel_table(result))
    for frame in (pd.read_parquet(tmp_path / "a.parquet"), pd.read_csv(tmp_path / "a.csv")):
        assert frame["start_ps"][0] == odd
        assert frame["dram_read_bytes"][0] == 2**62 + 1


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    wide = Table(columns=(Column(name="n", type="int64", values=[2**63]),))
    broken = Table(columns=(Column(name="n", type="int64", values=[0.5]),))
    with pytest.raises(OverflowError):
        to_frame(wide)
    with pytest.raises(OverflowError):
        write_parquet(tmp_path / "a.parquet", wide)
    with pytest.raises(TypeError):
        write_parquet(tmp_path / "a.parquet", broken)
    with pytest.raises(TypeError):
        to_frame(broken)
    assert list(tmp_path.iterdir()) == []


def test_parquet_round_trip_is_exact(result: StepResult, tmp_path: Path) -> None:
    path = tmp_path / "launches.parquet"
    tables.write_parquet(path, tables.kernel_table(result))
    pd.testing.assert_frame_equal(
        pd.read_parquet(path), tables.kernel_frame(result), check_dtype=True
    )


def test_parquet_names_question_and_units(result: StepResult, tmp_path: Path) -> None:
    path = tmp_path / "launches.parquet"
    tables.write_parquet(path, tables.kernel_table(result))
    schema = pq.read_schema(path)
    question = json.loads(schema.metadata[b"v4sim.question"])
    assert (question["model"], question["context_tokens"]) == ("V4-Flash", 131_072)
    units = json.loads(schema.metadata[b"v4sim.units"])
    assert units["start_ps"] == "ps"
    assert units["link_bytes"] == "B"
    assert units["flops_fp8"] == "FLOP"
    assert schema.field("busy_memory_ps").metadata[b"unit"] == b"ps"


def test_csv_holds_every_launch(result: StepResult, tmp_path: Path) -> None:
    tables.write_csv(tmp_path / "a.csv", tables.kernel_table(result))
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.kernels)
    assert [int(row["end_ps"]) for row in rows] == [k.end_ps for k in result.kernels]


def test_names_with_commas_and_quotes_survive(tmp_path: Path) -> None:
    result = make_result(make_kernel('a,"b"\n×', 0, 5))
    tables.write_csv(tmp_path / "a.csv", tables.kernel_table(result))
    tables.write_parquet(tmp_path / "a.parquet", tables.kernel_table(result))
    assert pd.read_csv(tmp_path / "a.csv")["name"][0] == 'a,"b"\n×'
    assert pd.read_parquet(tmp_path / "a.parquet")["name"][0] == 'a,"b"\n×'


def test_a_step_without_launches_keeps_its_columns(tmp_path: Path) -> None:
    result = make_result(total_ps=5)
    tables.write_parquet(tmp_path / "a.parquet", tables.kernel_table(result))
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert len(frame) == 0
    assert frame["start_ps"].dtype == np.int64
    assert tables.totals_frame(result)["critical_ps"].tolist() == [5]


def test_frames_carry_units(result: StepResult) -> None:
    assert tables.operation_frame(result).attrs["units"]["duration_ps"] == "ps"
