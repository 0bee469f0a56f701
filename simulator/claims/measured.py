"""Serves the scenario of each measured run and sets what it gives beside the measured figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.basis.errors import InputError
from simulator.claims.recipes import MeasuredRow, MeasuredRun
from simulator.serve.client import SglangBench
from simulator.serve.deployment import deploy
from simulator.serve.interval import Band, run_bands
from simulator.serve.run import ServingRun, require_finished, run_scenario
from simulator.serve.scenario import Scenario

# Figures that the table scores, with the unit of the comparison.
UNITS = {"ttft": "ms", "tpot": "ms", "rate": "tok/s/GPU", "output_rate": "tok/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a served run gives, in the units of the rows; medians and means over requests."""

    ttft_p50_ms: float
    ttft_mean_ms: float
    tpot_p50_ms: float
    tpot_mean_ms: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    chips: int
    bands: dict[str, Band] = field(default_factory=dict)

    def rate(self, nominal: float | None) -> float:
        """Tokens a second and chip: as counted, or output tokens times `nominal`."""
        if nominal is None:
            return (self.input_tokens_per_s + self.output_tokens_per_s) / self.chips
        return self.output_tokens_per_s * nominal / self.chips


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row beside ours; `ours` is None where the run could not be served, for `reason`.

    `beside`: the mean where `ours` is a median.
    """

    run: MeasuredRun
    row: MeasuredRow
    figure: str
    ours: float | None
    beside: float | None = None
    reason: str = ""
    band: Band | None = None

    @property
    def difference(self) -> float | None:
        """Relative, ours against the measured."""
        return None if self.ours is None else self.ours / self.row.value - 1

    @property
    def counted(self) -> bool:
        """Whether it has a part in the scores."""
        return self.run.counted and self.ours is not None


def figures_of(run: ServingRun) -> Figures:
    """Figures of a run that is over."""
    requests = run.requests
    done = requests.finished
    begin = int(requests.sent_ns().min(initial=run.end_ns))
    span_s = max(1, run.end_ns - begin) / 1e9
    ttft, tpot = requests.client_ttft_ns() / 1e6, requests.tpot_ns() / 1e6
    return Figures(
        ttft_p50_ms=float(np.median(ttft)),
        ttft_mean_ms=float(ttft.mean()),
        tpot_p50_ms=float(np.median(tpot)),
        tpot_mean_ms=float(tpot.mean()),
        output_tokens_per_s=float(requests.column("output_tokens")[done].sum()) / span_s,
        input_tokens_per_s=float(requests.column("input_tokens")[done].sum()) / span_s,
        chips=run.chips,
    )


def served(run: MeasuredRun, without: Sequence[str] = (), *, bands: bool = False) -> Figures:
    """Serve the run's scenario, some mechanisms left out. Raises InputError where it does not fit.

    `client` as a mechanism: without it all lengths are the nominal ones.
    """
    assert run.scenario is not None
    scenario = _without_some(run.scenario, without)
    found = run_scenario(scenario, deployment=deploy(scenario))
    require_finished(found)
    figures = figures_of(found)
    if not bands:
        return figures
    return replace(figures, bands=run_bands(found, lambda one: _scored(figures_of(one), run)))


def _scored(figures: Figures, run: MeasuredRun) -> dict[str, float]:
    return {
        "ttft": figures.ttft_p50_ms,
        "tpot": figures.tpot_p50_ms,
        "rate": figures.rate(run.nominal),
        "output_rate": figures.output_tokens_per_s,
    }


def _without_some(scenario: Scenario, without: Sequence[str]) -> Scenario:
    left_out = tuple(name for name in without if name != "client")
    changed = scenario.model_copy(update={"without": left_out})
    client = changed.traffic.client
    if "client" not in without or not isinstance(client, SglangBench):
        return changed
    traffic = changed.traffic.model_copy(
        update={"client": client.model_copy(update={"range_ratio": 1.0})}
    )
    return changed.model_copy(update={"traffic": traffic})


def compare(
    run: MeasuredRun, metrics: dict[str, str], serve: Callable[[MeasuredRun], Figures] = served
) -> list[Measured]:
    """Every row of a run beside ours."""
    if run.scenario is None:
        return [_without(run, row, metrics, run.reason) for row in run.rows]
    try:
        figures = serve(run)
    except InputError as error:
        return [_without(run, row, metrics, error.message) for row in run.rows]
    return [_compared(run, row, metrics, figures) for row in run.rows]


def _without(run: MeasuredRun, row: MeasuredRow, metrics: dict[str, str], reason: str) -> Measured:
    figure = metrics.get(row.metric, "")
    return Measured(run=run, row=row, figure=figure, ours=None, reason=reason)


def _compared(
    run: MeasuredRun, row: MeasuredRow, metrics: dict[str, str], figures: Figures
) -> Measured:
    figure = metrics.get(row.metric, "")
    if figure not in UNITS or row.unit != UNITS[figure]:
        reason = f"metric {row.metric!r} in {row.unit} is not one that a run gives"
        return _without(run, row, metrics, reason)
    ours = _scored(figures, run)[figure]
    beside = {"ttft": figures.ttft_mean_ms, "tpot": figures.tpot_mean_ms}.get(figure)
    return Measured(
        run=run,
        row=row,
        figure=figure,
        ours=ours,
        beside=beside,
        reason=run.note,
        band=figures.bands.get(figure),
    )
