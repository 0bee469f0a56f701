"""What a run of the DRAM model answers: bandwidth, latencies, row hits, and where the time went."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hwmodels.dram import words as w
from hwmodels.dram.chunks import Chunks
from hwmodels.dram.preset import DramPreset

# Parts of the time of the data buses, in the order of `words.A_*`.
PART_NAMES = (
    "data",  # bursts on the bus
    "column",  # tCCD, column bus, order of requests
    "turnaround",  # switching between reads and writes
    "activate",  # tRCD: opening a row
    "activate_rate",  # tRRD, tFAW, row bus: waiting for the turn to open a row
    "conflict",  # another row was open: tRAS, tRTP, tWR, tRP
    "refresh",
    "idle",  # nothing waited for this pseudo-channel
)
COMMAND_NAMES = (
    "read", "write", "activate", "precharge", "precharge_all", "refresh", "refresh_per_bank",
)  # fmt: skip


@dataclass(frozen=True)
class RawRun:
    """The arrays of a finished run."""

    memory: np.ndarray
    parameters: np.ndarray
    totals: np.ndarray
    issued: np.ndarray
    finished: np.ndarray
    trace: np.ndarray


@dataclass(frozen=True)
class DramResult:
    """Figures of a run; bandwidths and parts are of the measured window, counts of the whole run.

    `dram_bytes_per_s` counts whole bursts, `useful_bytes_per_s` the bytes asked for. Latencies are
    of chunks, from issue (or arrival) to the last burst; a write is done when it is taken.
    `time_parts` are fractions of the time of all data buses and add up to one.
    """

    preset: str
    channels: int
    bursts: int
    duration_ps: int
    window_ps: int
    peak_bytes_per_s: float
    dram_bytes_per_s: float
    useful_bytes_per_s: float
    latency_mean_ns: float
    latency_p50_ns: float
    latency_p99_ns: float
    row_hit_rate: float
    commands: dict[str, int]
    time_parts: dict[str, float]
    trace: np.ndarray = field(repr=False, compare=False)

    @property
    def dram_fraction(self) -> float:
        """Achieved share of the peak, whole bursts."""
        return self.dram_bytes_per_s / self.peak_bytes_per_s

    @property
    def useful_fraction(self) -> float:
        """Achieved share of the peak, bytes asked for."""
        return self.useful_bytes_per_s / self.peak_bytes_per_s


def make_result(preset: DramPreset, chunks: Chunks, channels: int, raw: RawRun) -> DramResult:
    """Figures from the arrays of a run."""
    totals = raw.totals
    ticks = int(totals[w.X_UNTIL] - totals[w.X_FROM])
    window_ps = max(ticks, 1) * preset.tick_ps
    bursts = int(totals[w.X_UNTIL_BURSTS] - totals[w.X_FROM_BURSTS])
    useful = int(totals[w.X_UNTIL_BYTES] - totals[w.X_FROM_BYTES])
    first = int(totals[w.X_WARM_UP])
    latencies = np.sort((raw.finished - raw.issued)[first:]) * preset.tick_ps / 1000
    blocks = raw.memory.reshape(channels, -1)
    counts = blocks[:, w.N_READ : w.N_REFRESH_PB + 1].sum(axis=0)
    columns = int(counts[0] + counts[1])
    return DramResult(
        preset=preset.name,
        channels=channels,
        bursts=chunks.bursts,
        duration_ps=round(int(totals[w.X_LAST]) * preset.tick_ps),
        window_ps=round(window_ps),
        peak_bytes_per_s=preset.channel_bytes_per_s * channels,
        dram_bytes_per_s=bursts * 32 / window_ps * 1e12,
        useful_bytes_per_s=useful / window_ps * 1e12,
        latency_mean_ns=float(latencies.mean()),
        latency_p50_ns=float(latencies[len(latencies) // 2]),
        latency_p99_ns=float(latencies[int(len(latencies) * 0.99)]),
        row_hit_rate=int(blocks[:, w.N_HIT].sum()) / max(columns, 1),
        commands=dict(zip(COMMAND_NAMES, map(int, counts), strict=True)),
        time_parts=_time_parts(blocks, raw.parameters, ticks),
        trace=raw.trace,
    )


def _time_parts(blocks: np.ndarray, parameters: np.ndarray, ticks: int) -> dict[str, float]:
    pcs = int(parameters[w.O_PCS])
    first = int(parameters[w.L_PC])
    view = blocks[:, first : first + pcs * w.PC_WORDS].reshape(-1, w.PC_WORDS)
    parts = view[:, w.P_PARTS : w.P_PARTS + w.PARTS].sum(axis=0)
    total = max(ticks, 1) * len(view)
    return {name: int(part) / total for name, part in zip(PART_NAMES, parts, strict=True)}
