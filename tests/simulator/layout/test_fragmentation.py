"""Bytes that requests hold beyond useful rows, by hand and as laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.capacity.request_pages import Load, request_charges, request_pages
from simulator.layout.fragmentation import held_bytes, page_count, table_bytes
from tests.simulator.layout.layout_cases import cut, mix_of

ENGINES = ("sglang-0.5", "vllm-0.33", "ascend", "ideal", "trtllm-1.3")
MIXES = st.lists(
    st.tuples(st.integers(1, 20_000), st.integers(0, 3000), st.integers(1, 5)),
    min_size=1,
    max_size=3,
).map(lambda parts: mix_of(",".join(f"{low}-{low + width}:{n}" for low, width, n in parts)))


def test_one_request_by_hand() -> None:
    held = {one.name: one for one in held_bytes(cut(256), mix_of("1000:1"))}
    # 4 pages of 64 slots in 21 layers, of which 250 hold an entry; a page has 64 B of padding.
    c4 = held["c4"]
    assert c4.held_bytes == 21 * 4 * 37_440
    assert c4.padding_bytes == 21 * 4 * 64
    assert c4.partial_bytes == 21 * (256 - 250) * 584
    # The window takes ceil(128 / 256) + 1 pages.
    assert held["window"].partial_bytes == 43 * (512 - 128) * 584


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("context", [1, 7, 128, 129, 5000, 131_072])
def test_pages_are_those_of_the_capacity_rules(engine: str, context: int) -> None:
    found = cut(engine=engine, grouping="engine")
    load = Load(context_tokens=context)
    for one in found.pools:
        counted = page_count(one, found)(np.array([context]))
        assert int(counted[0]) == request_pages(one, found, load)
    apart = cut(engine=engine)
    held = sum(one.held_bytes for one in held_bytes(apart, mix_of(f"{context}:1")))
    assert held == sum(charge.nbytes for charge in request_charges(apart, load))


@settings(max_examples=30)
@given(
    st.sampled_from(ENGINES),
    st.sampled_from(["separate", "buckets", "one-block"]),
    st.sampled_from(["engine", "none", "row:64", "page:576"]),
    st.sampled_from([128, 192, 256, 1024]),
    MIXES,
)
def test_parts_add_up(engine: str, grouping: str, padding: str, page: int, mix) -> None:  # type: ignore[no-untyped-def]
    for one in held_bytes(cut(page, padding, grouping, engine=engine), mix):
        parts = one.useful_bytes + one.padding_bytes + one.partial_bytes + one.slack_bytes
        assert one.held_bytes == pytest.approx(parts, abs=1)
        assert min(one.padding_bytes, one.partial_bytes, one.slack_bytes) >= -1e-6


@settings(max_examples=40)
@given(st.sampled_from(ENGINES), st.integers(1, 8), st.integers(2, 4), MIXES)
def test_a_multiple_of_a_page_never_fragments_less(  # type: ignore[no-untyped-def]
    engine: str, pages: int, times: int, mix
) -> None:
    small, large = (cut(128 * n, engine=engine) for n in (pages, pages * times))
    less = {one.name: one.partial_bytes for one in held_bytes(small, mix)}
    more = {one.name: one.partial_bytes for one in held_bytes(large, mix)}
    assert all(more[name] >= less[name] - 1e-6 for name in less)


@settings(max_examples=40)
@given(
    st.sampled_from(ENGINES),
    st.sampled_from(["separate", "buckets", "one-block"]),
    st.lists(st.integers(32, 1024), min_size=2, max_size=2),
    MIXES,
)
def test_bigger_pages_never_raise_page_tables(  # type: ignore[no-untyped-def]
    engine: str, grouping: str, quarters: list[int], mix
) -> None:
    small, large = (4 * n for n in sorted(quarters))
    tables = [
        table_bytes(cut(page, "none", grouping, engine=engine), mix) for page in (small, large)
    ]
    assert tables[1] <= tables[0]


def test_page_table_of_one_request() -> None:
    # C4, its index and C128: 16 ids each; window: 2; the C128 state's slot: 1; int32 each.
    assert table_bytes(cut(256), mix_of("4096:1")) == 4 * (3 * 16 + 2 + 1)
    # One table for the three; two window groups of 2 + 1 and states of 2 + 1 and 16 + 1 blocks.
    shared = cut(256, grouping="one-block", engine="vllm-0.33")
    assert table_bytes(shared, mix_of("4096:1")) == 4 * (16 + 2 * 3 + 3 + 17)


def test_pages_that_do_not_divide_each_other_may_fragment_less() -> None:
    # 300 tokens fill pages of 256 tokens to 300 of 512, pages of 384 to 300 of 384.
    held = {
        page: {one.name: one.partial_bytes for one in held_bytes(cut(page), mix_of("300:1"))}
        for page in (256, 384)
    }
    assert held[256]["c4"] == 21 * (128 - 75) * 584
    assert held[384]["c4"] == 21 * (96 - 75) * 584
