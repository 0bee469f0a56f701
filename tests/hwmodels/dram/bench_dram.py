"""How fast the DRAM model runs: `python tests/hwmodels/dram/bench_dram.py [table.csv]`.

Prints bursts a second of CPU time for each row of a table, their minimum and median, the whole
table's rate, and how much faster the compiled loop is than its plain-Python twin.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

from hwmodels.dram.mapping import DEFAULT_MAPPING, parse_mapping
from hwmodels.dram.parameters import ControllerSpec
from hwmodels.dram.preset import find_preset
from hwmodels.dram.simulation import run_chunks
from hwmodels.dram.sources import gather_chunks
from hwmodels.dram.table import predict_row, read_table
from tests.oracles.dram_twin import Twin

ROWS = Path(__file__).parent / "data" / "reference_rows.csv"
BIG_ROW_BURSTS = 250_000


def row_rates(path: Path) -> list[tuple[str, int, float]]:
    """Name, bursts and bursts a second of every row."""
    rows = read_table(path)
    predict_row(rows[0])  # compiles, or loads what was compiled
    rates = []
    for row in rows:
        begin = time.thread_time()
        bursts = predict_row(row).result.bursts
        seconds = time.thread_time() - begin
        name = f"{row.config} x{row.channels} {row.pattern} {row.chunk_bytes} B"
        rates.append((f"{name}, {row.outstanding_chunks} in flight", bursts, bursts / seconds))
    return rates


def twin_ratio(chunks_count: int = 2000) -> float:
    """Rate of the compiled loop over that of the twin, on a scattered read of 64 bytes."""
    preset = find_preset("hbm3_5200")
    spec = ControllerSpec(refresh="all-bank")
    capacity = preset.organisation.channel_bytes

    def seconds(count: int, compiled: bool) -> float:
        chunks = gather_chunks(count, 64, 64, capacity, 0.0, 7)
        begin = time.thread_time()
        if compiled:
            run_chunks(preset, chunks, outstanding=192, spec=spec)
        else:
            mapping = parse_mapping(DEFAULT_MAPPING, preset.organisation)
            Twin(preset, mapping, spec, 1, 256, True).run(chunks, 192, [0] * count)
        return time.thread_time() - begin

    return (seconds(chunks_count, False) / chunks_count) / (seconds(100_000, True) / 100_000)


def main() -> None:
    """Print the table."""
    rates = row_rates(Path(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
    for name, bursts, rate in rates:
        print(f"{name:60} {bursts:8} bursts {rate / 1e6:6.2f} M/s")
    each = [rate for *_, rate in rates]
    whole = sum(bursts for _, bursts, _ in rates) / sum(bursts / rate for _, bursts, rate in rates)
    big = [rate for _, bursts, rate in rates if bursts > BIG_ROW_BURSTS]
    print(f"rows: min {min(each) / 1e6:.2f}, median {median(each) / 1e6:.2f} M bursts/s")
    if big:
        print(f"rows above {BIG_ROW_BURSTS} bursts: min {min(big) / 1e6:.2f} M bursts/s")
    print(f"whole table: {whole / 1e6:.2f} M bursts/s")
    print(f"compiled over plain Python: {twin_ratio():.0f} x")


if __name__ == "__main__":
    main()
