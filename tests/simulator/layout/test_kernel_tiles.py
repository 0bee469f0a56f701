"""Tiles that pages and widths leave part empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.engine.profile import find_profile
from simulator.layout.kernel_tiles import attention_waste, index_tile, index_waste, padded_ids
from tests.simulator.layout.layout_cases import cut, mix_of
from workloads.deepseek_v4.config import find_model


@pytest.mark.parametrize(
    ("chip", "page", "tile", "share"),
    [
        ("h200", 128, 64, 0.5),  # 32 keys in a tile of 64
        ("b200", 128, 32, 0.0),
        ("h200", 256, 64, 0.0),
        ("b200", 256, 64, 0.0),
        ("h200", 320, 64, 1 - 80 / 128),
        ("b200", 320, 32, 1 - 80 / 96),
    ],
)
def test_full_pages_of_index_keys(chip: str, page: int, tile: int, share: float) -> None:
    spec, found = find_chip(chip), cut(page)
    assert index_tile(found, spec) == tile
    assert index_waste(found, mix_of(f"{page * 40}:1"), spec).share == pytest.approx(share)


def test_last_page_fills_a_tile_in_part() -> None:
    # 1,000 tokens: 250 keys, in tiles 256.
    waste = index_waste(cut(256), mix_of("1000:1"), find_chip("h200"))
    assert (waste.entries, waste.tile_entries) == (250, 256)


def test_attention_widths() -> None:
    mix = mix_of("12800:1")
    flash = find_model("v4-flash")
    of = {name: padded_ids(find_profile(name)) for name in ("sglang-0.5", "vllm-0.33")}
    plain, padded = (attention_waste(mix, flash, ids) for ids in of.values())
    assert (plain["window"].share, plain["c4"].share) == (0, 0)
    # 100 C128 entries: two tiles of 64, or a width of 128.
    assert (plain["c128"].entries, plain["c128"].tile_entries) == (100, 128)
    assert padded["c128"].tile_entries == 128
    longer = [attention_waste(mix_of("16640:1"), flash, ids)["c128"] for ids in of.values()]
    assert [waste.tile_entries for waste in longer] == [192, 256]


@given(st.integers(1, 60_000), st.integers(32, 1024), st.sampled_from(["h200", "b200", "mi355x"]))
def test_tiles_hold_the_keys(context: int, quarter: int, chip: str) -> None:
    waste = index_waste(cut(4 * quarter, "none"), mix_of(f"{context}:1"), find_chip(chip))
    assert 0 <= waste.entries <= waste.tile_entries
    assert 0 <= waste.share <= 1
