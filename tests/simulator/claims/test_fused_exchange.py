"""Fused expert exchange against published layers, and against the same kernels apart."""

from __future__ import annotations

import pytest

from simulator.basis.errors import InputError, UnsupportedError
from simulator.claims.fused_exchange import fused_layers, layer_us, median_off
from simulator.cost.question import ask


def test_published_layers_are_met() -> None:
    found = fused_layers()
    assert len(found) == 19
    assert median_off(found) <= 0.15
    assert max(abs(one.difference) for one in found) < 0.4
    # Overlap against none: fused is never slower than the three kernels one after the other.
    assert all(one.ours_us < one.separate_us for one in found)


@pytest.mark.parametrize("ranks", [8, 16, 32, 64])
def test_more_ranks_hold_fewer_experts(ranks: int) -> None:
    few = layer_us("v4-flash", "gb200", ranks, 64, "fp4", "fused")
    assert 10 < few < layer_us("v4-flash", "gb200", 4, 64, "fp4", "fused") * 2


def test_exchanges_that_make_no_sense_are_sentences() -> None:
    base = {"model": "v4-flash", "chip": "b200", "count": 8}
    with pytest.raises(InputError, match="dp is 1"):
        ask(**base, exchange="fused")
    with pytest.raises(InputError, match="ep is 1"):
        ask(**base, dp=8, ep=1, exchange="deepep")
    with pytest.raises(UnsupportedError, match="nearest: ep 1"):
        ask(**base, dp=8, exchange="gathered")
    with pytest.raises(InputError, match="exchange 'ring'"):
        ask(**base, dp=8, exchange="ring")
    assert ask(**base, dp=8, ep=1, exchange="gathered").deployment.exchange == "gathered"
