"""Published effects of FP4 keys come out of the graph and the layout."""

import pytest

from simulator.indexer.effects import (
    bytes_read,
    bytes_saved,
    calibrated_scan_us,
    entry_bytes,
    growth_saved,
    index_share,
    published_effects,
    tile_scan_us,
)


def test_bytes_read_by_hand():
    # Flash at 32K, FP8: window of 43 layers and the draft layer's where it is in the graph, keys
    # of 21 layers, 512 picks each, all entries of 20 layers.
    read = bytes_read("v4-flash", 32768, "fp8")
    assert read["c4_index"] == 21 * 8192 * 132
    assert read["c4"] == 21 * 512 * 584
    assert read["c128"] == 20 * 256 * 584
    assert read["window"] == 43 * 128 * 584
    assert entry_bytes("v4-flash", 32768, "fp8") == 35_191_808


@pytest.mark.parametrize(
    ("context", "percent"), [(32 * 1024, -31), (128 * 1024, -39), (1024 * 1024, -42)]
)
def test_bytes_saved_as_published(context, percent):
    assert round(bytes_saved("v4-flash", context)) == percent
    assert bytes_saved("v4-flash", context, states=True) > bytes_saved("v4-flash", context)


def test_share_of_index_keys_as_published():
    assert round(index_share("v4-flash", 32 * 1024), 1) == 64.5
    assert round(index_share("v4-flash", 128 * 1024), 1) == 80.9


@pytest.mark.parametrize("model", ["v4-flash", "v4-pro"])
def test_growth_saved_as_published(model):
    assert round(growth_saved(model), 1) == -8.7


def test_fp8_scan_near_the_measured_kernel():
    assert calibrated_scan_us("h200", 2**20) == pytest.approx(10.4, rel=0.15)
    assert calibrated_scan_us("b200", 2**20) == pytest.approx(7.2, rel=0.15)
    # The tile model, which no kernel was fitted to, is further off.
    assert tile_scan_us("h200", 2**20) == pytest.approx(10.4, rel=0.35)
    assert tile_scan_us("b200", 2**20) == pytest.approx(7.2, rel=0.35)


def test_every_figure_has_ours_beside_it():
    effects = published_effects()
    assert len(effects) == 9
    for effect in effects:
        near = 0.15 if effect.unit == "us" else 0.02
        assert effect.computed == pytest.approx(effect.published, rel=near)
