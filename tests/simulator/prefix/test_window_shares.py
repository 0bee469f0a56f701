"""Shares of a tier's room: how they are written, what is best, and what decides the ranking."""

from types import SimpleNamespace

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.prefix.window_shares import (
    DEFAULT_SHARES,
    SharedRow,
    mean_interval_s,
    pareto_front,
    parse_shares,
    ranking_text,
)
from tests.simulator.prefix.made_traces import trace_of


def test_shares_as_written():
    assert parse_shares("shared, 0.1,0.3") == (None, 0.1, 0.3)
    assert parse_shares("best") == DEFAULT_SHARES
    for wrong in ("0", "1", "half", "0.1,,"):
        with pytest.raises(InputError, match="window share"):
            parse_shares(wrong)


def row(policy, *means):
    runs = tuple(SimpleNamespace(ttft_mean_s=mean) for mean in means)
    best = means.index(min(means))
    return SharedRow(
        policy=policy, shares=(None, 0.3), rows=runs, best=best,
        p10_s=min(means) - 0.1, p90_s=min(means) + 0.1,
    )  # fmt: skip


def test_the_division_is_named_where_it_decides():
    rows = [row("a", 1.0, 3.0), row("b", 2.0, 1.05), row("c", 5.0, 5.0)]
    text = ranking_text(rows)
    assert "a has the earliest first tokens (mean 1.000 s at shared" in text
    assert "in order: a, b, c; within that interval: b" in text
    assert text.endswith("decides who is first: a at shared, b at 0.3.")
    assert ranking_text([rows[0], rows[2]]).endswith("The same policy is first at every share.")
    roomy = [row("a", 1.0, 1.0), row("b", 2.0, 2.0)]
    assert ranking_text(roomy).endswith("the room is never short for this trace.")


def test_the_interval_is_over_sessions():
    """Equal sessions leave no doubt; unlike ones do, and more so the fewer they are."""
    trace = trace_of([[n] for n in range(40)])
    equal = mean_interval_s(trace, np.full(40, 10**9))
    assert equal == (1.0, 1.0)
    low, high = mean_interval_s(trace, np.arange(40) * 10**9)
    assert low < 19.5 < high
    few = mean_interval_s(trace_of([[0], [1]]), np.array([0, 39]) * 10**9)
    assert few[1] - few[0] > high - low


def test_the_front_holds_what_nothing_beats():
    def run(ttft, stored, usd):
        tiers = (SimpleNamespace(peak_bytes=stored),)
        totals = SimpleNamespace(tiers=tiers)
        return SimpleNamespace(ttft_mean_s=ttft, totals=totals, total_usd_per_m_input=usd)

    fast, small, beaten = run(1, 10, 3), run(2, 1, 2), run(2, 10, 3)
    assert pareto_front([fast, small, beaten]) == [fast, small]
