"""One run of the controller over a list of chunks: checks, arrays, compiled call, result."""

from __future__ import annotations

import numpy as np

from hwmodels.dram import words as w
from hwmodels.dram.chunks import Chunks
from hwmodels.dram.mapping import DEFAULT_MAPPING, parse_mapping
from hwmodels.dram.parameters import ControllerSpec, controller_memory, controller_parameters
from hwmodels.dram.preset import DramPreset
from hwmodels.dram.result import DramResult, RawRun, make_result
from simulator.basis.errors import InputError


def run_chunks(
    preset: DramPreset,
    chunks: Chunks,
    *,
    channels: int = 1,
    mapping: str = DEFAULT_MAPPING,
    interleave_bytes: int = 256,
    hashed: bool = True,
    outstanding: int = 64,
    spec: ControllerSpec | None = None,
    warm_up: int = 0,
    steady: bool = False,
    trace_commands: int = 0,
) -> DramResult:
    """Serve chunks on `channels` channels of a preset, at most `outstanding` at a time.

    The measured window opens when `warm_up` chunks are done (0: at the start) and closes with the
    last chunk, or with `steady` when the last one is issued. `trace_commands` commands are kept.
    """
    spec = spec or ControllerSpec()
    capacity = preset.organisation.channel_bytes * channels
    last = int((chunks.starts + chunks.sizes).max())
    if last > capacity:
        raise InputError(
            f"a chunk ends at byte {last}, but {channels} channels of {preset.name!r} hold "
            f"{capacity} bytes"
        )
    if outstanding < 1:
        raise InputError(f"outstanding is {outstanding}, expected at least 1")
    parameters = controller_parameters(preset, spec, channels, interleave_bytes, hashed)
    digits = parse_mapping(mapping, preset.organisation).table()
    raw = _run(preset, chunks, parameters, digits, outstanding, warm_up, steady, trace_commands)
    return make_result(preset, chunks, channels, raw)


def _run(
    preset: DramPreset,
    chunks: Chunks,
    parameters: np.ndarray,
    digits: np.ndarray,
    outstanding: int,
    warm_up: int,
    steady: bool,
    trace_commands: int,
) -> RawRun:
    from hwmodels.dram.engine import run_controller  # compiles, so only where it runs

    memory = controller_memory(parameters)
    count = chunks.count
    block_bytes = int(parameters[w.O_BURSTS_A_BLOCK]) * 32
    in_flight = min(outstanding, count)
    runs = np.zeros(
        (in_flight * ((int(chunks.sizes.max()) - 1) // block_bytes + 2), w.RUN_WORDS), np.int64
    )
    runs[:, w.F_NEXT] = np.append(np.arange(1, len(runs)), -1)
    totals = np.zeros(w.TOTALS, np.int64)
    totals[w.X_WARM_UP] = warm_up
    totals[w.X_FROM_BURSTS] = 0
    totals[w.X_STEADY] = int(steady)
    channels = int(parameters[w.O_CHANNELS])
    # Reads end a known time after their command. Writes end as soon as they are taken, and a trace
    # is in the order of ticks.
    if trace_commands == 0 and not chunks.writes.any():
        totals[w.X_AHEAD] = parameters[w.T_LATENCY]
    wake = np.full(channels, memory[w.C_REF_DUE], np.int64)
    ticks = 1 << int(2 * totals[w.X_AHEAD]).bit_length()
    due = np.zeros((ticks, 1 + channels), np.int64)
    arrivals = np.zeros(count, np.int64)
    if len(chunks.arrival_ps):
        arrivals = 1 + np.rint(chunks.arrival_ps / preset.tick_ps).astype(np.int64)
    left, issued, finished = (np.zeros(count, np.int64) for _ in range(3))
    trace = np.zeros((trace_commands, w.TRACE_WORDS), np.int64)
    run_controller(
        memory, parameters, digits, runs, totals, wake, due,
        chunks.starts, chunks.sizes, chunks.writes, arrivals, left, issued, finished,
        in_flight, trace,
    )  # fmt: skip
    if totals[w.X_DONE] != count:
        raise AssertionError(f"the controller stalled after {totals[w.X_DONE]} of {count} chunks")
    return RawRun(memory, parameters, totals, issued, finished, trace[: totals[w.X_TRACED]])
