"""Bytes of pages and checkpoints, as published and by hand."""

import pytest

from simulator.engine.physical_layout import bind_layout
from simulator.engine.profile import find_profile, layout_of
from simulator.prefix.cached_bytes import cached_bytes
from workloads.deepseek_v4.config import find_model


def sizes(model, engine, **options):
    layout = layout_of(find_profile(engine))
    return cached_bytes(bind_layout(layout, find_model(model), **options))


@pytest.mark.parametrize(
    ("model", "layers", "c4", "per_token"),
    [("v4-flash", 43, 21, 3_850.25), ("v4-pro", 61, 30, 5_511.4375)],
)
def test_ideal(model, layers, c4, per_token):
    found = sizes(model, "ideal")
    assert found.window_bytes == layers * 128 * 584
    assert found.overlap_bytes == c4 * 40_960
    assert found.page_bytes == per_token * 128
    assert found.row_bytes == layers * 584
    assert found.pages_bytes(129) == 2 * found.page_bytes


@pytest.mark.parametrize(
    ("engine", "flash", "pro"), [("sglang-0.5", 8.16, 11.6), ("vllm-0.33", 22.05, 31.6)]
)
def test_engine_granules(engine, flash, pro):
    """Published sizes of a retained checkpoint in MB."""
    assert sizes("v4-flash", engine).checkpoint_bytes / 1e6 == pytest.approx(flash, abs=0.005)
    assert sizes("v4-pro", engine).checkpoint_bytes / 1e6 == pytest.approx(pro, abs=0.05)


def test_vllm_moves_whole_blocks():
    found = sizes("v4-flash", "vllm-0.33")
    assert found.page_bytes == 1_002_240
    assert found.checkpoint_objects == 22
    assert found.checkpoint_bytes == 22 * 1_002_240


def test_strategy_table():
    """Window bytes a token: 25,112 / 35,624 for every token, a window every p tokens."""
    flash, pro = sizes("v4-flash", "ideal"), sizes("v4-pro", "ideal")
    assert (flash.row_bytes, pro.row_bytes) == (25_112, 35_624)
    for period, (f, p) in {256: (12_556, 17_812), 4_096: (785, 1_113), 32_768: (98, 139)}.items():
        assert round(flash.window_bytes / period) == f
        assert round(pro.window_bytes / period) == p
    # Windows weigh as much as compressed entries at p = 835 / 827.
    assert round(flash.window_bytes / 3_850.25) == 835
    assert round(pro.window_bytes / 5_511.4375) == 827
