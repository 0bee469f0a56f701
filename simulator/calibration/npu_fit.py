"""Fits the constants of tiled families on Ascend cores to measured steps and operators.

`python -m simulator.calibration.npu_fit TABLE` prints what it finds, with each setting (chip,
model, precision) left out in turn, and writes the package's files where `--write` is given.

Every row is lowered once by the engine's own profile. A step is then the streams of its layers
with kernels whose units take as long as tiles say at peak, over the share of the constants;
operators are kernels one after the other. Rows alone do not fix all constants: each is drawn to a
stated prior, of physics on one architecture, of the other's fit on the next; a constant that rows
move by less than the prior's own width is named as not identified.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.calibration.npu_rows import (
    NpuRow,
    asked_operator,
    asked_step,
    is_asked,
    read_npu_rows,
)
from simulator.cost.draft_pass import draft_passes
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import Target
from simulator.cost.question import AskedStep, step_of
from simulator.cost.recording import Recording
from simulator.cost.roofline import RESOURCES, Floors, pipe_shares, roofline_price
from simulator.cost.step import rank_graph
from simulator.cost.tile import TileBatch, pipelined_ps
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import fresh_constants, write_constants
from simulator.kernels.fitted import FamilyFile, Fitted
from simulator.kernels.regime import Regime
from simulator.kernels.unit_rates import ASCEND, MICRO
from workloads.run_stats import RunStats

# Resource of the tile model -> constant that says what share of its peak is reached.
_SHARE_OF = {
    "matrix": "cube",
    "vector": "vector",
    "special": "vector",
    "link": "link",
    "memory": "memory",
}
# Where a constant is drawn to, and how far it may lie from there in log: starts are what the
# smallest kernels of the sources take (hc_post 4.3 to 5.4 us), exchanges take tens of microseconds,
# units reach most of their peak.
_PRIOR_START_US = {"ascend_exchange": 20.0, "ascend_activation": 10.0, "ascend_indexer": 15.0}
_PRIOR_START = 4.5
_PRIOR_SHARE = {"cube": 0.6, "vector": 0.6, "memory": 0.8, "link": 0.6}
WIDTH_START, WIDTH_SHARE = 0.7, 0.25
# What a row is off by beyond its constants: the fit weighs rows by it.
ROW_ERROR = 0.1
# A constant whose standard error is above this part of its prior's width is not fixed by rows.
IDENTIFIED = 0.7

Values = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class _Layers:
    """A row's kernels: busy time by unit at peak, how they overlap, and on which stream."""

    row: NpuRow
    architecture: str
    families: tuple[str, ...]
    busy_ps: NDArray[np.float64]
    latency_ps: tuple[int, ...]
    chunks: tuple[float, ...]
    far: tuple[bool, ...]
    layers: tuple[tuple[int, tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], ...]], ...]
    measured_s: float
    scale: float

    def seconds(self, values: Values) -> float:
        """Time of the row's metric under constants."""
        costs = [self._cost(i, values) for i in range(len(self.families))]
        total = 0
        for repeats, members, streams, after in self.layers:
            total += repeats * layer_ps([costs[i] for i in members], streams, after)
        return total * 1e-12 * self.scale

    def _cost(self, at: int, values: Values) -> Cost:
        own = values[self.families[at]]
        busy = [
            math.ceil(ps / own[_SHARE_OF[name]] if name in _SHARE_OF else ps)
            for name, ps in zip(RESOURCES, self.busy_ps[:, at], strict=True)
        ]
        run = self.latency_ps[at] + pipelined_ps(busy, self.chunks[at])
        busy[4 if self.far[at] else 5] += self.latency_ps[at]
        return Cost(round(own["start_us"] * 1e6), run, pipe_shares(run, busy))


def layers_of(row: NpuRow) -> _Layers:
    """A row lowered once, at the peak of every unit."""
    operator = row.kind == "operator"
    if operator:
        asked, kernels = asked_operator(row)
        scopes = {f"{i}": [kernel] for i, kernel in enumerate(kernels)}
        scale = 1.0 / (len(kernels) if "per call" in row.texts["metric"] else 1)
        measured = row.value * MICRO
    else:
        asked, yielded = asked_step(row)
        scopes, scale, measured = _scopes(asked), 1.0 / yielded, row.value * 1e-3
    target = Target(asked.chip, asked.node, asked.deployment.profile)
    demands = list(dict.fromkeys(k.demand for own in scopes.values() for k in own))
    place = {demand: i for i, demand in enumerate(demands)}
    tiled = _at_peak(demands, target)
    layers: dict[tuple[object, ...], int] = {}
    for own in scopes.values():
        after = tuple((() if operator else kernel.after) for kernel in own)
        key = (tuple(place[k.demand] for k in own), tuple(k.stream for k in own), after)
        layers[key] = layers.get(key, 0) + 1
    return _Layers(
        row,
        core_architecture(asked.chip),
        tuple(_family(demand, target) for demand in demands),
        tiled[0], tiled[1], tiled[2], tiled[3],
        tuple((n, *key) for key, n in layers.items()),  # type: ignore[misc]
        measured,
        scale,
    )  # fmt: skip


def _scopes(asked: AskedStep) -> dict[str, list[Kernel]]:
    """Kernels of a step and of its draft passes by layer."""
    stats, profile = RunStats(), asked.deployment.profile
    precision = asked.deployment.formats.precision
    kernels = list(lower(rank_graph(asked.question, asked.config, precision), profile, stats))
    drafts = asked.question.draft_tokens
    if drafts:
        layout = asked.question.layout
        for one in draft_passes(asked.config, precision, layout, step_of(asked.question), drafts):
            kernels += one.kernels(profile, stats)
    scopes: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        scopes.setdefault(kernel.scope, []).append(kernel)
    return scopes


def _family(demand: Demand, target: Target) -> str:
    assert demand.priced_as is not None
    return target.kernels[demand.priced_as.kernel].families[0].family


def _at_peak(
    demands: Sequence[Demand], target: Target
) -> tuple[NDArray[np.float64], tuple[int, ...], tuple[float, ...], tuple[bool, ...]]:
    """Busy time by unit and demand at the peaks, latencies, chunks, and whether memory is read."""
    peaks = {name: dict.fromkeys((*_SHARE_OF.values(), "start_us"), 1.0) for name in ASCEND}
    with fresh_constants(_files(peaks, {target.chip.architecture, core_architecture(target.chip)})):
        recording = Recording()
        batch = TileBatch(recording, demands, target)
        floors = Floors.of_prices([roofline_price(demand, target) for demand in demands])
        tiled = batch.tiled(floors, recording.values)
    return (
        tiled.busy_ps.astype(np.float64), tuple(tiled.latency_ps.tolist()),
        tuple(tiled.chunks.tolist()), tuple(tiled.far.tolist()),
    )  # fmt: skip


def _files(values: Values, architectures: set[str]) -> list[FamilyFile]:
    flat = (Regime(log_error_p10=0.0, log_error_p90=0.0, rows=0),)
    return [
        FamilyFile(
            family=name,
            architectures={
                own: Fitted(
                    constants=dict(constants), rows=0, median_error=0.0, p90_error=0.0, bias=0.0,
                    regimes=flat,
                )
                for own in architectures
            },
        )
        for name, constants in values.items()
    ]  # fmt: skip


def prior_of(family: str, constant: str) -> float:
    """Where physics and the sources' smallest kernels put a constant."""
    if constant == "start_us":
        return _PRIOR_START_US.get(family, _PRIOR_START)
    return _PRIOR_SHARE[constant]


def width_of(constant: str) -> float:
    """How far a constant may lie from its prior, in log."""
    return WIDTH_START if constant == "start_us" else WIDTH_SHARE


@dataclass(frozen=True, slots=True)
class Found:
    """Constants of all families on one architecture, and their standard errors in log."""

    values: Values
    errors: Values


def fit(
    rows: Sequence[_Layers],
    prior: Values,
    weight: Callable[[_Layers], float],
    begin: Values | None = None,
) -> Found:
    """The most likely constants under rows with a log-normal error, and a log-normal prior."""
    from scipy.optimize import least_squares

    names = [(f, c.name) for f, family in ASCEND.items() for c in family.constants]
    bounds = {c.name: (c.low, c.high) for f in ASCEND.values() for c in f.constants}
    start = np.log([prior[f][c] for f, c in names])
    first = np.log([(begin or prior)[f][c] for f, c in names])
    low, high = (np.log([bounds[c][side] for _, c in names]) for side in (0, 1))

    def values(x: NDArray[np.float64]) -> Values:
        found: Values = {}
        for (family, constant), one in zip(names, np.exp(x), strict=True):
            found.setdefault(family, {})[constant] = float(one)
        return found

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        own = values(x)
        off = [
            math.log(row.seconds(own) / row.measured_s) / ROW_ERROR * weight(row) for row in rows
        ]
        drawn = [(x[i] - start[i]) / width_of(c) for i, (_, c) in enumerate(names)]
        return np.array([*off, *drawn])

    found = least_squares(
        residuals, np.clip(first, low + 1e-6, high - 1e-6), bounds=(low, high), diff_step=1e-3,
        xtol=1e-4, ftol=1e-4, max_nfev=12,
    )  # fmt: skip
    spread = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
    errors: Values = {}
    for (family, constant), one in zip(names, spread, strict=True):
        errors.setdefault(family, {})[constant] = float(one)
    return Found(values(found.x), errors)


PHYSICS: Values = {
    name: {c.name: prior_of(name, c.name) for c in family.constants}
    for name, family in ASCEND.items()
}


def weights(rows: Sequence[_Layers]) -> Callable[[_Layers], float]:
    """Rows of one setting say much the same: together they count as the root of their number."""
    counts: dict[object, int] = {}
    for row in rows:
        counts[row.row.group] = counts.get(row.row.group, 0) + 1
    return lambda row: counts[row.row.group] ** -0.25


def fit_all(rows: Sequence[_Layers], begin: Mapping[str, Found] | None = None) -> dict[str, Found]:
    """Both architectures: 950 drawn to physics, 910B and 910C to what 950 gave."""
    newer = [row for row in rows if row.architecture == "ascend-950"]
    older = [row for row in rows if row.architecture != "ascend-950"]
    starts = {name: own.values for name, own in (begin or {}).items()}
    first = fit(newer, PHYSICS, weights(newer), starts.get("ascend-950"))
    other = fit(older, first.values, weights(older), starts.get("ascend-910b"))
    return {"ascend-950": first, "ascend-910b": other}


def left_out(rows: Sequence[_Layers], whole: Mapping[str, Found]) -> dict[int, float]:
    """log(predicted / measured) of every row, by line, under constants fitted without its group."""
    found: dict[int, float] = {}
    for group in dict.fromkeys(row.row.group for row in rows):
        own = fit_all([row for row in rows if row.row.group != group], whole)
        for row in rows:
            if row.row.group == group:
                seconds = row.seconds(own[row.architecture].values)
                found[row.row.line] = math.log(seconds / row.measured_s)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, leave out, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(arguments)
    rows = [layers_of(row) for row in read_npu_rows(given.table) if _fitted(row)]
    found = fit_all(rows)
    errors = left_out(rows, found)
    for architecture, own in found.items():
        for family, constants in own.values.items():
            said = ", ".join(
                f"{name} {value:.3g} ({own.errors[family][name]:.2f})"
                for name, value in constants.items()
            )
            print(f"{architecture} {family}: {said}")
    for row in rows:
        fitted = row.seconds(found[row.architecture].values) / row.measured_s
        print(
            f"line {row.row.line}: {', '.join(row.row.group)}: fitted {fitted - 1:+.1%}, left out "
            f"{math.exp(errors[row.row.line]) - 1:+.1%}"
        )
    for kind in ("step", "operator"):
        own_errors = [abs(math.exp(errors[r.row.line]) - 1) for r in rows if r.row.kind == kind]
        print(f"{kind}: {len(own_errors)} rows, median left out {np.median(own_errors):.1%}")
    if given.write:
        for content in stored(found, rows, errors):
            print(write_constants(content))


def _fitted(row: NpuRow) -> bool:
    """Times of engines that replay whole graphs; of others the host decides."""
    whole = not row.texts["software"].startswith("vllm")
    return whole and is_asked(row) and not row.texts["unit"].startswith("tok/s")


def stored(
    found: Mapping[str, Found], rows: Sequence[_Layers], errors: Mapping[int, float]
) -> list[FamilyFile]:
    """Files of all families; quantiles are of the left-out errors of operators and of steps."""
    files = []
    for family in ASCEND:
        layers = {}
        for architecture, own in found.items():
            used = [row for row in rows if row.architecture == architecture]
            used = [row for row in used if family in row.families]
            logs = np.array([errors[row.row.line] for row in used] or [0.0])
            off = np.abs(np.exp(logs) - 1)
            low, high = _quantiles(rows, errors)
            layers[architecture] = Fitted(
                constants=own.values[family],
                standard_errors=own.errors[family],
                not_identified=tuple(
                    name
                    for name, error in own.errors[family].items()
                    if error > IDENTIFIED * width_of(name)
                ),
                rows=len(used),
                median_error=float(np.median(off)),
                p90_error=float(np.quantile(off, 0.9)),
                bias=float(np.mean(logs)),
                regimes=(Regime(log_error_p10=low, log_error_p90=high, rows=len(rows)),),
            )
        files.append(FamilyFile(family=family, architectures=layers))
    return files


def _quantiles(rows: Sequence[_Layers], errors: Mapping[int, float]) -> tuple[float, float]:
    """p10 and p90 of left-out errors of operators, which single kernels are as far off as.

    Assumes: constants that few rows fix are off to both sides alike.
    """
    logs = [errors[row.row.line] for row in rows if row.row.kind == "operator"]
    reach = float(np.quantile(np.abs(logs), 0.8))
    return -reach, reach


if __name__ == "__main__":
    main()
