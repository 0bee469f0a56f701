"""How busy matrix units, memory and links are over a run: its steps costed once more, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.cost.question import AskedStep
from simulator.cost.result import RESOURCES, StepResult
from simulator.cost.step import cost_step
from simulator.serve.over_time import OverTime, spread_over
from simulator.serve.run import ServingRun

Floats = NDArray[np.float64]
_PER_OCTAVE = 2
_LEAST_CONTEXT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Share of time that each resource of a chip is needed, one value a bin of `OverTime`.

    `mean`: over the run. `points`: distinct steps that were costed for it.
    """

    shares: dict[str, Floats]
    mean: dict[str, float]
    points: int


@dataclass(frozen=True, slots=True)
class _Bins:
    """Per bin: seconds of steps that only decode and of those with prompts, and what they have."""

    decode_s: Floats
    prompt_s: Floats
    decoding: Floats
    prompt_tokens: Floats
    context: Floats


def resource_use(run: ServingRun, times: OverTime) -> ResourceUse:
    """Use of every resource by bins; nothing where a kind of step cannot be costed.

    Assumes: steps of a bin use resources as one step of the bin's mean batch and context does, both
        rounded to half an octave, and those with prompts as a prefill step of their prompt tokens
        after half of a mean input; a replica for prefill alone is like one that decodes.
    """
    bins = _bins(run, times)
    known: dict[tuple[str, int, int], dict[str, float]] = {}
    asked, past = run.deployment.asked, _mean_input(run) / 2
    shares = {name: np.zeros(len(times.start_s)) for name in RESOURCES}
    whole = times.bin_s * max(1, len(run.steps))
    for place in range(len(times.start_s)):
        for phase, seconds, amount, context in (
            ("decode", bins.decode_s[place], bins.decoding[place], bins.context[place]),
            ("prefill", bins.prompt_s[place], bins.prompt_tokens[place], past),
        ):
            if seconds <= 0 or amount <= 0:
                continue
            key = (phase, _rounded(amount), _rounded(max(context, _LEAST_CONTEXT)))
            if key not in known:
                known[key] = _shares(asked, *key)
            for name, share in known[key].items():
                shares[name][place] += share * seconds / whole
    mean = {name: float(values.mean()) for name, values in shares.items()}
    return ResourceUse(shares=shares, mean=mean, points=len(known))


def _bins(run: ServingRun, times: OverTime) -> _Bins:
    edges = np.append(times.start_s, times.start_s[-1] + times.bin_s) * 1e9
    sums = {name: np.zeros(len(times.start_s)) for name in ("d", "p", "requests", "tokens", "n")}
    for log in run.steps:
        columns = log.columns()
        alone = columns["prompt_tokens"] == 0
        for name, amounts in (
            ("d", columns["duration_ns"] * alone),
            ("p", columns["duration_ns"] * ~alone),
            ("requests", columns["decoding"] * columns["duration_ns"] * alone),
            ("tokens", columns["prompt_tokens"]),
            ("n", columns["steps"] * ~alone),
        ):
            sums[name] += spread_over(columns, amounts, edges)
    return _Bins(
        decode_s=sums["d"] / 1e9,
        prompt_s=sums["p"] / 1e9,
        decoding=_ratio(sums["requests"], sums["d"]),
        prompt_tokens=_ratio(sums["tokens"], sums["n"]),
        context=_mean_context(run, (edges[:-1] + edges[1:]) / 2),
    )


def _ratio(amounts: Floats, by: Floats) -> Floats:
    return np.divide(amounts, by, out=np.zeros_like(amounts), where=by > 0)


def _mean_context(run: ServingRun, moments: Floats) -> Floats:
    """Mean context of the requests that decode at each moment; answers grow evenly."""
    requests, done = run.requests, run.requests.finished
    first = requests.column("first_token_ns")[done].astype(np.float64)
    last = requests.column("finish_ns")[done].astype(np.float64)
    output = requests.column("output_tokens")[done]
    slope = output / np.maximum(last - first, 1)
    base = requests.column("input_tokens")[done] - slope * first
    ones = np.ones_like(first)
    alive, bases, slopes = (
        _sum_until(first, values, moments) - _sum_until(last, values, moments)
        for values in (ones, base, slope)
    )
    return _ratio(np.maximum(bases + slopes * moments, 0.0), np.rint(alive))


def _sum_until(since: Floats, values: Floats, moments: Floats) -> Floats:
    order = np.argsort(since, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(values[order])])
    found: Floats = sums[np.searchsorted(since[order], moments, side="right")]
    return found


def _mean_input(run: ServingRun) -> float:
    inputs = run.requests.column("input_tokens")[run.requests.finished]
    return float(inputs.mean()) if len(inputs) else 0.0


def _rounded(amount: float) -> int:
    """To half an octave."""
    return max(1, round(2 ** (round(log2(max(amount, 1)) * _PER_OCTAVE) / _PER_OCTAVE)))


def _shares(asked: AskedStep, phase: str, amount: int, context: int) -> dict[str, float]:
    """Of a step: decode of so many requests, or prefill of so many tokens after a context."""
    ranks = asked.question.layout.data
    if phase == "decode":
        batch, new, context = ceil(amount / ranks) * ranks, 1, context
    else:
        batch, new = ranks, ceil(amount / ranks)
        context += new
    context = min(context, asked.config.max_position_embeddings)
    step = asked.changed(phase=phase, batch=batch, context=context, new_tokens=min(new, context))
    try:
        return shares_of(cost_step(step, must_fit=False))
    except InputError:
        return {}


def shares_of(result: StepResult) -> dict[str, float]:
    """Share of a step's time that each resource would need alone."""
    busy: dict[str, int] = {}
    for kernel in result.kernels:
        for name, time_ps in kernel.busy_ps.items():
            busy[name] = busy.get(name, 0) + time_ps
    return {name: time_ps / result.total_ps for name, time_ps in busy.items()}
