"""A window of kernels' traffic with the addresses that the data decides, and its rate.

Chip-wide addresses are cut to what one stack's channels see of them. They take the place of the
runs that a mix alone would draw, spread over the window as those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hwmodels.bandwidth.curve import RateCurve, rate_curve
from hwmodels.bandwidth.mix import Mix, MixPart, joined_parts, mix_bytes, normalised
from hwmodels.bandwidth.window import WINDOW_BYTES, missed_runs, window_runs
from hwmodels.chip import ChipSpec
from hwmodels.dram.chip_memory import ChipController, ChipMemory, chip_memory
from hwmodels.dram.chunks import Chunks, chunk_list
from hwmodels.dram.core_streams import TURN_BYTES
from hwmodels.dram.simulation import run_chunks
from hwmodels.llc.accesses import AccessList, access_list
from hwmodels.llc.spec import CacheSpec, chip_cache
from simulator.cost.cycle_addresses import Addresses
from simulator.cost.memory_mix import memory_mix
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand

# Bytes in flight within a channel's DRAM: few, some, and as many as fill it.
LOADS_A_CHANNEL = (2048, 6144, 32_768)
_WITH_WRITES = 4  # writes come in long drains, and need a longer window to be steady
_WARM_UP_SHARE = 5
_SEED = 7
_MIXER = np.uint64(0x9E3779B97F4A7C15)

# (bytes of a run, whether written) of a part of a mix -> addresses of its runs.
Known = Mapping[tuple[int, bool], Addresses]
_curves: dict[object, RateCurve] = {}


@dataclass(frozen=True, slots=True)
class Window:
    """What kernels move at the same time: shares of patterns, and the addresses of some."""

    mix: Mix
    known: Known

    @property
    def nbytes(self) -> float:
        """Bytes of all patterns."""
        return mix_bytes(self.mix)

    def rated(self, nbytes: float) -> Window:
        """The window with its bytes scaled to a total."""
        scale = nbytes / self.nbytes
        return Window(tuple(replace(p, nbytes=p.nbytes * scale) for p in self.mix), self.known)


def kernel_window(demand: Demand, moved: Traffic, addresses: Addresses | None) -> Window:
    """What one kernel moves."""
    known = {} if addresses is None else {addresses.pattern: addresses}
    return Window(memory_mix(demand, moved), known)


def joined_windows(windows: Iterable[Window]) -> Window:
    """Windows side by side.

    Assumes: where two kernels move bytes in one pattern, the addresses of either stand for both.
    """
    given = list(windows)
    known: dict[tuple[int, bool], Addresses] = {}
    for window in given:
        known = {**window.known, **known}
    return Window(joined_parts(part for window in given for part in window.mix), known)


def window_curve(chip: ChipSpec, window: Window) -> RateCurve:
    """Rates of a window on a chip's memory, by bytes in flight; equal ones are simulated once."""
    shares = normalised(window.mix)
    patterns = map(_pattern, shares)
    addresses = {key: window.known[key] for key in patterns if key in window.known}
    if not addresses:
        return rate_curve(chip, window.mix)
    memory = chip_memory(chip)
    cache = chip_cache(chip, memory.simulated_channels / memory.channels)
    facts = (memory.preset.name, memory.channels, memory.cores, memory.path_ns, cache)
    key = (shares, tuple(addresses.items()), memory.peak_bytes_per_s, *facts)
    if key not in _curves:
        _curves[key] = _curve(addressed_runs(shares, addresses, memory), memory, cache)
    return _curves[key]


def _pattern(part: MixPart) -> tuple[int, bool]:
    return part.run_bytes, part.written


def addressed_runs(mix: Mix, known: Known, memory: ChipMemory) -> Chunks:
    """Runs of a window, each part in a place of its own; known addresses where there are any."""
    nbytes = WINDOW_BYTES * (_WITH_WRITES if any(part.written for part in mix) else 1)
    drawn = window_runs(mix, memory, nbytes, _SEED)
    channels = memory.simulated_channels
    place = memory.preset.organisation.channel_bytes * channels // len(mix)
    place = place // TURN_BYTES * TURN_BYTES
    number = np.minimum(drawn.starts // place, len(mix) - 1)
    parts = []
    for i, part in enumerate(mix):
        own = number == i
        one = access_list(drawn.starts[own], drawn.sizes[own], drawn.writes[own] == 1)
        progress = np.flatnonzero(own) / drawn.count
        addresses = known.get(_pattern(part))
        if addresses is not None:
            wanted = round(nbytes * part.nbytes / mix_bytes(mix))
            seen = _seen(addresses, wanted, place, memory)
            one = access_list(seen.starts + i * place, seen.sizes, part.written)
            turns = (np.cumsum(seen.sizes) - seen.sizes) // TURN_BYTES
            progress = (turns + 0.5) / (turns[-1] + 1)
        parts.append((one, progress))
    order = np.argsort(np.concatenate([progress for _, progress in parts]), kind="stable")
    return chunk_list(
        np.concatenate([one.starts for one, _ in parts])[order],
        np.concatenate([one.sizes for one, _ in parts])[order],
        np.concatenate([one.writes for one, _ in parts])[order],
    )


def _seen(addresses: Addresses, wanted: int, place: int, memory: ChipMemory) -> AccessList:
    """About the wanted bytes of addresses as one stack sees them, below `place`."""
    many = memory.channels / memory.simulated_channels
    pool = int(place // TURN_BYTES * TURN_BYTES * many)
    whole = addresses.runs(round(wanted * many * 1.1), pool, memory.cores)
    seen = stack_pieces(whole, memory)
    inside = seen.starts + seen.sizes <= place
    seen = access_list(seen.starts[inside], seen.sizes[inside])
    enough = int(np.searchsorted(np.cumsum(seen.sizes), wanted)) + 1
    return access_list(seen.starts[:enough], seen.sizes[:enough])


def stack_pieces(whole: AccessList, memory: ChipMemory) -> AccessList:
    """What of chip-wide accesses falls to the simulated channels, in their own addresses.

    Assumes: of each round of blocks over all channels a stack has one consecutive piece, as an
        XOR of the channel's number leaves it; which one depends on the round.
    """
    block = ChipController().interleave_bytes
    own = block * memory.simulated_channels
    stacks = max(1, memory.channels // memory.simulated_channels)
    rounds = own * stacks
    first = whole.starts // rounds
    last = (whole.starts + whole.sizes - 1) // rounds
    pieces = []
    for step in range(int((last - first).max(initial=0)) + 1):
        number = first + step
        key = (number.astype(np.uint64) * _MIXER) >> np.uint64(40)
        begin = number * rounds + (key % np.uint64(stacks)).astype(np.int64) * own
        low = np.maximum(whole.starts, begin)
        size = np.minimum(whole.starts + whole.sizes, begin + own) - low
        pieces.append((number * own + low - begin, size))
    starts = np.stack([start for start, _ in pieces], axis=1).reshape(-1)
    sizes = np.stack([size for _, size in pieces], axis=1).reshape(-1)
    return access_list(starts[sizes > 0], sizes[sizes > 0])


def _curve(runs: Chunks, memory: ChipMemory, cache: CacheSpec) -> RateCurve:
    """Rates of a window at a few loads, as those of a mix are made."""
    share = memory.simulated_channels / memory.channels
    chunks = missed_runs(runs, cache)
    fetched, asked = int(chunks.sizes.sum()), int(runs.sizes.sum())
    flights, rates = [0.0], [0.0]
    for load in LOADS_A_CHANNEL:
        wanted = load * memory.simulated_channels
        outstanding = max(1, round(wanted * chunks.count / fetched))
        useful = _useful_share(chunks, outstanding, memory) * asked / fetched
        rate = min(1.0, useful) * memory.peak_bytes_per_s
        inside = outstanding * asked / chunks.count / share
        flights.append(inside + rate * memory.path_ns * 1e-9)
        rates.append(max(rate, rates[-1]))
    return RateCurve(tuple(flights), tuple(rates))


def _useful_share(chunks: Chunks, outstanding: int, memory: ChipMemory) -> float:
    """Share of the simulated channels' peak with so many chunks in flight."""
    controller, channels = ChipController(), memory.simulated_channels
    return run_chunks(
        memory.preset,
        chunks,
        channels=channels,
        mapping=controller.mapping,
        interleave_bytes=controller.interleave_bytes,
        hashed=channels > 1,
        outstanding=outstanding,
        spec=controller.spec(memory.preset),
        warm_up=chunks.count // _WARM_UP_SHARE,
        steady=outstanding * 2 <= chunks.count,
    ).useful_fraction
