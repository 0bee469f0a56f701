"""Access patterns and what a memory makes of them: the front door of the DRAM model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hwmodels.dram.chunks import Chunks
from hwmodels.dram.mapping import DEFAULT_MAPPING
from hwmodels.dram.parameters import Refresh, default_controller
from hwmodels.dram.preset import DramPreset, find_preset
from hwmodels.dram.result import DramResult
from hwmodels.dram.simulation import run_chunks
from hwmodels.dram.sources import copy_chunks, gather_chunks, stream_chunks, with_arrivals
from simulator.basis.errors import InputError

_BYTES_IN_FLIGHT_A_CHANNEL = 16 * 1024
# Long enough that another seed moves no bandwidth by more than 0.01 of the peak.
_WINDOW_BURSTS = 2_000_000
_WINDOW_BURSTS_A_CHANNEL = 128_000  # some 25 refresh intervals at full speed
_OPEN_LOOP_IN_FLIGHT = 65_536  # beyond it the memory is overloaded, and arrivals wait
_WARM_UP_SHARE = 5  # the first fifth is not measured


@dataclass(frozen=True)
class Pattern:
    """Chunks of `granule_bytes`, consecutive (`stream`) or scattered over the memory (`gather`).

    `outstanding` chunks are in flight (default: 16 KiB a channel, what latency times bandwidth
    asks for); with `arrival_bytes_per_s` chunks come at that mean rate instead, whatever is in
    flight. `chunks` is how many are simulated (default: two million bursts or more).
    A stream with writes reads one array and writes another unless `writes_apart` is off: then the
    directions are drawn chunk by chunk.
    """

    kind: Literal["stream", "gather"]
    granule_bytes: int
    align_bytes: int | None = None
    outstanding: int | None = None
    write_fraction: float = 0.0
    seed: int = 7
    chunks: int | None = None
    writes_apart: bool = True
    arrival_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("stream", "gather"):
            raise InputError(f"unknown pattern {self.kind!r}: known are stream, gather")
        for name in ("granule_bytes", "align_bytes", "outstanding", "chunks"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, expected at least 1")
        if not 0 <= self.write_fraction <= 1:
            raise InputError(f"write_fraction is {self.write_fraction}, expected 0 to 1")
        if self.arrival_bytes_per_s is not None and self.arrival_bytes_per_s <= 0:
            raise InputError(
                f"arrival_bytes_per_s is {self.arrival_bytes_per_s}, expected more than 0"
            )

    @property
    def align(self) -> int:
        """Alignment of scattered chunks; their own size unless given."""
        return self.align_bytes or self.granule_bytes


def simulate(
    preset: str | Path | DramPreset,
    pattern: Pattern,
    *,
    channels: int = 1,
    refresh: Refresh = "per-bank",
    mapping: str = DEFAULT_MAPPING,
    interleave_bytes: int = 256,
    queue_entries: int | None = None,
) -> DramResult:
    """Steady-state bandwidth and latency of a pattern on some channels of a memory.

    Assumes: one stack's channels stand for all of a chip's, since its address hash spreads traffic
    evenly over stacks.
    """
    facts = preset if isinstance(preset, DramPreset) else find_preset(preset)
    chunks = pattern_chunks(pattern, facts, channels)
    outstanding = pattern.outstanding or max(
        1, -(-_BYTES_IN_FLIGHT_A_CHANNEL * channels // pattern.granule_bytes)
    )
    # A window that ends with the last issue leaves out the drain, if enough chunks come before.
    steady = outstanding * 2 <= chunks.count
    if pattern.arrival_bytes_per_s is not None:
        outstanding, steady = min(chunks.count, _OPEN_LOOP_IN_FLIGHT), True
    return run_chunks(
        facts,
        chunks,
        channels=channels,
        mapping=mapping,
        interleave_bytes=interleave_bytes,
        hashed=pattern.kind == "gather" and channels > 1,
        outstanding=outstanding,
        spec=default_controller(facts, refresh, queue_entries),
        warm_up=chunks.count // _WARM_UP_SHARE,
        steady=steady,
    )


def pattern_chunks(pattern: Pattern, preset: DramPreset, channels: int) -> Chunks:
    """The chunks of a pattern on this many channels."""
    if channels < 1:
        raise InputError(f"channels is {channels}, expected at least 1")
    capacity = preset.organisation.channel_bytes * channels
    granule = pattern.granule_bytes
    if granule > capacity // 2:
        raise InputError(
            f"granule_bytes is {granule}, more than half of the {capacity} bytes of {channels} "
            f"channels of {preset.name!r}"
        )
    count = pattern.chunks or _default_chunks(pattern, channels)
    writes, seed = pattern.write_fraction, pattern.seed
    if pattern.kind == "gather":
        chunks = gather_chunks(count, granule, pattern.align, capacity, writes, seed)
    elif writes and pattern.writes_apart:
        chunks = copy_chunks(count, granule, capacity, writes)
    else:
        chunks = stream_chunks(count, granule, capacity, writes, seed)
    if pattern.arrival_bytes_per_s is not None:
        chunks = with_arrivals(chunks, pattern.arrival_bytes_per_s, seed)
    return chunks


def _default_chunks(pattern: Pattern, channels: int) -> int:
    touched = (pattern.granule_bytes + min(pattern.align, 32) - 1) // 32 + 1
    bursts = max(_WINDOW_BURSTS, _WINDOW_BURSTS_A_CHANNEL * channels)
    return max(bursts // touched, 1000)
