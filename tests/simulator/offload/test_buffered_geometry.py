"""Device bytes with C4 entries on the host, by hand arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine.physical_layout import CacheGeometry, bind_layout
from simulator.engine.profile import find_profile, layout_of
from simulator.offload.buffered_geometry import (
    BUFFER,
    buffered,
    buffers_in_pool,
    ceiling,
    host_bytes,
)
from workloads.deepseek_v4.config import find_model


def geometry(model: str = "v4-flash", engine: str = "ideal", index: str = "fp8") -> CacheGeometry:
    return bind_layout(layout_of(find_profile(engine)), find_model(model), index=index)


# C4 and C128 layers, bytes of an index key: a token has 584/4 + key/4 B a C4 layer, 584/128 a C128.
@pytest.mark.parametrize(
    ("model", "index", "c4", "c128", "key", "told"),
    [
        ("v4-flash", "fp8", 21, 20, 132, 4.9),
        ("v4-flash", "fp4", 21, 20, 68, 7.8),
        ("v4-pro", "fp8", 30, 31, 132, 4.9),
        ("v4-pro", "fp4", 30, 31, 68, 7.7),
    ],
)
def test_ceiling(model: str, index: str, c4: int, c128: int, key: int, told: float) -> None:
    stays = c4 * Fraction(key, 4) + c128 * Fraction(584, 128)
    whole = stays + c4 * Fraction(584, 4)
    found = ceiling(geometry(model, index=index))
    assert found == pytest.approx(float(whole / stays), rel=1e-12)
    assert round(found, 1) == told


def test_what_stays_grows_by_784_bytes_a_token_on_flash() -> None:
    # 21 x 33 index + 20 x 4.5625 C128 = 784.25; SGLang pads C128 pages to 1,728 B: 693 + 135.
    assert buffered(geometry(), 1024).bytes_per_token == 784.25
    assert buffered(geometry(engine="sglang-0.5"), 1024).bytes_per_token == 828


def test_a_buffer_is_whole_pages_of_every_c4_layer() -> None:
    pool = buffered(geometry(engine="sglang-0.5"), 1000).pool(BUFFER)
    assert (pool.layers, pool.page_rows, pool.page_bytes) == (21, 1024, 16 * 37_440)
    assert pool.lives == "request"


def test_one_entry_in_ten_stays_with_a_host_ratio_of_ten() -> None:
    kept = buffered(geometry(), 1024, 10)
    assert kept.bytes_per_token == pytest.approx(784.25 + 3066 / 10)
    # 440,000 tokens leave 11,000 entries a layer: ten buffers of 1,024.
    assert buffers_in_pool(geometry().pool("c4"), 440_000, 10, 1024) == 10


def test_host_bytes_are_pages() -> None:
    # 220,000 tokens are 860 pages of 256 (859.4).
    assert host_bytes(geometry(engine="sglang-0.5"), 220_000) == 860 * 37_440 * 21


@given(st.integers(1, 20_000), st.integers(1, 20_000))
@settings(max_examples=30)
def test_larger_buffers_never_take_less(one: int, other: int) -> None:
    low, high = sorted((one, other))
    pages = [buffered(geometry(), size).pool(BUFFER) for size in (low, high)]
    assert pages[0].page_bytes <= pages[1].page_bytes
    assert all(p.page_rows >= size for p, size in zip(pages, (low, high), strict=True))
