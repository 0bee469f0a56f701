"""The requests of a scenario: a trace that is read, or one made from numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.serve.client import Client, VllmBench
from simulator.serve.scenario import FixedShape, Scenario, Traffic
from workloads.traffic.readers import read_trace
from workloads.traffic.synth_files import write_synth
from workloads.traffic.synth_spec import SynthSpec
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Ints, Trace
from workloads.traffic.transforms import Transforms

MADE_BLOCK_TOKENS = 64
Floats = NDArray[np.float64]
# What follows from such times still fits into 64 bits.
_MOST_NS = 100 * 365 * 86400 * 10**9


def trace_of(scenario: Scenario) -> Trace:
    """Requests of a scenario, seeded by it; every one has an answer."""
    trace = answered(_asked(scenario))
    if scenario.prefix_cache is not None:
        require_ids(trace)
    return trace


def require_ids(trace: Trace) -> None:
    """Refuse a trace that does not say which prompts share a prefix, where prefixes are kept."""
    if not trace.block_tokens:
        raise InputError(
            f"a prefix cache is asked for, but the trace {trace.name!r} has no block ids that say "
            "which prompts share a prefix; leave prefix_cache out, or give a trace with ids"
        )


def answered(trace: Trace) -> Trace:
    """A trace whose requests ask for a token at least, which comes with the prompt; it says so."""
    silent = int((trace.output_tokens < 1).sum())
    if not silent:
        return trace
    note = (
        f"{silent:,} of {len(trace):,} requests ask for no output token and are served with one, "
        "which the prompt's own step gives"
    )
    outputs = np.maximum(trace.output_tokens, 1)
    return replace(trace, output_tokens=outputs, notes=(*trace.notes, note))


def _asked(scenario: Scenario) -> Trace:
    traffic = scenario.traffic
    if traffic.made is not None:
        return made_trace(traffic.made, scenario.seed)
    if traffic.client is not None:
        return _cut(client_trace(traffic.client), traffic, scenario.seed)
    spec = traffic.synth_spec(scenario.seed)
    if spec is not None:
        return _cut(_drawn(spec), traffic, scenario.seed)
    return _cut(read_traffic(traffic), traffic, scenario.seed)


def _drawn(spec: SynthSpec) -> Trace:
    """Synthetic sessions, as they are read from the file that v4sim trace synth writes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.jsonl"
        write_synth(path, spec, "weka-ranges")
        return replace(read_trace(path, strict=True), name="synthetic")


def _cut(trace: Trace, traffic: Traffic, seed: int) -> Trace:
    asked = Transforms(window_s=traffic.window_s, sample=traffic.sample, sample_seed=seed)
    trace = asked.apply(trace)
    return trace if traffic.first is None else first_requests(trace, traffic.first)


def read_traffic(traffic: Traffic) -> Trace:
    """The whole trace file of a traffic; one without a request is refused."""
    assert traffic.trace is not None
    trace = read_trace(
        traffic.trace,
        spread_seed=traffic.spread_seed,
        columns=traffic.columns,
        ignore=traffic.ignore,
        chars_per_token=traffic.estimate_tokens,
    )
    if not len(trace):
        raise InputError(f"{traffic.trace}: the trace has no request")
    return trace


def first_requests(trace: Trace, count: int) -> Trace:
    """The first `count` requests; followers of those left out are left out as well."""
    kept = np.arange(len(trace)) < count
    for index in range(min(count, len(trace))):
        parent = int(trace.parent[index])
        if parent != NO_REQUEST and not kept[parent]:
            kept[index] = False
    return select(trace, np.flatnonzero(kept))


def select(trace: Trace, rows: Ints) -> Trace:
    """A trace of some requests, their parents among them."""
    taken = trace.take(rows)
    return replace(taken, notes=(*trace.notes, f"{len(rows):,} of {len(trace):,} requests"))


def made_trace(shape: FixedShape, seed: int) -> Trace:
    """Requests of given lengths and arrivals; each a session of its own."""
    draw = np.random.default_rng(seed)
    count = shape.requests
    inputs = _lengths(draw, shape.input_tokens, shape.range_ratio, count)
    shared = shape.shared_prefix_tokens
    notes = _made_notes(shape, inputs)
    inputs = np.maximum(inputs, shared)
    offsets, first, counts = _blocks(shape, inputs)
    none = np.full(count, NO_TIME, dtype=np.int64)
    return Trace(
        name="made",
        block_tokens=MADE_BLOCK_TOKENS,
        arrival_ns=_arrivals(draw, shape, count) if shape.rate_per_s else none,
        delay_ns=np.zeros(count, dtype=np.int64),
        input_tokens=inputs,
        output_tokens=_lengths(draw, shape.output_tokens, shape.range_ratio, count),
        session=np.arange(count, dtype=np.int64),
        parent=np.full(count, NO_REQUEST, dtype=np.int64),
        run_offsets=offsets,
        run_first=first,
        run_count=counts,
        notes=notes,
    )


def client_trace(client: Client) -> Trace:
    """Prompts of a benchmark client, no two with a prefix in common; each a session of its own."""
    inputs, outputs = client.lengths()
    count = len(inputs)
    none = np.full(count, NO_TIME, dtype=np.int64)
    blocks = -(-inputs // MADE_BLOCK_TOKENS)
    starts = np.concatenate([[0], np.cumsum(blocks)[:-1]]).astype(np.int64)
    return Trace(
        name=client.kind,
        block_tokens=MADE_BLOCK_TOKENS,
        arrival_ns=none if client.concurrency else _client_arrivals(client, count),
        delay_ns=np.zeros(count, dtype=np.int64),
        input_tokens=inputs,
        output_tokens=outputs,
        session=np.arange(count, dtype=np.int64),
        parent=np.full(count, NO_REQUEST, dtype=np.int64),
        run_offsets=np.arange(count + 1, dtype=np.int64),
        run_first=starts,
        run_count=blocks,
    )


def _client_arrivals(client: Client, count: int) -> Ints:
    """Moments at which prompts are sent: at once, or Poisson (vLLM's: gamma) at a rate."""
    if client.rate_per_s is None:
        return np.zeros(count, dtype=np.int64)
    draw, gap_ns = np.random.default_rng(client.seed), 1e9 / client.rate_per_s
    shape = client.burstiness if isinstance(client, VllmBench) else 1.0
    return whole_times(np.cumsum(draw.gamma(shape, gap_ns / shape, count)))


def _made_notes(shape: FixedShape, inputs: Ints) -> tuple[str, ...]:
    """What is asked for of lengths and is not made so."""
    notes, shared = [], shape.shared_prefix_tokens
    short = int((inputs < shared).sum())
    if short:
        notes.append(
            f"{short:,} of {len(inputs):,} inputs were drawn shorter than the {shared:,} shared "
            "tokens, and are made as long"
        )
    if shared % MADE_BLOCK_TOKENS:
        notes.append(
            f"of {shared:,} shared tokens {shared // MADE_BLOCK_TOKENS * MADE_BLOCK_TOKENS:,} can "
            f"be found again: prompts are told apart in blocks of {MADE_BLOCK_TOKENS}"
        )
    return tuple(notes)


def _lengths(draw: np.random.Generator, most: int, ratio: float, count: int) -> Ints:
    least = max(1, round(ratio * most))
    return draw.integers(least, most, size=count, endpoint=True, dtype=np.int64)


def _arrivals(draw: np.random.Generator, shape: FixedShape, count: int) -> Ints:
    gap_ns = 1e9 / (shape.rate_per_s or 1)
    if shape.arrivals == "fixed":
        gaps = np.full(count, gap_ns)
    elif shape.arrivals == "poisson":
        gaps = draw.exponential(gap_ns, count)
    else:
        k = 1 / shape.cv**2
        gaps = draw.gamma(k, gap_ns / k, count)
    return whole_times(np.cumsum(gaps))


def whole_times(times_ns: Floats) -> Ints:
    """Moments rounded to ns; raises InputError for those that lie too far away to be counted."""
    last = float(times_ns.max(initial=0.0))
    if last > _MOST_NS:
        raise InputError(
            f"the last of {len(times_ns):,} requests comes after {last / 1e9:.3g} s, expected at "
            f"most {_MOST_NS / 1e9:.3g} s (100 years); give fewer requests, or a higher rate_per_s "
            "or rate_scale"
        )
    return np.rint(times_ns).astype(np.int64)


def _blocks(shape: FixedShape, inputs: Ints) -> tuple[Ints, Ints, Ints]:
    """Two runs a request: the prefix that all share, and its own."""
    shared = shape.shared_prefix_tokens // MADE_BLOCK_TOKENS
    own = -(-inputs // MADE_BLOCK_TOKENS) - shared
    starts = shared + np.concatenate([[0], np.cumsum(own)[:-1]])
    first = np.stack([np.zeros_like(starts), starts], axis=1)
    counts = np.stack([np.full_like(own, shared), own], axis=1)
    kept = counts > 0
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
    return offsets, first[kept].astype(np.int64), counts[kept].astype(np.int64)
