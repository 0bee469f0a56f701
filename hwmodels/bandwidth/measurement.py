"""One access pattern on a chip's memory: a steady window of the burst-level DRAM model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwmodels.bandwidth.access import Access
from hwmodels.dram.chip_memory import ChipMemory, idle_ns
from hwmodels.dram.chunks import Chunks
from hwmodels.dram.core_streams import core_stream_chunks
from hwmodels.dram.result import DramResult
from hwmodels.dram.simulation import run_chunks
from hwmodels.dram.sources import gather_chunks
from simulator.basis.errors import InputError

FILLING_BYTES_A_CHANNEL = 32 * 1024
WINDOW_BURSTS = 131_072
_LEAST_ROUNDS = 6  # windows are at least so many times what is in flight
_STEPS = 6  # of the search for the runs inside the DRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What the memory made of an access pattern; rates are of the whole chip.

    `useful_*` count bytes asked for, `achieved_*` whole bursts. Latencies are of a run, from a
    core's request to its last byte. `parts` divide the time of the data buses and add up to one.
    """

    access: Access
    preset: str
    channels: int
    outstanding: int
    bytes_in_flight: int
    peak_bytes_per_s: float
    achieved_bytes_per_s: float
    useful_bytes_per_s: float
    latency_p50_ns: float
    latency_p99_ns: float
    row_hit_rate: float
    parts: Mapping[str, float]

    @property
    def achieved_fraction(self) -> float:
        """Whole bursts, as a share of the chip's peak."""
        return self.achieved_bytes_per_s / self.peak_bytes_per_s

    @property
    def useful_fraction(self) -> float:
        """Bytes asked for, as a share of the chip's peak."""
        return self.useful_bytes_per_s / self.peak_bytes_per_s


def measure(memory: ChipMemory, access: Access) -> Measurement:
    """Bandwidth and latency of a pattern on a chip, in a closed loop.

    Assumes: one stack's channels stand for all of a chip's, since the hash spreads addresses evenly
        over stacks.
    Assumes: what a core waits for outside of the DRAM passes no bottleneck, so that runs in flight
        are those in the DRAM plus rate times that wait.
    """
    channels = access.channels or memory.simulated_channels
    if channels & (channels - 1) or channels > memory.channels:
        raise InputError(
            f"channels is {channels}, expected a power of two, at most the {memory.channels} of "
            f"{memory.chip!r}"
        )
    share = channels / memory.channels
    if access.outstanding is None:
        inside = max(1, FILLING_BYTES_A_CHANNEL * channels // access.granule_bytes)
        result = _window(memory, access, channels, inside)
        asked = _asked(memory, access, result, inside) / share
        return _measurement(memory, access, result, asked, 1 / share)
    asked = access.outstanding * share
    result, inside = _inside(memory, access, channels, asked)
    # Fewer than one run in the simulated channels: the memory idles in between, in proportion.
    idle = min(1.0, asked / _asked(memory, access, result, inside)) if inside == 1 else 1.0
    waiting_ns = max(0.0, asked - _asked(memory, access, result, inside)) / _runs_a_ns(
        access, result
    )
    return _measurement(memory, access, result, access.outstanding, idle / share, waiting_ns)


def _inside(
    memory: ChipMemory, access: Access, channels: int, asked: float
) -> tuple[DramResult, int]:
    """The window in which the runs inside the DRAM and those on their way add up to the asked.

    Beyond what fills the memory four times over, more runs only wait longer.
    """
    most = max(1, 4 * FILLING_BYTES_A_CHANNEL * channels // access.granule_bytes)
    idle = idle_ns(memory.preset)
    inside = max(1, min(most, round(asked * idle / (idle + memory.path_ns))))
    for _ in range(_STEPS):
        result = _window(memory, access, channels, inside)
        better = asked * inside / _asked(memory, access, result, inside)
        better = max(1, min(most, round(better)))
        if abs(better - inside) <= inside // 50:
            break
        inside = better
    return result, inside


def _runs_a_ns(access: Access, result: DramResult) -> float:
    return result.useful_bytes_per_s / access.granule_bytes * 1e-9


def _asked(memory: ChipMemory, access: Access, result: DramResult, inside: int) -> float:
    """Runs inside the DRAM and on their way from and to the cores: rate times wait."""
    return inside + _runs_a_ns(access, result) * memory.path_ns


def _window(memory: ChipMemory, access: Access, channels: int, inside: int) -> DramResult:
    """A window with so many runs inside the DRAM."""
    chunks = _chunks(memory, access, channels, inside)
    return run_chunks(
        memory.preset,
        chunks,
        channels=channels,
        mapping=access.controller.mapping,
        interleave_bytes=access.controller.interleave_bytes,
        hashed=channels > 1,
        outstanding=inside,
        spec=access.controller.spec(memory.preset),
        warm_up=chunks.count // 5,
        steady=inside * 2 <= chunks.count,
    )


def _chunks(memory: ChipMemory, access: Access, channels: int, inside: int) -> Chunks:
    """Runs of a window that is long enough to be steady."""
    granule, capacity = access.granule_bytes, memory.preset.organisation.channel_bytes * channels
    bursts = -(-granule // 32)
    window = WINDOW_BURSTS * (4 if access.write_fraction else 1)  # writes come in long drains
    if granule > capacity // 2:
        raise InputError(
            f"granule is {granule} bytes, more than half of the {capacity} bytes of {channels} "
            "channels; raise --channels"
        )
    if inside * bursts < 2 * channels:  # time passes slowly, and fewer runs are enough
        window //= 8
    count = max(window // bursts, _LEAST_ROUNDS * inside, 64)
    if access.kind == "stream":
        return core_stream_chunks(
            count, granule, capacity, access.write_fraction, memory.cores, access.seed
        )
    return gather_chunks(count, granule, access.align, capacity, access.write_fraction, access.seed)


def _measurement(
    memory: ChipMemory,
    access: Access,
    result: DramResult,
    outstanding: float,
    scale: float,
    waiting_ns: float = 0.0,
) -> Measurement:
    """Figures of the chip: fractions of the preset's peak hold for the chip's."""
    share = result.channels / memory.channels
    per_byte = memory.peak_bytes_per_s / result.peak_bytes_per_s * share * scale
    busy = scale * share  # below one where the simulated channels idle in between
    parts = {name: part * busy for name, part in result.time_parts.items()}
    parts["idle"] += 1 - busy
    runs = max(1, round(outstanding))
    return Measurement(
        access=access,
        preset=memory.preset.name,
        channels=result.channels,
        outstanding=runs,
        bytes_in_flight=runs * access.granule_bytes,
        peak_bytes_per_s=memory.peak_bytes_per_s,
        achieved_bytes_per_s=result.dram_bytes_per_s * per_byte,
        useful_bytes_per_s=result.useful_bytes_per_s * per_byte,
        latency_p50_ns=result.latency_p50_ns + memory.path_ns + waiting_ns,
        latency_p99_ns=result.latency_p99_ns + memory.path_ns + waiting_ns,
        row_hit_rate=result.row_hit_rate,
        parts=parts,
    )
