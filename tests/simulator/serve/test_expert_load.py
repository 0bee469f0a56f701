"""Loads of ranks from a law of picks, shares by layer and recorders' dumps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.serve.expert_load import DEFAULT_ZIPF, ExpertLoad, busiest, zipf_factor


def test_the_law_has_what_balancing_was_seen_to_gain() -> None:
    assert zipf_factor(384, 8, DEFAULT_ZIPF) == pytest.approx(1.34, abs=0.03)
    assert zipf_factor(384, 8, 0.0) == pytest.approx(1.0)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 1.5), st.sampled_from([2, 4, 8, 16]))
def test_more_ranks_and_a_steeper_law_are_no_more_even(exponent: float, ranks: int) -> None:
    factor = zipf_factor(128, ranks, exponent)
    assert factor >= 1 - 1e-9
    assert zipf_factor(128, 2 * ranks, exponent) >= factor - 1e-9
    assert zipf_factor(128, ranks, exponent + 0.2) >= factor - 1e-9


def test_replicas_even_out() -> None:
    shares = np.array([0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
    assert busiest(shares, 4) == pytest.approx(2.4)
    assert busiest(shares, 4, 4) < busiest(shares, 4)


def test_shares_and_dumps_are_read(tmp_path: Path) -> None:
    table = tmp_path / "shares.csv"
    rows = [f"0,{e},{0.5 if e == 0 else 0.5 / 7}" for e in range(8)]
    table.write_text("\n".join(["layer,expert,share", *rows]))
    assert ExpertLoad(shares=str(table)).factor(8, 2) == pytest.approx(2 * (0.5 + 1.5 / 7))
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"logical_count": [[3, 1, 1, 1], [1, 1, 1, 1]]}))
    assert ExpertLoad(recorder=str(dump)).factor(4, 2) == pytest.approx((8 / 6 + 1) / 2)


def test_faults_are_sentences(tmp_path: Path) -> None:
    table = tmp_path / "shares.csv"
    table.write_text("layer,expert,share\n0,0,0.5\n0,1,0.4\n")
    with pytest.raises(InputError, match=r"add up to 0.9, expected 1 \(-0.1\)"):
        ExpertLoad(shares=str(table)).factor(2, 2)
    with pytest.raises(InputError, match="do not divide over 5 ranks"):
        ExpertLoad(zipf=0.5).factor(256, 5)
    table.write_text("layer,expert,share\n0,7,1\n")
    with pytest.raises(InputError, match="expected an expert of 0 to 1"):
        ExpertLoad(shares=str(table)).factor(2, 2)
