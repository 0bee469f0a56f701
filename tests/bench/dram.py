"""DRAM model: bursts a second over the carried table, and the compiled loop against its twin."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tests.bench.line import Line

TABLE = Path(__file__).parents[1] / "validation" / "dram" / "dram_sim_results.csv"
LARGE_ROW = 300_000
MEGA = 1e6


def lines() -> list[Line]:
    """Rates of CPU time of one core; nothing where the model has no benchmark yet."""
    if find_spec("tests.hwmodels.dram.bench_dram") is None:
        return []
    from tests.hwmodels.dram.bench_dram import row_rates, twin_ratio

    rates = row_rates(TABLE)
    seconds = sum(bursts / rate for _, bursts, rate in rates)
    whole = sum(bursts for _, bursts, _ in rates) / seconds
    large = min((rate for _, bursts, rate in rates if bursts >= LARGE_ROW), default=None)
    compiled = "DRAM, compiled loop: "
    found = [Line(what=compiled + "whole table", value=whole / MEGA, unit="M bursts/s", least=3)]
    if large is not None:
        what = f"{compiled}slowest row of {LARGE_ROW:,} bursts or more"
        found.append(Line(what=what, value=large / MEGA, unit="M bursts/s", least=1.5))
    slowest = min(rate for *_, rate in rates)
    found.append(Line(what=f"{compiled}slowest row", value=slowest / MEGA, unit="M bursts/s"))
    ratio = twin_ratio()
    found.append(Line(what="DRAM, compiled loop over its Python twin", value=ratio, unit="x"))
    return found
