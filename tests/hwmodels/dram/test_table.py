"""Tables of reference runs: rows met, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwmodels.dram.table import predict_row, read_table
from simulator.basis.errors import FileFormatError, InputError

ROWS = Path(__file__).parent / "data" / "reference_rows.csv"


def test_reference_rows() -> None:
    predictions = [predict_row(row) for row in read_table(ROWS)]
    errors = np.array([abs(p.useful_error) for p in predictions])
    single = np.array([p.row.channels == 1 for p in predictions])
    assert len(predictions) == 25
    assert errors[single].max() < 0.003
    assert np.median(errors) < 0.0001
    assert errors[~single].max() < 0.004
    assert max(abs(p.p50_error) for p in predictions) < 0.012
    assert np.median([abs(p.p50_error) for p in predictions]) < 0.0002


def write(tmp_path: Path, old: str, new: str) -> Path:
    lines = ROWS.read_text().splitlines()[2:4]
    text = "\n".join(lines)
    assert old in text
    path = tmp_path / "table.csv"
    path.write_text(text.replace(old, new) + "\n")
    return path


def test_missing_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "chunk_bytes,align_bytes", "chunk,align")
    with pytest.raises(FileFormatError, match=r"csv:1: missing columns chunk_bytes, align_bytes$"):
        read_table(path)


def test_word_for_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, ",64,stream,4096,4096,", ",64,stream,4k,4096,")
    with pytest.raises(
        FileFormatError, match=r"csv:2: column 'chunk_bytes' is '4k', expected a whole number"
    ):
        read_table(path)


def test_zero_channels(tmp_path: Path) -> None:
    path = write(tmp_path, "hbm3_5200_ab,1,", "hbm3_5200_ab,0,")
    with pytest.raises(FileFormatError, match="'channels' is '0', expected at least 1"):
        read_table(path)


def test_unknown_config(tmp_path: Path) -> None:
    path = write(tmp_path, "hbm3_5200_ab", "hbm3_5600_ab")
    with pytest.raises(
        FileFormatError, match=r"csv:2: unknown config 'hbm3_5600_ab'.*hbm2_2400_ab.*hbm4_8000_pb"
    ):
        read_table(path)


def test_unknown_pattern(tmp_path: Path) -> None:
    path = write(tmp_path, ",stream,", ",strided,")
    with pytest.raises(
        FileFormatError, match=r"unknown pattern 'strided': .*known are stream, rand"
    ):
        read_table(path)


def test_empty_and_absent(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("# nothing\n")
    with pytest.raises(FileFormatError, match="the file is empty"):
        read_table(path)
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "absent.csv")
