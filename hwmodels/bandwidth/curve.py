"""Rate of a mix by bytes in flight: a few windows of the burst-level model, remembered.

Each distinct mix of a memory and cache is simulated once in a process, and once on a machine where
the user's cache folder can be written; what is stored there is named by code and inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hwmodels.bandwidth.mix import Mix, normalised
from hwmodels.bandwidth.stored import entry_key, stored
from hwmodels.bandwidth.window import simulate_window
from hwmodels.chip import ChipSpec
from hwmodels.dram.chip_memory import ChipController, ChipMemory, chip_memory
from hwmodels.llc.spec import CacheSpec, chip_cache

# Bytes in flight within a channel's DRAM: few, some, and as many as fill it.
_LOADS_A_CHANNEL = (2048, 6144, 32_768)


@dataclass(frozen=True, slots=True)
class RateCurve:
    """(bytes in flight over the chip, useful bytes per second), rising, from (0, 0)."""

    in_flight_bytes: tuple[float, ...]
    bytes_per_s: tuple[float, ...]

    @property
    def full_bytes_per_s(self) -> float:
        """Rate when there is always enough in flight."""
        return self.bytes_per_s[-1]


_known: dict[str, RateCurve] = {}


def rate_curve(chip: ChipSpec, mix: Mix, seed: int = 7) -> RateCurve:
    """Rates of a mix on a chip's memory, from windows of its slice of LLC and DRAM.

    Assumes: one stack's channels, with their share of the last-level cache and of the cores'
        traffic, stand for all.
    Assumes: windows of 4 MiB (16 with writes) are steady: what a kernel does at its start and end
        is in the exposed latency, not in its rate.
    """
    memory = chip_memory(chip)
    share = memory.simulated_channels / memory.channels
    return _remembered(normalised(mix), memory, chip_cache(chip, share), seed)


def _remembered(mix: Mix, memory: ChipMemory, cache_spec: CacheSpec, seed: int) -> RateCurve:
    key = _key(mix, memory, cache_spec, seed)
    if key not in _known:
        _known[key] = _stored(key, lambda: _simulated(mix, memory, cache_spec, seed))
    return _known[key]


def _simulated(mix: Mix, memory: ChipMemory, cache_spec: CacheSpec, seed: int) -> RateCurve:
    channels, share = memory.simulated_channels, memory.simulated_channels / memory.channels
    flights, rates = [0.0], [0.0]
    for load in _LOADS_A_CHANNEL:
        found = simulate_window(mix, memory, cache_spec, load * channels, seed=seed)
        rate = min(1.0, found.useful_share) * memory.peak_bytes_per_s
        inside = found.inside_bytes / share * found.asked_bytes / found.fetched_bytes
        flights.append(inside + rate * memory.path_ns * 1e-9)
        rates.append(max(rate, rates[-1]))
    return RateCurve(tuple(flights), tuple(rates))


def _key(mix: Mix, memory: ChipMemory, cache_spec: CacheSpec, seed: int) -> str:
    """Name of a curve: everything that decides it."""
    return entry_key(
        {
            "mix": [asdict(part) for part in mix],
            "preset": memory.preset.model_dump(mode="json"),
            "memory": [memory.channels, memory.simulated_channels, memory.cores],
            "numbers": [memory.peak_bytes_per_s, memory.path_ns, seed, *_LOADS_A_CHANNEL],
            "cache": asdict(cache_spec),
            "controller": asdict(ChipController()),
        }
    )


def _stored(key: str, make: Callable[[], RateCurve]) -> RateCurve:
    """The curve from the user's cache folder, or made and put there where that is possible."""

    def read(kept: Any) -> RateCurve:
        flights, rates = kept
        return RateCurve(tuple(flights), tuple(rates))

    return stored(key, make, lambda curve: [curve.in_flight_bytes, curve.bytes_per_s], read)
