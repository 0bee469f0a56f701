"""Runs of a decode step's reads, and what the bank model makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.measurement import measure
from hwmodels.chip import find_chip
from hwmodels.dram.chip_memory import chip_memory
from simulator.layout.gather_runs import (
    PoolRuns,
    bursts_touched,
    pool_runs,
    read_bytes,
    read_efficiency,
    run_efficiency,
)
from tests.simulator.layout.layout_cases import cut, mix_of


def runs_of(page: int, padding: str = "engine", mix: str = "131072:1", **of) -> dict[str, PoolRuns]:  # type: ignore[no-untyped-def]
    neighbours = of.pop("neighbours", 0.0)
    found = pool_runs(cut(page, padding, **of), mix_of(mix), find_chip("h200"), 512, neighbours)
    return {one.pool: one for one in found}


def test_runs_at_128k() -> None:
    found = runs_of(256)
    assert (found["c4_index"].runs, found["c4_index"].useful_bytes) == (512, 64 * 132)
    assert (found["c128"].runs, found["c128"].useful_bytes) == (512, 2 * 584)
    assert (found["c4"].runs, found["c4"].useful_bytes, found["c4"].start_bytes) == (512, 584, 8)
    # A window of 128 rows begins anywhere in a page of 256.
    assert found["window"].runs == 1 + 127 / 256
    assert found["window"].rows == 128


def test_decode_bytes_of_flash_at_128k() -> None:
    # Published: 112.3 MB a token, of which the index keys are 80.9 %.
    found = runs_of(256)
    total = read_bytes(tuple(found.values()))
    assert round(total / 1e6, 1) == 112.3
    assert round(100 * 21 * found["c4_index"].read_bytes / total, 1) == 80.9


def test_half_the_page_doubles_the_runs() -> None:
    assert runs_of(128)["c4_index"].runs == 2 * runs_of(256)["c4_index"].runs == 1024


def test_picks_that_go_on_join_within_a_page() -> None:
    found = runs_of(256, neighbours=0.5)["c4"]
    assert found.runs == 512 - 511 * 0.5 * (1 - 1 / 64)
    assert found.rows == 512
    assert found.useful_bytes == pytest.approx(512 * 584 / found.runs)
    assert runs_of(256, neighbours=1.0)["c4"].runs == pytest.approx(1 + 511 / 64)


def test_padded_rows_lengthen_a_page_run() -> None:
    found = runs_of(256, "row:64")["c4_index"]
    assert (found.useful_bytes, found.span_bytes) == (64 * 132, 63 * 192 + 132)


def test_entries_of_a_part_filled_page() -> None:
    found = runs_of(256, mix="1000:1")["c4_index"]
    assert (found.runs, found.rows) == (4, 250)
    assert runs_of(256, mix="127:1")["c128"].runs == 0


@pytest.mark.parametrize(
    ("span", "start", "bursts"),
    [(584, 584, 19), (584, 640, 19), (68, 64, 3), (32, 32, 1), (32, 8, 1.75), (64, 4, 2.875)],
)
def test_bursts_of_a_run(span: int, start: int, bursts: float) -> None:
    assert bursts_touched(span, start) == bursts


@given(
    st.sampled_from(["h200", "b200", "ascend-910b3"]),
    st.integers(1, 10**6),
    st.floats(0, 1),
    st.integers(1, 10**5),
)
def test_efficiency_is_a_share(chip: str, span: int, useful: float, start: int) -> None:
    assert 0 <= run_efficiency(find_chip(chip), useful * span, span, start) <= 1


@pytest.mark.parametrize("page", [128, 256, 1024, 4096])
@pytest.mark.parametrize("padding", ["engine", "row:64", "row:576"])
def test_all_reads_lie_between_the_worst_and_the_best(page: int, padding: str) -> None:
    found = tuple(runs_of(page, padding, "1-262144:9").values())
    shares = [one.efficiency for one in found]
    assert 0 < min(shares) <= read_efficiency(found) <= max(shares) <= 1


@pytest.mark.parametrize(
    ("span", "start", "within"),
    [(584, 8, 0.03), (584, 640, 0.03), (584, 1152, 0.03), (8448, 8640, 0.03), (1168, 1728, 0.07)],
)
def test_table_against_the_bank_model(span: int, start: int, within: float) -> None:
    chip = find_chip("h200")
    access = Access(kind="gather", granule_bytes=span, align_bytes=start)
    simulated = measure(chip_memory(chip), access).useful_fraction
    assert run_efficiency(chip, span, span, start) == pytest.approx(simulated, rel=within)
