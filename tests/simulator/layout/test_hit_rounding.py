"""Granule of prefix hits by engine, and tokens lost to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.profile import find_profile, layout_of
from simulator.layout.sweep import hit_granule_tokens, lost_tokens, lost_tokens_uniform
from tests.simulator.layout.layout_cases import cut, mix_of

ENGINES = {"ascend": 2048, "vllm-0.33": 256, "vllm-0.22": 256, "sglang-0.5": 256, "trtllm-1.3": 128,
           "ideal": 128}  # fmt: skip


@pytest.mark.parametrize(("engine", "granule"), ENGINES.items())
def test_granule_of_engines(engine: str, granule: int) -> None:
    assert hit_granule_tokens(cut(engine=engine, grouping="engine")) == granule
    assert layout_of(find_profile(engine)).hit_tokens == granule


@pytest.mark.parametrize(("page", "granule"), [(128, 128), (192, 384), (320, 640), (4096, 4096)])
def test_pages_between_multiples_of_128_double_or_treble_the_granule(
    page: int, granule: int
) -> None:
    assert hit_granule_tokens(cut(page)) == granule


@given(st.integers(1, 40))
def test_granule_divides_by_128_and_by_the_page(times: int) -> None:
    page = 128 + 4 * times
    granule = hit_granule_tokens(cut(page))
    assert granule % 128 == 0
    assert granule % page == 0


@given(st.integers(1, 5000))
def test_uniform_lengths_lose_half_a_granule(granule: int) -> None:
    assert lost_tokens_uniform(granule) == sum(range(granule)) / granule


def test_mix_of_whole_granules_loses_nothing() -> None:
    assert lost_tokens(256, mix_of("4096:10,131072:2")) == 0
    assert lost_tokens(256, mix_of("4097:1,4096:1")) == 0.5
    assert lost_tokens(256, mix_of("1-256:3")) == 127.5


@pytest.mark.parametrize(("block", "granule"), [(16, 2048), (32, 4096), (128, 16384)])
def test_granule_of_vllm_on_ascend_follows_its_blocks(block: int, granule: int) -> None:
    """A block of entries of 128 tokens each holds as many entries as others hold tokens."""
    layout = layout_of(find_profile("vllm-ascend", block))
    assert (layout.hit_tokens, layout.pools["hca"].page_tokens) == (granule, granule)
