"""Lists of waiting requests at a bank, in order of arrival: row hits and row misses apart.

An activate turns misses of its row into hits, a precharge turns all hits back into misses.
"""

from __future__ import annotations

from hwmodels.dram.compiled import inlined
from hwmodels.dram.words import (
    B_LISTS,
    C_FREE_SLOT,
    LIST_HIT,
    LIST_MISS,
    LIST_WRITE,
    P_HIT_READ,
    P_MISS_READ,
    S_NEXT,
    S_ROW,
    S_SEQUENCE,
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
def append(memory, at, entry):  # type: ignore[no-untyped-def]
    """Add an entry behind the last of the list whose head and tail stand at `at`."""
    if memory[at] < 0:
        memory[at] = entry
    else:
        memory[memory[at + 1] + S_NEXT] = entry
    memory[at + 1] = entry


@inlined
def pop(memory, at):  # type: ignore[no-untyped-def]
    """Take the first entry of a list that is not empty."""
    entry = memory[at]
    memory[at] = memory[entry + S_NEXT]
    memory[entry + S_NEXT] = -1
    return entry


@inlined
def split_hits(memory, bank, pc, bit, row):  # type: ignore[no-untyped-def]
    """After an activate: the misses that want this row are hits now."""
    for write in range(2):
        misses = bank + B_LISTS + LIST_MISS + write * LIST_WRITE
        entry = memory[misses]
        if entry < 0:
            continue
        hits = bank + B_LISTS + LIST_HIT + write * LIST_WRITE
        memory[misses] = -1
        while entry >= 0:
            following = memory[entry + S_NEXT]
            memory[entry + S_NEXT] = -1
            append(memory, hits if memory[entry + S_ROW] == row else misses, entry)
            entry = following
        if memory[hits] >= 0:
            memory[pc + P_HIT_READ + 2 * write] |= bit
        if memory[misses] < 0:
            memory[pc + P_MISS_READ + 2 * write] &= ~bit


@inlined
def merge_hits(memory, bank, pc, bit):  # type: ignore[no-untyped-def]
    """After a precharge: hits are misses again, in order of arrival."""
    for write in range(2):
        hits = bank + B_LISTS + LIST_HIT + write * LIST_WRITE
        first = memory[hits]
        if first < 0:
            continue
        misses = bank + B_LISTS + LIST_MISS + write * LIST_WRITE
        second = memory[misses]
        memory[hits] = -1
        memory[misses] = -1
        while first >= 0 or second >= 0:
            if second < 0 or (
                first >= 0 and memory[first + S_SEQUENCE] < memory[second + S_SEQUENCE]
            ):
                entry = first
                first = memory[entry + S_NEXT]
            else:
                entry = second
                second = memory[entry + S_NEXT]
            memory[entry + S_NEXT] = -1
            append(memory, misses, entry)
        memory[pc + P_HIT_READ + 2 * write] &= ~bit
        memory[pc + P_MISS_READ + 2 * write] |= bit
