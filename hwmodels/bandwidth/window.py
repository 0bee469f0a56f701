"""A window of a kernel's traffic with its addresses: patterns together through LLC and DRAM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwmodels.bandwidth.mix import Mix, MixPart
from hwmodels.dram.chip_memory import ChipController, ChipMemory
from hwmodels.dram.chunks import Chunks, chunk_list
from hwmodels.dram.core_streams import TURN_BYTES
from hwmodels.dram.simulation import run_chunks
from hwmodels.llc.accesses import access_list
from hwmodels.llc.cache import run_cache
from hwmodels.llc.spec import CacheSpec
from simulator.basis.errors import InputError

WINDOW_BYTES = 4 * 2**20
_WITH_WRITES = 4  # writes come in long drains, and need a longer window to be steady
_WARM_UP_SHARE = 5


@dataclass(frozen=True)
class WindowResult:
    """A simulated window: `asked_bytes` of runs became `fetched_bytes` of whole sectors.

    `useful_share` of the simulated channels' peak, by bytes asked for; `inside_bytes` were in
    flight within the DRAM.
    """

    asked_bytes: int
    fetched_bytes: int
    moved_bytes: int
    useful_share: float
    inside_bytes: int
    latency_p50_ns: float
    duration_ps: int


def window_runs(mix: Mix, memory: ChipMemory, window_bytes: int, seed: int) -> Chunks:
    """Runs of a window in the order in which cores ask for them.

    Every part has a place of its own in memory, an even share of it.

    Assumes: the parts of a mix advance together, each at its share of the bytes; cores take turns
        of 4 KiB, a group of runs or a stretch of a stream.
    Assumes: of runs longer than the simulated channels take in one round, the channels of a stack
        see what they would see of them among all channels: pieces of one round each.
    """
    channels = memory.simulated_channels
    capacity = memory.preset.organisation.channel_bytes * channels
    place = capacity // len(mix) // TURN_BYTES * TURN_BYTES
    total = sum(part.nbytes for part in mix)
    starts, sizes, writes, keys = [], [], [], []
    for number, part in enumerate(mix):
        own = np.random.default_rng([seed, number])
        share = window_bytes * part.nbytes / total
        first, size = _part_runs(part, place, share, memory.cores, own)
        turns = np.arange(len(first)) // max(1, TURN_BYTES // int(size[0]))
        starts.append(first + number * place)
        sizes.append(size)
        writes.append(np.full(len(first), part.written))
        # The turns of each part are spread evenly over the window.
        keys.append((turns + own.random()) / (turns[-1] + 1))
    order = np.argsort(np.concatenate(keys), kind="stable")
    return chunk_list(
        np.concatenate(starts)[order], np.concatenate(sizes)[order], np.concatenate(writes)[order]
    )


def _part_runs(
    part: MixPart, place: int, nbytes: float, cores: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Addresses within the part's place, and sizes."""
    if not part.run_bytes:
        turns = max(2, round(nbytes / TURN_BYTES))
        order = np.arange(turns)
        order = order[np.argsort(order + random.random(turns) * cores, kind="stable")]
        region = max(1, place // cores // TURN_BYTES)
        begin = random.integers(0, region, cores)
        core = order % cores
        step = (begin[core] + order // cores) % region
        return (core * region + step) * TURN_BYTES, np.full(turns, TURN_BYTES)
    run, slot = min(part.run_bytes, TURN_BYTES), max(part.slot_bytes, part.run_bytes)
    slots = max(1, place // slot)
    count = max(2, round(nbytes / run))
    offset = random.integers(0, max(1, part.run_bytes // run), count) * run
    offset = np.minimum(offset, part.run_bytes - run)
    return random.integers(0, slots, count) * slot + offset, np.full(count, run)


def missed_runs(runs: Chunks, cache: CacheSpec) -> Chunks:
    """What of the runs goes on to memory: reads that the cache lacks, and all writes.

    Assumes: in a steady state a dirty line leaves the cache for every line written, so that writes
        reach memory at the rate at which cores write.
    """
    sector = cache.sector_bytes
    found = run_cache(cache, access_list(runs.starts, runs.sizes, runs.writes))
    reads = found.memory[found.memory[:, 2] == 0]
    if not runs.writes.any():
        return chunk_list(reads[:, 0], reads[:, 1])
    written = runs.writes.astype(bool)
    first = runs.starts[written] // sector * sector
    size = -(-(runs.starts[written] + runs.sizes[written] - first) // sector) * sector
    # Requests keep the order of the window: reads and writes are merged by their progress.
    places = np.concatenate(
        [
            (np.arange(len(reads)) + 0.5) / max(len(reads), 1),
            (np.arange(len(first)) + 0.5) / max(len(first), 1),
        ]
    )
    order = np.argsort(places, kind="stable")
    return chunk_list(
        np.concatenate([reads[:, 0], first])[order],
        np.concatenate([reads[:, 1], size])[order],
        np.concatenate([np.zeros(len(reads), bool), np.ones(len(first), bool)])[order],
    )


def simulate_window(
    mix: Mix,
    memory: ChipMemory,
    cache: CacheSpec,
    inside_bytes: int,
    *,
    window_bytes: int = WINDOW_BYTES,
    seed: int = 7,
    controller: ChipController | None = None,
) -> WindowResult:
    """Run a window with about `inside_bytes` in flight within the simulated channels' DRAM."""
    if not mix:
        raise InputError("a window needs at least one pattern")
    controller = controller or ChipController()
    if any(part.written for part in mix):
        window_bytes *= _WITH_WRITES
    runs = window_runs(mix, memory, window_bytes, seed)
    chunks = missed_runs(runs, cache)
    channels = memory.simulated_channels
    fetched = int(chunks.sizes.sum())
    outstanding = max(1, round(inside_bytes * chunks.count / fetched))
    result = run_chunks(
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
    )
    asked = int(runs.sizes.sum())
    inside = round(outstanding * fetched / chunks.count)
    moved = 32 * (result.commands["read"] + result.commands["write"])
    share = result.useful_fraction * asked / fetched
    return WindowResult(
        asked, fetched, moved, share, inside, result.latency_p50_ns, result.duration_ps
    )
