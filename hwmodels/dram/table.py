"""Tables of DRAM simulator runs: reading them, and predicting each row the way it was measured.

A row names a configuration (`hbm3_5200_ab`: preset and refresh), a pattern and what came out. The
prediction uses the reference's own random numbers, hashes and measurement window.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwmodels.dram.parameters import ControllerSpec, Refresh
from hwmodels.dram.preset import find_preset, list_presets
from hwmodels.dram.result import DramResult
from hwmodels.dram.simulation import run_chunks
from hwmodels.dram.sources import gather_chunks, stream_chunks
from simulator.basis.errors import FileFormatError, unknown_name
from simulator.basis.yaml_nodes import read_text

REFERENCE_SEED = 7
_SUFFIXES: dict[str, Refresh] = {"_ab": "all-bank", "_none": "none", "_pb": "per-bank"}
_WHOLE = (
    "channels", "queue_entries", "chunk_bytes", "align_bytes", "chan_interleave_bytes",
    "outstanding_chunks", "n_chunks",
)  # fmt: skip
_REAL = ("write_frac", "frac_peak_useful", "lat_p50_ns")
_TEXT = ("config", "map_lsb_first", "pattern")
_PATTERNS = ("stream", "rand")


@dataclass(frozen=True)
class TableRow:
    """One run of a reference simulator: what was asked, and what it measured."""

    line: int
    config: str
    map_lsb_first: str
    pattern: str
    channels: int
    queue_entries: int
    chunk_bytes: int
    align_bytes: int
    chan_interleave_bytes: int
    outstanding_chunks: int
    n_chunks: int
    write_frac: float
    frac_peak_useful: float
    lat_p50_ns: float


@dataclass(frozen=True)
class RowPrediction:
    """A row and what the model says of it."""

    row: TableRow
    result: DramResult

    @property
    def useful_error(self) -> float:
        """Predicted less measured useful bandwidth, as a share of the peak."""
        return self.result.useful_fraction - self.row.frac_peak_useful

    @property
    def p50_error(self) -> float:
        """Predicted over measured median latency, less one."""
        return self.result.latency_p50_ns / self.row.lat_p50_ns - 1


def known_configs() -> list[str]:
    """Names that a table's `config` column may hold."""
    return [name + suffix for name in list_presets() for suffix in _SUFFIXES]


def read_table(path: str | Path) -> list[TableRow]:
    """Rows of a CSV; a missing column, a word for a number or an unknown name is an error."""
    path = Path(path)
    numbered = list(enumerate(read_text(path).splitlines(), start=1))
    lines = [(number, text) for number, text in numbered if text and not text.startswith("#")]
    if not lines:
        raise FileFormatError(f"{path}:1: the file is empty, expected a header and rows")
    reader = csv.DictReader(text for _, text in lines)
    missing = [c for c in (*_TEXT, *_WHOLE, *_REAL) if c not in (reader.fieldnames or ())]
    if missing:
        word = "columns" if len(missing) > 1 else "column"
        raise FileFormatError(f"{path}:{lines[0][0]}: missing {word} {', '.join(missing)}")
    return [_row(path, lines[i][0], record) for i, record in enumerate(reader, start=1)]


def _row(path: Path, line: int, record: dict[str, Any]) -> TableRow:
    values: dict[str, Any] = {name: (record[name] or "").strip() for name in _TEXT}
    for name in (*_WHOLE, *_REAL):
        text = record[name]
        try:
            values[name] = int(text) if name in _WHOLE else float(text)
        except (TypeError, ValueError):
            kind = "a whole number" if name in _WHOLE else "a number"
            raise FileFormatError(
                f"{path}:{line}: column {name!r} is {text!r}, expected {kind}"
            ) from None
        least = 1 if name in _WHOLE else 0
        if not values[name] >= least:
            raise FileFormatError(
                f"{path}:{line}: column {name!r} is {text!r}, expected at least {least}"
            )
    if values["config"] not in known_configs():
        sentence = unknown_name("config", values["config"], known_configs())
        raise FileFormatError(f"{path}:{line}: {sentence}")
    if values["pattern"] not in _PATTERNS:
        sentence = unknown_name("pattern", values["pattern"], _PATTERNS)
        raise FileFormatError(f"{path}:{line}: {sentence}")
    return TableRow(line=line, **values)


def predict_row(row: TableRow) -> RowPrediction:
    """Run a row's pattern with the reference's random numbers, hashes and window."""
    suffix = next(s for s in _SUFFIXES if row.config.endswith(s))
    preset = find_preset(row.config.removesuffix(suffix))
    capacity = preset.organisation.channel_bytes * row.channels
    scattered = row.pattern == "rand"
    if scattered:
        chunks = gather_chunks(
            row.n_chunks, row.chunk_bytes, row.align_bytes, capacity, row.write_frac, REFERENCE_SEED
        )
    else:
        chunks = stream_chunks(
            row.n_chunks, row.chunk_bytes, capacity, row.write_frac, REFERENCE_SEED
        )
    result = run_chunks(
        preset,
        chunks,
        channels=row.channels,
        mapping=row.map_lsb_first,
        interleave_bytes=row.chan_interleave_bytes,
        hashed=scattered,
        outstanding=row.outstanding_chunks,
        spec=ControllerSpec(row.queue_entries, row.queue_entries, refresh=_SUFFIXES[suffix]),
        warm_up=row.n_chunks // 5,
    )
    return RowPrediction(row, result)
