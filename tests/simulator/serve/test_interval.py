"""Bands of a run's figures: they hold the run itself, and widen with what is varied."""

from __future__ import annotations

import pytest

from simulator.serve.interval import run_bands, serving_figures
from simulator.serve.run import run_scenario
from tests.laws.test_serving_laws import scenario


@pytest.mark.parametrize("without", [[], ["host"]])
def test_bands_hold_the_run(without: list[str]) -> None:
    made = {"input_tokens": 2048, "output_tokens": 64, "requests": 12, "concurrency": 4}
    asked = scenario(
        parallel={"tp": 8},
        traffic={"made": made},
        speculation={"draft_tokens": 1, "accepted": [1.8]},
        without=without,
    )
    run = run_scenario(asked)
    figures, bands = serving_figures(run), run_bands(run, serving_figures)
    for name, value in figures.items():
        assert bands[name].low < value < bands[name].high
        assert bands[name].holds(value)
