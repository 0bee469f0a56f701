"""Forward metadata by engine: ids and bytes by hand, on a fresh allocator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simulator.address.forward_metadata import (
    ForwardMetadata,
    PoolWrites,
    engine_addresses,
    verified,
)
from simulator.address.question import RequestSpec
from simulator.basis.errors import InputError
from simulator.cli.main import app
from simulator.engine.profile import list_profiles
from workloads.deepseek_v4.config import find_model

FLASH = find_model("v4-flash")
EXAMPLE = [RequestSpec(past=0, new=6, row=5), RequestSpec(past=3, new=3, row=9)]


def pool(step: ForwardMetadata, name: str, table: str | None = None) -> PoolWrites:
    return next(p for p in step.pools if p.pool == name and table in (None, p.table))


@pytest.mark.parametrize("engine", list_profiles())
def test_the_worked_example(engine: str) -> None:
    first, then = engine_addresses(engine, FLASH, EXAMPLE).steps
    assert first.boundaries == (0, 6, 9)
    assert first.request_rows == (5, 9)
    assert first.lengths == (6, 6)
    assert first.positions == (0, 1, 2, 3, 4, 5, 3, 4, 5)
    assert first.compressed_lengths == {"c4": (1, 1), "c128": (0, 0)}
    assert then.boundaries == (0, 1, 2)
    assert then.lengths == (7, 7)
    assert then.positions == (6, 6)
    assert (first.phase, then.phase) == ("prefill", "decode")
    # Entries 0 are complete at position 3, in both requests; both see them from there on.
    assert [one.visible for one in first.index_ids] == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert [(w.packed_row, w.entry) for w in pool(first, "c4").writes] == [(3, 0), (6, 0)]


def test_sglang_by_hand() -> None:
    found = engine_addresses("sglang-0.5", FLASH, EXAMPLE)
    step = found.steps[0]
    # Pages 0 are reserved; row 9 had its page (1) from its past, row 5 takes the next (2).
    assert [t.pages for t in step.tables] == [((2,), (1,))] * 2
    full = next(t for t in step.tables if t.name == "full")
    assert full.slots == (512, 513, 514, 515, 516, 517, 259, 260, 261)
    # 64 entries of 584 B a page of 37,440 B.
    entries = pool(step, "c4").writes
    assert [(w.slot, w.byte) for w in entries] == [(2 * 64, 2 * 37_440), (64, 37_440)]
    # 256 window rows of 584 B: a page of 149,760 B.
    window = pool(step, "window")
    assert window.page_bytes == 149_760
    assert window.writes[-1].byte == 149_760 + 5 * 584
    # FP8 index keys: 64 x 132 B a page.
    assert pool(step, "c4_index").writes[0].byte == 2 * 64 * 132
    # State of CSA by window page (8 rows), of HCA by request row (128 rows of 2 x 512 fp32).
    assert pool(step, "c4_state").writes[0].slot == 2 * 8
    assert pool(step, "c128_state").writes[0].byte == 5 * 128 * 4096
    # Kernels are told at least one entry.
    assert step.kernel_lengths == {"c4": (1, 1), "c128": (1, 1)}


def test_vllm_by_hand() -> None:
    step, then = engine_addresses("vllm-0.33", FLASH, EXAMPLE).steps
    tables = {t.name: t.pages for t in step.tables}
    # One list of blocks from 1 on. Row 9's past of 3 took 1 to 5 (full, two windows, states);
    # then row 5: full 6, windows 7 and 8, two C4 state blocks of 4 tokens, one C128 state block;
    # row 9 needs a second C4 state block.
    assert tables["full"] == ((6,), (1,))
    assert tables["window.0"] == ((7,), (2,))
    assert tables["window.1"] == ((8,), (3,))
    assert tables["c4_states"] == ((9, 10), (4, 12))
    assert tables["c128_states"] == ((11,), (5,))
    # 43 window layers over two groups.
    assert [p.layers for p in step.pools if p.pool == "window"] == [22, 21]
    assert pool(step, "window", "window.0").writes[0].byte == 7 * 37_440
    assert pool(step, "c4").writes[0].byte == 6 * 37_440
    assert pool(then, "c4_state").writes[0].slot == 10 * 4 + 2
    assert step.kernel_lengths == step.compressed_lengths


def test_trtllm_and_ascend_by_hand() -> None:
    for engine, first, size in (("trtllm-1.3", 0, 512), ("ascend", 1, 640)):
        step = engine_addresses(engine, FLASH, EXAMPLE).steps[0]
        window = next(t for t in step.tables if t.name == "window")
        assert window.pages == ((first + 1,), (first,))
        assert pool(step, "window").writes[0].byte == (first + 1) * 128 * size
    # C128 pages of 2,048 tokens are a table of their own on Ascend.
    long = [RequestSpec(past=4095, new=1)]
    step = engine_addresses("ascend", FLASH, long).steps[0]
    tables = {t.name: t.pages[0] for t in step.tables}
    assert (len(tables["c4"]), tables["c128"]) == (32, (1, 2))
    assert pool(step, "c128").writes[0].slot == 2 * 16 + 15


def test_pages_behind_the_window_are_returned() -> None:
    # A query at 600 sees 473 to 600: of vLLM's pages of 64 tokens the first 7 are out of reach.
    step = engine_addresses("vllm-0.33", FLASH, [RequestSpec(past=600, new=1)]).steps[0]
    pages = {t.name: t.pages[0] for t in step.tables}
    assert pages["window.0"][:7] == (0,) * 7
    assert pages["window.0"][7] != 0
    assert len(pages["full"]) == 3
    # At 448 + 127 position 448 is still seen by the first new token: its page stays.
    step = engine_addresses("vllm-0.33", FLASH, [RequestSpec(past=575, new=1)]).steps[0]
    assert {t.name: t.pages[0] for t in step.tables}["window.0"][:8].count(0) == 7


def test_drafts_are_verified_as_rows_of_a_decode_step() -> None:
    asked = verified([RequestSpec(past=300, new=1), RequestSpec(past=4000, new=1)], 3)
    step = engine_addresses("sglang-0.5", FLASH, asked).steps[0]
    assert step.phase == "verify"
    assert step.boundaries == (0, 4, 8)
    assert step.positions == (300, 301, 302, 303, 4000, 4001, 4002, 4003)
    # 1,000 visible entries are more than the 512 picked.
    assert step.index_ids[-1].ids is None
    assert step.index_ids[3].ids == tuple(range(76))


def test_refusals() -> None:
    with pytest.raises(InputError, match="reserves the first 1"):
        engine_addresses("sglang-0.5", FLASH, [RequestSpec(past=0, new=1, row=0)])
    with pytest.raises(InputError, match="row 3 is given to 2 requests"):
        engine_addresses("ideal", FLASH, [RequestSpec(past=0, new=1, row=3)] * 2)
    with pytest.raises(InputError, match="too many"):
        engine_addresses("ideal", FLASH, [RequestSpec(past=2**20, new=1)])


def test_the_command(tmp_path: Path) -> None:
    arguments = ["address", "--engine", "sglang-0.5", "--request", "0:6:5", "--request", "3:3:9"]
    out = tmp_path / "out"
    result = CliRunner().invoke(app, [*arguments, "--out", str(out), "--json", str(tmp_path / "j")])
    assert result.exit_code == 0, result.output
    assert "query boundaries           [0, 6, 9]" in result.output
    assert "query boundaries           [0, 1, 2]" in result.output
    data = json.loads((tmp_path / "j").read_text())
    assert data["steps"][0]["lengths"] == [6, 6]
    assert "[0, 6, 9]" in (out / "forward_metadata.html").read_text()
    refused = CliRunner().invoke(app, [*arguments, "--page-tokens", "128"])
    assert isinstance(refused.exception, InputError)
    assert "page_tokens" in str(refused.exception)
