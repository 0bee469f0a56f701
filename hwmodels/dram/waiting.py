"""Lists of waiting requests at a bank, in order of arrival: row hits and row misses apart.

An activate turns misses of its row into hits, a precharge turns all hits back into misses. The key
of the first request of a list stands among those of all banks, for the choice among them.
"""

from __future__ import annotations

from hwmodels.dram.compiled import inlined
from hwmodels.dram.words import (
    B_LISTS,
    C_FREE_SLOT,
    LIST_MISS,
    LIST_WRITE,
    P_HIT_READ,
    P_MISS_READ,
    S_KEY,
    S_NEXT,
    S_ROW,
    V_HITS,
    V_MISSES,
    V_WRITE,
)


@inlined
def take_slot(memory, channel):  # type: ignore[no-untyped-def]
    """Address of a free queue entry; the queues' limits keep the supply from running out."""
    entry = memory[channel + C_FREE_SLOT]
    memory[channel + C_FREE_SLOT] = memory[entry + S_NEXT]
    memory[entry + S_NEXT] = -1
    return entry


@inlined
def release_slot(memory, channel, entry):  # type: ignore[no-untyped-def]
    """Give a queue entry back."""
    memory[entry + S_NEXT] = memory[channel + C_FREE_SLOT]
    memory[channel + C_FREE_SLOT] = entry


@inlined
def append(memory, at, first_key, entry):  # type: ignore[no-untyped-def]
    """Add an entry behind the last of the list that stands at `at`."""
    key = memory[entry + S_KEY]
    memory[first_key] = key if memory[at] < 0 else memory[first_key]
    memory[memory[at + 1]] = entry
    memory[at + 1] = entry + S_NEXT


@inlined
def pop(memory, at, first_key):  # type: ignore[no-untyped-def]
    """Take the first entry of a list that is not empty."""
    entry = memory[at]
    following = memory[entry + S_NEXT]
    memory[at] = following
    if following >= 0:
        memory[first_key] = memory[following + S_KEY]
    else:
        memory[at + 1] = at
    return entry


@inlined
def split_hits(memory, bank, pc, lane, bit, row):  # type: ignore[no-untyped-def]
    """After an activate: the misses that want this row are hits now."""
    for write in range(2):
        if memory[pc + P_MISS_READ + 2 * write] & bit == 0:
            continue
        hits = bank + B_LISTS + write * LIST_WRITE
        misses = hits + LIST_MISS
        first_key = lane + V_HITS + write * V_WRITE
        entry = memory[misses]
        hits_end = hits  # a closed bank has none
        misses_end = misses
        while entry >= 0:
            hit = memory[entry + S_ROW] == row
            memory[hits_end if hit else misses_end] = entry
            hits_end = entry + S_NEXT if hit else hits_end
            misses_end = misses_end if hit else entry + S_NEXT
            entry = memory[entry + S_NEXT]
        _close(memory, hits, hits_end, first_key)
        _close(memory, misses, misses_end, first_key + V_MISSES - V_HITS)
        if memory[hits] >= 0:
            memory[pc + P_HIT_READ + 2 * write] |= bit
        if memory[misses] < 0:
            memory[pc + P_MISS_READ + 2 * write] &= ~bit


@inlined
def merge_hits(memory, bank, pc, lane, bit):  # type: ignore[no-untyped-def]
    """After a precharge: hits are misses again, in order of arrival."""
    for write in range(2):
        if memory[pc + P_HIT_READ + 2 * write] & bit == 0:
            continue
        hits = bank + B_LISTS + write * LIST_WRITE
        misses = hits + LIST_MISS
        first = memory[hits]
        second = memory[misses]
        end = misses
        while first >= 0 or second >= 0:
            if second < 0 or (first >= 0 and memory[first + S_KEY] < memory[second + S_KEY]):
                entry = first
                first = memory[entry + S_NEXT]
            else:
                entry = second
                second = memory[entry + S_NEXT]
            memory[end] = entry
            end = entry + S_NEXT
        first_key = lane + V_HITS + write * V_WRITE
        _close(memory, hits, hits, first_key)
        _close(memory, misses, end, first_key + V_MISSES - V_HITS)
        memory[pc + P_HIT_READ + 2 * write] &= ~bit
        memory[pc + P_MISS_READ + 2 * write] |= bit


@inlined
def _close(memory, at, end, first_key):  # type: ignore[no-untyped-def]
    """End a list that was built anew, whose next entry is to be written at `end`."""
    memory[end] = -1
    memory[at + 1] = end
    if memory[at] >= 0:
        memory[first_key] = memory[memory[at] + S_KEY]
