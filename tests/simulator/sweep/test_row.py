"""Rows: the figures of a run under names with units, none of them lost."""

from __future__ import annotations

import pytest

from simulator.serve.metrics import summarize
from simulator.serve.money import bill_of
from simulator.serve.run import run_scenario
from simulator.serve.scenario import load_scenario
from simulator.sweep.row import point_row
from tests.simulator.sweep.scenarios import TEXT, scenario_file

LEVELS = "service_levels:\n  ttft_s: 10.0\n  tpot_ms: 0.001\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_scenario(load_scenario(scenario_file(tmp_path_factory.mktemp("row"), TEXT + LEVELS)))


def test_figures_are_those_of_summary_and_bill(run):
    row, summary, bill = point_row(run), summarize(run), bill_of(run)
    assert row["ttft_s_p99"] == summary.latencies.ttft_s.p99
    assert row["output_tokens_per_s"] == summary.rates.output_tokens_per_s
    assert row["usd_per_million_output"] == bill.usd_per_million_output
    assert row["joules"] == bill.energy.joules
    assert row["broken_laws"] == ""
    assert summary.lawful


def test_figures_agree_by_hand(run):
    row = point_row(run)
    assert row["requests"] == row["finished"] == 20
    assert row["input_tokens"] == 20 * 512
    assert row["output_tokens"] == 20 * 4
    assert row["chips"] == 4
    assert row["output_tokens_per_s_chip"] == pytest.approx(80 / row["span_s"] / 4)
    assert row["usd"] == pytest.approx(row["usd_per_chip_hour"] * 4 * row["span_s"] / 3600)
    assert row["usd_per_million_output_bearing_all"] == pytest.approx(row["usd"] / 80 * 1e6)
    assert row["in_system"] == pytest.approx(4, rel=0.01)


def test_a_level_that_is_not_met_is_said(run):
    row = point_row(run)
    assert row["levels_met"] is False
    assert row["goodput_share"] == 0


def test_values_are_plain(run):
    assert {type(value) for value in point_row(run).values()} <= {int, float, str, bool, type(None)}
