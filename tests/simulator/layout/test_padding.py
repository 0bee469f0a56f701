"""Padding of pages and rows: published shares, laws, and sizes that hold no entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.layout.padding import NONE, Padding, parse_padding
from tests.simulator.layout.layout_cases import cut

# DeepSeek-V4 in SGLang 0.5.23 and vLLM 0.33, pages padded to 576 B: rows x bytes, padded, waste.
PUBLISHED = [
    ("sglang-0.5", "fp8", 256, "window", 149_504, 149_760, "0.17"),
    ("sglang-0.5", "fp8", 128, "window", 74_752, 74_880, "0.17"),
    ("sglang-0.5", "fp8", 256, "c4", 37_376, 37_440, "0.17"),
    ("sglang-0.5", "fp8", 128, "c4", 18_688, 19_008, "1.71"),
    ("sglang-0.5", "fp8", 256, "c128", 1_168, 1_728, "47.9"),
    ("sglang-0.5", "fp8", 128, "c128", 584, 1_152, "97.3"),
    ("vllm-0.33", "fp8", 256, "c4_index", 8_448, 8_640, "2.3"),
    ("vllm-0.33", "fp4", 256, "c4_index", 4_352, 4_608, "5.9"),
    ("vllm-0.33", "fp8", 256, "c4_state", 32_768, 32_832, "0.2"),
    ("vllm-0.33", "fp8", 256, "c4_index_state", 8_192, 8_640, "5.5"),
]


@pytest.mark.parametrize(
    ("engine", "index", "page", "pool", "useful", "padded", "percent"), PUBLISHED
)
def test_published_waste(
    engine: str, index: str, page: int, pool: str, useful: int, padded: int, percent: str
) -> None:
    one = cut(page, engine=engine, index=index).pool(pool)
    assert one.page_useful_bytes == useful
    assert one.page_bytes == padded
    digits = len(percent.partition(".")[2])
    assert f"{100 * one.page_padding:.{digits}f}" == percent


def test_growth_of_flash_with_and_without_padding() -> None:
    held = cut(256).pools
    growth = sum(one.bytes_per_token for one in held)
    padding = sum(one.padding_bytes_per_token for one in held)
    assert growth == 3_899.25
    assert growth - padding == 3_850.25
    # 21 C4 layers x 64 B / 256 tokens + 20 C128 layers x 560 B / 256 tokens
    assert padding == 21 * 64 / 256 + 20 * 560 / 256


@given(
    st.sampled_from(["sglang-0.5", "vllm-0.33", "ascend", "ideal", "trtllm-1.3"]),
    st.integers(1, 32),
    st.sampled_from([4, 64, 128]),
    st.sampled_from(["engine", "none", "page:32", "page:576", "row:64", "row:576"]),
)
def test_padding_is_never_negative(engine: str, times: int, unit: int, padding: str) -> None:
    page = max(128, times * unit)
    for one in cut(page, padding, engine=engine).pools:
        assert one.padding_bytes_per_token >= 0
        assert one.page_padding >= 0
        assert one.stride_bytes >= one.row_bytes
        assert one.page_bytes >= one.page_rows * one.stride_bytes


def test_rows_padded_to_64_bytes() -> None:
    one = cut(128, "row:64").pool("c4")
    assert (one.stride_bytes, one.page_bytes) == (640, 32 * 640)
    assert one.start_bytes == 640


def test_page_between_multiples_of_the_ratio_has_slots_to_spare() -> None:
    # Of pages of 192 tokens every other one has two C128 entries: slots for two in all.
    one = cut(192, "none").pool("c128")
    assert one.page_rows == 2
    assert one.page_useful_bytes == 1.5 * 584
    assert one.padding_bytes_per_token == pytest.approx(20 * 0.5 * 584 / 192)


def test_a_page_holds_an_entry() -> None:
    with pytest.raises(InputError, match=r"cannot hold one c128 entry.*64 too few.*try 128"):
        cut(64)
    assert cut(64, pool="c4").pool("c4").page_rows == 16


@pytest.mark.parametrize("text", ["576", "row:0", "col:64", "page:", "page:70000"])
def test_unknown_padding(text: str) -> None:
    with pytest.raises(InputError, match="expected engine, none, page:BYTES or row:BYTES"):
        parse_padding(text)


def test_names_read_back() -> None:
    for text in ("engine", "none", "page:576", "row:64"):
        assert parse_padding(text).name == text
    assert parse_padding("row:1") == NONE == Padding("page", 1)
