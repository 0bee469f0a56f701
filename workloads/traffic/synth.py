"""Synthetic sessions: turns, growing contexts, waits and sub-agents, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from workloads.traffic.gaps import arrivals_s, draw
from workloads.traffic.synth_spec import SynthSpec
from workloads.traffic.trace import Ints

Floats = NDArray[np.float64]
_SUBAGENT_GROWTH = 1500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthChain:
    """Requests of one main chain or one sub-agent, in order; arrays [turns].

    `new_tokens`: what a turn adds beyond the context and reply before it. `wait_ns`: after the
    reply before. `rewrites`: turns that rewrite the last block before them. `after`: place in the
    main chain of the request that called this sub-agent, -1 for a main chain.
    """

    input_tokens: Ints
    output_tokens: Ints
    new_tokens: Ints
    wait_ns: Ints
    rewrites: NDArray[np.bool_]
    after: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthSession:
    """A session: when it starts, the group whose system prompt it has (-1: its own), its chains."""

    start_ns: int
    group: int
    main: SynthChain
    subagents: tuple[SynthChain, ...]


def synth_sessions(spec: SynthSpec) -> list[SynthSession]:
    """Sessions in order of start; the same spec gives the same ones.

    Assumes: in synthetic traces first inputs, growth, replies and turns of a session are
    independent of each other; contexts grow from the first to the last turn in random steps.
    Raises InputError if the two mean inputs cannot both be met.
    """
    rng = np.random.default_rng(spec.seed)
    starts = _starts(rng, spec)
    groups = rng.integers(0, spec.groups, spec.sessions) if spec.groups else None
    called = _subagents(rng, spec)
    main_requests = spec.total - spec.subagent_requests
    turns = _apportion(main_requests, draw(rng, "lognormal", 1.0, spec.turns_cv, spec.sessions))
    mains = _mains(rng, spec, turns, sum(int(chain.input_tokens.sum()) for chain in called))
    owner = rng.choice(spec.sessions, size=len(called), p=turns / turns.sum())
    place = np.floor(rng.random(len(called)) * turns[owner]).astype(np.int64)
    held: dict[int, list[SynthChain]] = {}
    for number in np.lexsort((place, owner)).tolist():
        chain = called[number]
        held.setdefault(int(owner[number]), []).append(_called_after(chain, int(place[number])))
    return [
        SynthSession(
            start_ns=int(starts[i]),
            group=-1 if groups is None else int(groups[i]),
            main=mains[i],
            subagents=tuple(held.get(i, ())),
        )
        for i in range(spec.sessions)
    ]


def _starts(rng: np.random.Generator, spec: SynthSpec) -> Ints:
    if spec.rate_per_s is None:
        return np.zeros(spec.sessions, dtype=np.int64)
    times = arrivals_s(rng, spec.arrival, spec.rate_per_s, spec.arrival_cv, spec.sessions)
    return np.rint(times * 1e3).astype(np.int64) * 10**6  # formats carry whole ms


def _apportion(total: int, weights: Floats) -> Ints:
    """Whole numbers of at least 1 that add up to `total`, as near to the weights as they can."""
    shares = weights / weights.sum() * (total - len(weights))
    counts = np.floor(shares).astype(np.int64)
    rest = total - len(weights) - int(counts.sum())
    counts[np.argsort(counts - shares, kind="stable")[:rest]] += 1
    return counts + 1


def _chains(
    rng: np.random.Generator, spec: SynthSpec, turns: Ints
) -> tuple[Ints, Ints, Ints, Floats]:
    """First request of every chain, outputs, least growth since the first, and share of growth.

    The least growth is the replies before and one new token a turn.
    """
    first = np.cumsum(turns) - turns
    count = int(turns.sum())
    outputs = np.maximum(1, np.rint(draw(rng, "gamma", spec.output_mean, spec.output_cv, count)))
    replies = outputs.astype(np.int64)
    steps = replies + 1
    least = np.cumsum(steps) - steps
    least -= np.repeat(least[first], turns)
    weights = rng.gamma(2.0, 1.0, count)
    weights[first] = 0.0
    grown = np.cumsum(weights)
    grown -= np.repeat(grown[first], turns)
    whole = np.repeat(grown[first + turns - 1], turns)
    return first, replies, least, np.divide(grown, whole, out=np.zeros(count), where=whole > 0)


def _mains(
    rng: np.random.Generator, spec: SynthSpec, turns: Ints, subagent_tokens: int
) -> list[SynthChain]:
    first, replies, least, share = _chains(rng, spec, turns)
    begin = np.repeat(draw(rng, "lognormal", 1.0, spec.input_cv, len(turns)), turns)
    growth = np.repeat(draw(rng, "lognormal", 1.0, spec.input_cv, len(turns)), turns) * share
    fixed = spec.system_tokens + least
    wanted = spec.input_mean * spec.total - subagent_tokens - fixed.sum()
    scale_begin, scale_growth = _scales(spec, first + turns - 1, begin, growth, fixed, wanted)
    inputs = fixed + np.maximum(1, np.floor(scale_begin * begin)).astype(np.int64)
    inputs += np.floor(scale_growth * growth).astype(np.int64)
    return _split(rng, spec, turns, inputs, replies, spec.rewrite_share)


def _scales(
    spec: SynthSpec, last: Ints, begin: Floats, growth: Floats, fixed: Ints, wanted: float
) -> tuple[float, float]:
    """Scales of first inputs and of growth for which both means hold: two linear equations."""
    if spec.last_input_mean is None or not growth.any():
        scale = wanted / begin.sum()
        if scale <= 0:
            least = spec.input_mean - wanted / spec.total
            raise InputError(
                f"input_mean is {spec.input_mean:,.0f}, but system prompt, replies and sub-agents "
                f"alone make {least:,.0f}; raise it or shorten those"
            )
        return float(scale), 0.0
    wanted_last = spec.last_input_mean * len(last) - fixed[last].sum()
    sums = np.array([[begin.sum(), growth.sum()], [begin[last].sum(), growth[last].sum()]])
    scales = np.linalg.solve(sums, np.array([wanted, wanted_last]))
    if scales.min() < 0:
        base = spec.input_mean - wanted / spec.total
        bounds = [base + wanted_last * sums[0, i] / sums[1, i] / spec.total for i in (0, 1)]
        raise InputError(
            f"input_mean is {spec.input_mean:,.0f} with last_input_mean "
            f"{spec.last_input_mean:,.0f}, expected {min(bounds):,.0f} to {max(bounds):,.0f} with "
            "these turns, replies and system prompt; change one of the two means"
        )
    return float(scales[0]), float(scales[1])


def _split(
    rng: np.random.Generator,
    spec: SynthSpec,
    turns: Ints,
    inputs: Ints,
    replies: Ints,
    rewrite_share: float,
) -> list[SynthChain]:
    """Chains out of columns, with waits and rewrites drawn for every request."""
    count = len(inputs)
    seconds = draw(rng, "lognormal", max(spec.wait_mean_s, 1e-9), spec.wait_cv, count)
    waits = np.rint(seconds * 1e3).astype(np.int64) * 10**6
    rewrites = rng.random(count) < rewrite_share
    new = inputs.copy()
    new[1:] -= inputs[:-1] + replies[:-1]
    ends = np.cumsum(turns)
    chains = []
    for start, end in zip((ends - turns).tolist(), ends.tolist(), strict=True):
        new[start], waits[start], rewrites[start] = inputs[start], 0, False
        chains.append(
            SynthChain(
                input_tokens=inputs[start:end],
                output_tokens=replies[start:end],
                new_tokens=new[start:end],
                wait_ns=waits[start:end],
                rewrites=rewrites[start:end],
            )
        )
    return chains


def _subagents(rng: np.random.Generator, spec: SynthSpec) -> list[SynthChain]:
    """Sub-agents, not yet of any session: the system prompt, a task, and what they read."""
    count = spec.subagent_requests
    if not count:
        return []
    agents = max(1, min(count, round(count / spec.subagent_turns)))
    turns = _apportion(count, draw(rng, "lognormal", 1.0, spec.turns_cv, agents))
    _, replies, least, _ = _chains(rng, spec, turns)
    task = draw(rng, "lognormal", spec.subagent_input, spec.input_cv, agents)
    read = np.cumsum(draw(rng, "gamma", _SUBAGENT_GROWTH, 1.0, count))
    read -= np.repeat(read[np.cumsum(turns) - turns], turns)
    added = np.maximum(1, np.repeat(task, turns)).astype(np.int64) + read.astype(np.int64)
    inputs = spec.system_tokens + least + added
    return _split(rng, spec, turns, inputs, replies, 0.0)


def _called_after(chain: SynthChain, after: int) -> SynthChain:
    return SynthChain(
        input_tokens=chain.input_tokens,
        output_tokens=chain.output_tokens,
        new_tokens=chain.new_tokens,
        wait_ns=chain.wait_ns,
        rewrites=chain.rewrites,
        after=after,
    )
