"""Sizes that engines printed or that follow from their sources, to the byte."""

from __future__ import annotations

import pytest

from simulator.capacity.block_fit import block_bytes, longest_context, request_blocks
from simulator.capacity.request_pages import Load
from simulator.capacity.sizing import fit_requests
from simulator.capacity.window_fit import (
    capped_window_tokens,
    fit_window,
    full_token_bytes,
    window_token_bytes,
)
from simulator.engine.cache_layout import CacheLayout
from simulator.engine.physical_layout import CacheGeometry, bind_layout
from simulator.engine.profile import find_profile, layout_of
from simulator.engine.sizing_rules import BlockSizing, WindowSizing
from workloads.deepseek_v4.config import find_model

GIB = 2**30
MIB = 2**20


def geometry(engine: str, model: str, **options: object) -> CacheGeometry:
    return bind_layout(layout_of(find_profile(engine)), find_model(model), **options)  # type: ignore[arg-type]


def blocks_rule(bound: CacheGeometry) -> BlockSizing:
    rule = bound.layout.sizing
    assert isinstance(rule, BlockSizing)
    return rule


def window_rule(bound: CacheGeometry) -> WindowSizing:
    rule = bound.layout.sizing
    assert isinstance(rule, WindowSizing)
    return rule


@pytest.mark.parametrize(
    ("engine", "pool", "page_bytes"),
    [
        ("vllm-0.33", "c4", 37_440),
        ("vllm-0.33", "window", 37_440),
        ("vllm-0.33", "c4_index", 8_640),
        ("vllm-0.33", "c128", 1_728),
        ("vllm-0.33", "c4_state", 32_832),
        ("vllm-0.33", "c128_state", 32_832),
        ("vllm-0.33", "c4_index_state", 8_640),
        ("sglang-0.5", "c4", 37_440),
        ("sglang-0.5", "window", 149_760),
        ("sglang-0.5", "c128", 1_728),
        ("sglang-0.5", "c4_index", 8_448),
    ],
)
def test_page_bytes(engine: str, pool: str, page_bytes: int) -> None:
    assert geometry(engine, "v4-flash").pool(pool).page_bytes == page_bytes


def test_fp4_index_pages_of_vllm() -> None:
    assert geometry("vllm-0.33", "v4-flash", index="fp4").pool("c4_index").page_bytes == 4_608


@pytest.mark.parametrize(
    ("engine", "model", "index", "nbytes"),
    [
        ("vllm-0.33", "v4-flash", "fp8", 1_002_240),
        ("vllm-0.33", "v4-pro", "fp8", 1_435_968),
        ("vllm-0.33", "v4-flash", "fp4", 917_568),
        ("vllm-0.33", "v4-pro", "fp4", 1_315_008),
        ("vllm-0.22", "v4-flash", "fp8", 22 * 47_808),
        ("vllm-0.22", "v4-pro", "fp8", 31 * 47_808),
    ],
)
def test_block_bytes(engine: str, model: str, index: str, nbytes: int) -> None:
    bound = geometry(engine, model, index=index)
    assert block_bytes(bound, blocks_rule(bound)) == nbytes


def test_vllm_log_of_13270_blocks() -> None:
    bound = geometry("vllm-0.33", "v4-flash")
    nbytes = 13_270 * block_bytes(bound, blocks_rule(bound))
    assert round(nbytes / GIB, 3) == 12.386
    assert 13_270 * bound.layout.page_tokens == 3_397_120


@pytest.mark.parametrize(
    ("context", "in_flight", "blocks", "gib"),
    [(30_000, 16_384, 6_800, 6.66), (131_072, 2_048, 1_370, 1.34)],
)
def test_blocks_of_a_request(context: int, in_flight: int, blocks: int, gib: float) -> None:
    bound = geometry("vllm-0.22", "v4-flash")
    load = Load(context_tokens=context, in_flight_tokens=in_flight)
    rule = blocks_rule(bound)
    held = request_blocks(bound, rule, load)
    assert sum(held.values()) == blocks
    assert round(blocks * block_bytes(bound, rule) / GIB, 2) == gib
    fit = fit_requests(bound, blocks * block_bytes(bound, rule), load)
    assert fit.requests == 1


@pytest.mark.parametrize(
    ("blocks", "in_flight", "longest"), [(5_554, 16_384, 13_528), (302, 2_048, 720)]
)
def test_longest_context_of_blocks(blocks: int, in_flight: int, longest: int) -> None:
    bound = geometry("vllm-0.22", "v4-flash")
    load = Load(context_tokens=1, in_flight_tokens=in_flight)
    assert longest_context(bound, blocks_rule(bound), blocks, load) == longest


def test_pages_of_a_request_in_pools_of_fixed_size() -> None:
    """8,192 tokens in 32 pages; a window of 128 and one page of 256 in whole pages are two.

    All 43 layers of V4-Flash have a window; 21 keep an entry of 4 tokens, 20 one of 128.
    """
    bound = geometry("sglang-0.5", "v4-flash")
    load = Load(context_tokens=8_192)
    fit = fit_window(bound, window_rule(bound), 40 * GIB, load)
    assert {charge.name: charge.units for charge in fit.charges} == {
        "window": 43 * 2,
        "c4": 21 * 32,
        "c4_index": 21 * 32,
        "c128": 20 * 32,
        "c4_state": 21 * 2,
        "c4_index_state": 21 * 2,
        "c128_state": 20,
    }
    held = {charge.name: charge.nbytes for charge in fit.charges}
    assert held["window"] == 43 * 2 * 149_760
    assert held["c4"] == 21 * 32 * 37_440
    assert held["c4_index"] == 21 * 32 * 8_448
    assert held["c128"] == 20 * 32 * 1_728
    assert fit.fixed_bytes == sum(
        held[name] for name in ("window", "c4_state", "c4_index_state", "c128_state")
    )
    # Set aside for the 256 requests that it may run: 128 rows of 4,096 bytes in each of 20 layers.
    assert fit.reserved[0].nbytes == 256 * 20 * 128 * 4_096


def test_million_token_requests_on_eight_b200() -> None:
    bound = geometry("vllm-0.22", "v4-flash")
    load = Load(context_tokens=2**20, in_flight_tokens=8_192)
    assert sum(request_blocks(bound, blocks_rule(bound), load).values()) == 7_450
    tensor = fit_requests(bound, round(149.1 * GIB), load).requests
    data = 8 * fit_requests(bound, round(143.1 * GIB), load).requests
    assert round(tensor, 2) == 20.43
    assert round(data, 1) == 156.9


@pytest.mark.parametrize(
    ("model", "draft", "full", "window"),
    [
        ("v4-flash", 0, 3_899, 31_875),
        ("v4-flash", 4, 3_990, 39_493),
        ("v4-pro", 0, 5_587, 45_285),
        ("v4-pro", 4, 5_678, 55_785),
    ],
)
def test_cost_of_a_token_in_sglang(model: str, draft: int, full: int, window: int) -> None:
    bound = geometry("sglang-0.5", model, speculative=draft > 0)
    load = Load(context_tokens=4096, draft_tokens=draft)
    rule = window_rule(bound)
    per_full, per_slot = full_token_bytes(bound, rule, load), window_token_bytes(bound, rule, load)
    assert round(per_full) == full
    # 55,785 is printed; (35,685 + 19,200) x 62 / 61 = 55,784.8.
    assert round(per_slot) == window
    assert rule.window_ratio == 0.1


@pytest.mark.parametrize(("model", "added"), [("v4-pro", 4_528.5), ("v4-flash", 3_187.5)])
def test_ratio_mode_adds_window_slots(model: str, added: float) -> None:
    bound = geometry("sglang-0.5", model)
    load = Load(context_tokens=4096)
    assert 0.1 * window_token_bytes(bound, window_rule(bound), load) == pytest.approx(added)


def test_fp4_index_gains_no_tokens_in_sglang_but_in_vllm() -> None:
    load = Load(context_tokens=131_072, in_flight_tokens=8_192)
    budget = 40 * GIB
    for engine, gains in (("sglang-0.5", False), ("vllm-0.33", True)):
        fp8 = fit_requests(geometry(engine, "v4-flash"), budget, load)
        fp4 = fit_requests(geometry(engine, "v4-flash", index="fp4"), budget, load)
        assert (fp4.tokens > fp8.tokens) is gains


def test_fixed_window_slots_of_sglang() -> None:
    bound = geometry("sglang-0.5-cap", "v4-flash")
    load = Load(context_tokens=4096, in_flight_tokens=4096)
    by_hand = 256 * (128 + 128 + 256) + 2 * 4096 + 256 + 4 * 256 * (128 + 256)
    assert capped_window_tokens(bound, window_rule(bound), load) == by_hand


@pytest.mark.parametrize(
    ("model", "index", "growth", "total_gib", "window_mib"),
    [
        ("v4-pro", "fp4", 5_031.4375, 4.918, 4.349),
        ("v4-flash", "fp4", 3_514.25, 3.435, 3.065),
        ("v4-pro", "fp8", 5_511.4375, 5.3865, 4.349),
        ("v4-flash", "fp8", 3_850.25, 3.763, 3.065),
    ],
)
def test_ideal_growth(
    model: str, index: str, growth: float, total_gib: float, window_mib: float
) -> None:
    bound = geometry("ideal", model, index=index)
    assert bound.bytes_per_token == growth
    window = bound.pool("window")
    held = window.layers * window.page_bytes
    assert held / MIB == pytest.approx(window_mib, abs=5e-4)
    assert (growth * 2**20 + held) / GIB == pytest.approx(total_gib, abs=5e-4)


@pytest.mark.parametrize(("model", "gib"), [("v4-pro", 9.62), ("v4-flash", 6.72)])
def test_bf16_at_a_million_tokens(model: str, gib: float) -> None:
    bound = geometry("ideal", model, kv="bf16", index="bf16")
    window = bound.pool("window")
    total = bound.bytes_per_token * 2**20 + window.layers * window.page_bytes
    assert round(total / GIB, 2) == gib


@pytest.mark.parametrize(
    ("model", "ratio", "fixed_mib"), [("v4-pro", 7.88, 22.19), ("v4-flash", 7.95, 14.71)]
)
def test_window_ratio_and_fixed_state(model: str, ratio: float, fixed_mib: float) -> None:
    bound = geometry("ideal", model)
    window = bound.pool("window")
    main = bound.pool("c4").bytes_per_token + bound.pool("c128").bytes_per_token
    assert round(window.layers * window.row_bytes / main, 2) == ratio
    fixed = sum(p.layers * p.page_bytes for p in bound.pools if p.lives == "request")
    assert round(fixed / MIB, 2) == fixed_mib


def test_ascend_pools_of_flash() -> None:
    bound = geometry("ascend", "v4-flash", kv="bf16")
    assert bound.pool("c4").bytes_per_token == 5_376
    assert bound.pool("c128").bytes_per_token == 160
    index = bound.pool("c4_index")
    assert index.useful_bytes_per_token == 682.5
    assert index.bytes_per_token - index.useful_bytes_per_token == 693
    assert bound.layout.hit_tokens == 2_048


@pytest.mark.parametrize(
    "engine",
    ["ideal", "sglang-0.5", "sglang-0.5-cap", "vllm-0.22", "vllm-0.33", "trtllm-1.3", "ascend"],
)
def test_every_rule_says_where_it_is_from(engine: str) -> None:
    layout: CacheLayout = layout_of(find_profile(engine))
    assert layout.origin
    assert layout.retention.origin
    assert all(rule.origin for rule in layout.pools.values())
