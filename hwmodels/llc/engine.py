"""The compiled loop of the cache: every sector of every access, in order.

Everything is in this one file, so that compiled code on disk is renewed when it changes.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.compiled import compiled

# Words of the totals.
HITS, MISSES, FILLS, WRITE_BACKS, EVICTIONS, NEAR, FAR, TRACED = range(8)
TOTALS = 8
LRU, FIFO, RANDOM = range(3)


@compiled
def mixed(line: int) -> np.int64:
    """Hash of a line's number, which chooses partition and set."""
    word = np.uint64(line)
    word ^= word >> np.uint64(17)
    word *= np.uint64(0x9E3779B97F4A7C15)
    word ^= word >> np.uint64(29)
    return np.int64(word >> np.uint64(2))


@compiled
def next_random(state: int) -> int:
    """Next state of a small generator (xorshift), below 2^31."""
    state ^= (state << 13) & 0x7FFFFFFF
    state ^= state >> 17
    state ^= (state << 5) & 0x7FFFFFFF
    return state


@compiled
def find_way(tags: np.ndarray, first: int, ways: int, line: int) -> int:
    """Place of a line in its set, or -1."""
    for place in range(first, first + ways):
        if tags[place] == line:
            return place
    return -1


@compiled
def victim(
    tags: np.ndarray, stamps: np.ndarray, first: int, ways: int, policy: int, state: int
) -> int:
    """Place that a new line takes: a free one, or the one that the policy gives up."""
    oldest = first
    for place in range(first, first + ways):
        if tags[place] < 0:
            return place
        if stamps[place] < stamps[oldest]:
            oldest = place
    return first + state % ways if policy == RANDOM else oldest


@compiled
def trace_sectors(
    trace: np.ndarray, totals: np.ndarray, line_at: int, mask: int, sector: int, write: int
) -> None:
    """Runs of neighbouring sectors of a line as requests to memory: start, bytes, direction."""
    place = 0
    while mask >> place:
        if (mask >> place) & 1:
            run = 1
            while (mask >> (place + run)) & 1:
                run += 1
            number = totals[TRACED]
            totals[TRACED] += 1
            if number < len(trace):
                trace[number, 0] = line_at + place * sector
                trace[number, 1] = run * sector
                trace[number, 2] = write
            place += run
        else:
            place += 1


@compiled
def ones(mask: int) -> int:
    """Bits that are set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@compiled
def replace_line(
    tags: np.ndarray, valid: np.ndarray, dirty: np.ndarray, place: int, line: int,
    geometry: np.ndarray, totals: np.ndarray, trace: np.ndarray,
) -> None:  # fmt: skip
    """Write back what the place holds, and give it to a line without a sector yet."""
    if tags[place] >= 0:
        totals[EVICTIONS] += 1
        totals[WRITE_BACKS] += ones(dirty[place])
        trace_sectors(trace, totals, tags[place] * geometry[0], dirty[place], geometry[1], 1)
    tags[place], valid[place], dirty[place] = line, 0, 0


@compiled
def written_in_part(low: int, high: int, sector: int) -> int:
    """Sectors that bytes `low` to `high` of a line cover only in part."""
    partial = 0
    if low % sector:
        partial |= 1 << (low // sector)
    if high % sector:
        partial |= 1 << (high // sector)
    return partial


@compiled
def run_cache(
    starts: np.ndarray, sizes: np.ndarray, writes: np.ndarray, cores: np.ndarray,
    tags: np.ndarray, valid: np.ndarray, dirty: np.ndarray, stamps: np.ndarray,
    geometry: np.ndarray, totals: np.ndarray, hits_of: np.ndarray, trace: np.ndarray,
) -> None:  # fmt: skip
    """Serve all accesses; `geometry` is line, sector, ways, sets, partitions, policy."""
    line_bytes, sector, ways, sets = geometry[0], geometry[1], geometry[2], geometry[3]
    partitions, policy = geometry[4], geometry[5]
    state = 0x2545F49
    clock = 0
    for access in range(len(starts)):
        first_byte, last_byte = starts[access], starts[access] + sizes[access]
        for line in range(first_byte // line_bytes, (last_byte - 1) // line_bytes + 1):
            at = line * line_bytes
            low = max(first_byte, at) - at
            high = min(last_byte, at + line_bytes) - at
            touched = (1 << ((high - 1) // sector + 1)) - (1 << (low // sector))
            code = mixed(line)
            home = code % partitions
            first = (home * sets + (code // partitions) % sets) * ways
            clock += 1
            place = find_way(tags, first, ways, line)
            if place < 0:
                state = next_random(state)
                place = victim(tags, stamps, first, ways, policy, state)
                replace_line(tags, valid, dirty, place, line, geometry, totals, trace)
                stamps[place] = clock
            elif policy == LRU:
                stamps[place] = clock
            found = ones(touched & valid[place])
            missing = touched & ~valid[place]
            totals[HITS] += found
            hits_of[access] += found
            totals[MISSES] += ones(missing)
            totals[NEAR if cores[access] % partitions == home else FAR] += ones(touched)
            if writes[access]:  # whole sectors are not fetched before they are overwritten
                missing &= written_in_part(low, high, sector)
                dirty[place] |= touched
            totals[FILLS] += ones(missing)
            trace_sectors(trace, totals, at, missing, sector, 0)
            valid[place] |= touched


@compiled
def flush_cache(
    tags: np.ndarray,
    dirty: np.ndarray,
    geometry: np.ndarray,
    totals: np.ndarray,
    trace: np.ndarray,
) -> None:
    """Write back all that is dirty, set by set."""
    for place in range(len(tags)):
        if tags[place] >= 0 and dirty[place]:
            totals[WRITE_BACKS] += ones(dirty[place])
            trace_sectors(trace, totals, tags[place] * geometry[0], dirty[place], geometry[1], 1)
            dirty[place] = 0
