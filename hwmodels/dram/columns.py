"""The column slot: one read or write a channel, active requests first, then row hits.

Assumes: among ready requests the earliest arrival goes first; a closed page policy is not modelled.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.account import account_burst
from hwmodels.dram.compiled import inlined
from hwmodels.dram.lanes import first_ready, raise_banks, settle
from hwmodels.dram.trace import record
from hwmodels.dram.waiting import pop, release_slot
from hwmodels.dram.words import (
    B_ACTIVE,
    B_LISTS,
    BANK_OF_KEY,
    BANK_WORDS,
    C_COLUMN_AT,
    C_COLUMN_FREE,
    C_DRAINING,
    C_READS,
    C_REF_LEFT,
    C_RETURN_TAIL,
    C_ROW_AT,
    FAR,
    GROUP_BITS,
    K_ACTIVE,
    K_HIT_READ,
    K_PRE_READ,
    K_PRE_WRITE,
    L_BANK,
    L_LANES,
    L_PC,
    L_RETURN,
    LANES,
    LIST_WRITE,
    N_HIT,
    N_READ,
    N_WRITE,
    O_BANKS_A_PC,
    O_PCS,
    OTHER_SIDS_BITS,
    P_ACTIVE,
    P_ACTIVE_WRITES,
    P_HIT_READ,
    P_MISS_READ,
    P_MISS_WRITE,
    P_PB_BANK,
    P_PENDING,
    P_PRE_AT,
    P_READ_AT,
    P_WRITE_AT,
    PC_LANES,
    PC_WORDS,
    READ,
    RETURN_WORDS,
    RETURNS,
    S_CHUNK,
    S_ROW,
    T_CCDL,
    T_CCDR,
    T_CCDS,
    T_COLUMN_BUS,
    T_LATENCY,
    T_ODD,
    T_RTP,
    T_RTW,
    T_WTP,
    T_WTRL,
    T_WTRS,
    V_ACTIVE,
    V_HITS,
    V_PRE_AT,
    V_READ_AT,
    V_WRITE,
    V_WRITE_AT,
    WRITE,
)


@inlined
def column_slot(memory, parameters, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Issue the column command of this tick, if one is ready; note when to look again."""
    if parameters[T_ODD] and tick & 1 == 0:
        memory[channel + C_COLUMN_AT] = tick + 1
        return
    if memory[channel + C_COLUMN_FREE] > tick:
        memory[channel + C_COLUMN_AT] = memory[channel + C_COLUMN_FREE]
        return
    key, pc_number = _best_active(memory, parameters, channel, tick)
    active = key < FAR
    if not active and memory[channel + C_REF_LEFT] == 0:
        key, pc_number = _best_hit(memory, parameters, channel, tick)
    if key < FAR:
        bank = key & BANK_OF_KEY
        _issue(memory, parameters, channel, pc_number, bank, active, tick, trace, totals)
    note_next_column(memory, parameters, channel, tick)


@inlined
def note_next_column(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Earliest tick after this one in which a column command may be ready."""
    at = FAR
    write = memory[channel + C_DRAINING]
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + P_ACTIVE] != 0:
            may = min(memory[pc + P_READ_AT], memory[pc + P_WRITE_AT])
            at = min(at, max(memory[pc + K_ACTIVE], may))
        if memory[channel + C_REF_LEFT] == 0 and memory[pc + P_HIT_READ + 2 * write] != 0:
            at = min(at, max(memory[pc + K_HIT_READ + write], memory[pc + P_READ_AT + write]))
    at = max(max(tick + 1, at), memory[channel + C_COLUMN_FREE])
    memory[channel + C_COLUMN_AT] = at | 1 if parameters[T_ODD] else at


@inlined
def _best_active(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Key and pseudo-channel of the ready active request that arrived first, or FAR."""
    best = FAR
    best_pc = 0
    best_bound = 0
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + K_ACTIVE] > tick:
            continue
        lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
        writes = memory[pc + P_ACTIVE_WRITES]
        reads = memory[pc + P_ACTIVE] ^ writes
        key, bound = first_ready(
            memory, lanes + V_READ_AT, lanes + V_ACTIVE, reads, memory[pc + P_READ_AT], tick
        )
        if writes != 0:
            other, later = first_ready(
                memory, lanes + V_WRITE_AT, lanes + V_ACTIVE, writes, memory[pc + P_WRITE_AT], tick
            )
            bound = min(bound, later) if max(key, other) == FAR else tick + 1
            key = min(key, other)
        memory[pc + K_ACTIVE] = bound
        best, best_pc, best_bound = settle(
            memory, best, best_pc, best_bound, key, pc_number, pc + K_ACTIVE, tick
        )
    return best, best_pc


@inlined
def _best_hit(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Key and pseudo-channel of the ready row hit that arrived first, or FAR."""
    best = FAR
    best_pc = 0
    best_bound = 0
    write = memory[channel + C_DRAINING]
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        bound = pc + K_HIT_READ + write
        if memory[bound] > tick:
            continue
        lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
        hits = memory[pc + P_HIT_READ + 2 * write]
        keys = lanes + V_HITS + write * V_WRITE
        ready = lanes + V_READ_AT + write * LANES
        may = memory[pc + P_READ_AT + write]
        key, memory[bound] = first_ready(memory, ready, keys, hits, may, tick)
        best, best_pc, best_bound = settle(
            memory, best, best_pc, best_bound, key, pc_number, bound, tick
        )
    return best, best_pc


@inlined
def _raise(memory, at, tick):  # type: ignore[no-untyped-def]
    """A constraint only ever moves a tick back."""
    if memory[at] < tick:
        memory[at] = tick


@inlined
def _issue(memory, parameters, channel, pc_number, bank, active, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Send a read or write, and set what it forbids for how long."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
    if active:
        entry = _take_active(memory, pc, at, bank)
    else:
        entry = _take_hit(memory, channel, pc, at, lanes, bank)
    chunk = memory[entry + S_CHUNK] >> 1
    write = memory[entry + S_CHUNK] & 1
    account_burst(memory, parameters, pc, at, write, tick)
    if write:
        memory[channel + N_WRITE] += 1
        _forbid_after_write(memory, parameters, pc, lanes, bank, tick)
    else:
        memory[channel + N_READ] += 1
        _forbid_after_read(memory, parameters, pc, lanes, bank, tick)
        ring = channel + parameters[L_RETURN]
        ring += (memory[channel + C_RETURN_TAIL] & (RETURNS - 1)) * RETURN_WORDS
        memory[channel + C_RETURN_TAIL] += 1
        memory[ring] = tick + parameters[T_LATENCY]
        memory[ring + 1] = chunk
    memory[channel + C_COLUMN_FREE] = tick + parameters[T_COLUMN_BUS]
    memory[pc + P_PENDING] -= 1
    kind = WRITE if write else READ
    record(trace, totals, tick, channel, parameters, kind, pc_number, bank, memory[entry + S_ROW])
    release_slot(memory, channel, entry)
    _allow_next_hit(memory, pc, lanes + bank, bank, write)
    _allow_precharge(memory, channel, pc, lanes + bank, bank)


@inlined
def _take_active(memory, pc, at, bank):  # type: ignore[no-untyped-def]
    """The request for which a bank was opened; it has left the queue already."""
    entry = memory[at + B_ACTIVE]
    memory[at + B_ACTIVE] = -1
    rest = ~(np.int64(1) << bank)
    memory[pc + P_ACTIVE] &= rest
    memory[pc + P_ACTIVE_WRITES] &= rest
    return entry


@inlined
def _take_hit(memory, channel, pc, at, lanes, bank):  # type: ignore[no-untyped-def]
    """The first row hit of a bank, which leaves the queue."""
    write = memory[channel + C_DRAINING]
    hits = at + B_LISTS + write * LIST_WRITE
    entry = pop(memory, hits, lanes + bank + V_HITS + write * V_WRITE)
    if memory[hits] < 0:
        memory[pc + P_HIT_READ + 2 * write] &= ~(np.int64(1) << bank)
    memory[channel + C_READS + write] -= 1
    memory[channel + N_HIT] += 1
    return entry


@inlined
def _forbid_after_write(memory, parameters, pc, lanes, bank, tick):  # type: ignore[no-untyped-def]
    group = parameters[GROUP_BITS + bank]
    _raise(memory, pc + P_WRITE_AT, tick + parameters[T_CCDS])
    raise_banks(memory, lanes + V_WRITE_AT, group, tick + parameters[T_CCDL])
    _raise(memory, pc + P_READ_AT, tick + parameters[T_WTRS])
    raise_banks(memory, lanes + V_READ_AT, group, tick + parameters[T_WTRL])
    _raise(memory, lanes + bank + V_PRE_AT, tick + parameters[T_WTP])


@inlined
def _forbid_after_read(memory, parameters, pc, lanes, bank, tick):  # type: ignore[no-untyped-def]
    _raise(memory, pc + P_READ_AT, tick + parameters[T_CCDS])
    group = parameters[GROUP_BITS + bank]
    raise_banks(memory, lanes + V_READ_AT, group, tick + parameters[T_CCDL])
    others = parameters[OTHER_SIDS_BITS + bank]
    if others != 0:
        raise_banks(memory, lanes + V_READ_AT, others, tick + parameters[T_CCDR])
    _raise(memory, pc + P_WRITE_AT, tick + parameters[T_RTW])
    _raise(memory, lanes + bank + V_PRE_AT, tick + parameters[T_RTP])


@inlined
def _allow_next_hit(memory, pc, lane, bank, write):  # type: ignore[no-untyped-def]
    """The bank may hold more hits of the kind, which its bound has left out."""
    if memory[pc + P_HIT_READ + 2 * write] & (np.int64(1) << bank):
        bound = pc + K_HIT_READ + write
        memory[bound] = min(memory[bound], memory[lane + V_READ_AT + write * LANES])


@inlined
def _allow_precharge(memory, channel, pc, lane, bank):  # type: ignore[no-untyped-def]
    """A served request may have been what kept its bank open."""
    bit = np.int64(1) << bank
    ready = memory[lane + V_PRE_AT]
    waited = memory[pc + P_PB_BANK] == bank or memory[channel + C_REF_LEFT] > 0
    if (memory[pc + P_MISS_READ] | memory[pc + P_MISS_WRITE]) & bit:
        memory[pc + K_PRE_READ] = min(memory[pc + K_PRE_READ], ready)
        memory[pc + K_PRE_WRITE] = min(memory[pc + K_PRE_WRITE], ready)
        waited = True
    if waited:
        may = max(ready, memory[pc + P_PRE_AT])
        memory[channel + C_ROW_AT] = min(memory[channel + C_ROW_AT], may)
