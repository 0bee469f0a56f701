"""The column slot: one read or write a channel, active requests first, then row hits.

Assumes: among ready requests the earliest arrival goes first; a closed page policy is not modelled.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.account import account_burst
from hwmodels.dram.bits import lowest_bit
from hwmodels.dram.compiled import inlined
from hwmodels.dram.trace import record
from hwmodels.dram.waiting import pop, release_slot
from hwmodels.dram.words import (
    B_ACTIVE,
    B_GROUP,
    B_LISTS,
    B_PRE_AT,
    B_READ_AT,
    B_SID,
    BANK_WORDS,
    C_COLUMN_AT,
    C_COLUMN_FREE,
    C_DRAINING,
    C_READS,
    C_REF_LEFT,
    C_RETURN_TAIL,
    C_ROW_AT,
    FAR,
    G_READ_AT,
    G_WRITE_AT,
    K_ACTIVE,
    K_HIT_READ,
    K_PRE_READ,
    L_BANK,
    L_PC,
    L_RETURN,
    L_SID,
    LIST_WRITE,
    N_HIT,
    N_READ,
    N_WRITE,
    O_BANKS_A_PC,
    O_PCS,
    O_SIDS,
    P_ACTIVE,
    P_HIT_READ,
    P_MISS_READ,
    P_PB_BANK,
    P_PENDING,
    P_READ_AT,
    P_WRITE_AT,
    PC_WORDS,
    READ,
    RETURN_WORDS,
    RETURNS,
    S_CHUNK,
    S_ROW,
    S_SEQUENCE,
    S_WRITE,
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
    bank, pc_number = _best_active(memory, parameters, channel, tick)
    if bank >= 0:
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        at = channel + parameters[L_BANK]
        at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
        entry = memory[at + B_ACTIVE]
        memory[at + B_ACTIVE] = -1
        memory[pc + P_ACTIVE] &= ~(np.int64(1) << bank)
        _issue(memory, parameters, channel, pc_number, bank, entry, tick, trace, totals)
    elif memory[channel + C_REF_LEFT] == 0:
        write = memory[channel + C_DRAINING]
        bank, pc_number = _best_hit(memory, parameters, channel, write, tick)
        if bank >= 0:
            pc = channel + parameters[L_PC] + pc_number * PC_WORDS
            at = channel + parameters[L_BANK] + B_LISTS + write * LIST_WRITE
            at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
            entry = pop(memory, at)
            if memory[at] < 0:
                memory[pc + P_HIT_READ + 2 * write] &= ~(np.int64(1) << bank)
            memory[channel + C_READS + write] -= 1
            memory[channel + N_HIT] += 1
            _issue(memory, parameters, channel, pc_number, bank, entry, tick, trace, totals)
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
def _column_ready(memory, at, write):  # type: ignore[no-untyped-def]
    """Tick from which bank, bank group and stack id allow a column command."""
    ready = max(memory[at + B_READ_AT + write], memory[memory[at + B_GROUP] + G_READ_AT + write])
    if write == 0:
        ready = max(ready, memory[memory[at + B_SID]])
    return ready


@inlined
def _best_active(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Bank and pseudo-channel of the ready active request that arrived first, or -1."""
    best = FAR
    best_bank = -1
    best_pc = 0
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + K_ACTIVE] > tick:
            continue
        base = channel + parameters[L_BANK] + pc_number * parameters[O_BANKS_A_PC] * BANK_WORDS
        bound = FAR
        left = memory[pc + P_ACTIVE]
        may = min(memory[pc + P_READ_AT], memory[pc + P_WRITE_AT])
        if left != 0 and may > tick:
            bound = may
            left = 0
        while left != 0:
            bank = lowest_bit(left)
            left &= left - 1
            at = base + bank * BANK_WORDS
            entry = memory[at + B_ACTIVE]
            write = memory[entry + S_WRITE]
            ready = _column_ready(memory, at, write)
            ready = max(ready, memory[pc + P_READ_AT + write])
            bound = min(bound, max(ready, tick + 1))
            if ready <= tick and memory[entry + S_SEQUENCE] < best:
                best = memory[entry + S_SEQUENCE]
                best_bank = bank
                best_pc = pc_number
        memory[pc + K_ACTIVE] = bound
    return best_bank, best_pc


@inlined
def _best_hit(memory, parameters, channel, write, tick):  # type: ignore[no-untyped-def]
    """Bank and pseudo-channel of the ready row hit that arrived first, or -1."""
    best = FAR
    best_bank = -1
    best_pc = 0
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + K_HIT_READ + write] > tick:
            continue
        base = channel + parameters[L_BANK] + pc_number * parameters[O_BANKS_A_PC] * BANK_WORDS
        left = memory[pc + P_HIT_READ + 2 * write]
        bound = FAR
        if left != 0 and memory[pc + P_READ_AT + write] > tick:
            bound = memory[pc + P_READ_AT + write]
            left = 0
        while left != 0:
            bank = lowest_bit(left)
            left &= left - 1
            at = base + bank * BANK_WORDS
            ready = _column_ready(memory, at, write)
            bound = min(bound, max(ready, tick + 1))
            if ready <= tick:
                sequence = memory[memory[at + B_LISTS + write * LIST_WRITE] + S_SEQUENCE]
                if sequence < best:
                    best = sequence
                    best_bank = bank
                    best_pc = pc_number
        memory[pc + K_HIT_READ + write] = bound
    return best_bank, best_pc


@inlined
def _raise(memory, at, tick):  # type: ignore[no-untyped-def]
    """A constraint only ever moves a tick back."""
    if memory[at] < tick:
        memory[at] = tick


@inlined
def _issue(memory, parameters, channel, pc_number, bank, entry, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Send a read or write, and set what it forbids for how long."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    group = memory[at + B_GROUP]
    write = memory[entry + S_WRITE]
    account_burst(memory, parameters, pc, at, write, tick)
    if write:
        memory[channel + N_WRITE] += 1
        _raise(memory, pc + P_WRITE_AT, tick + parameters[T_CCDS])
        _raise(memory, group + G_WRITE_AT, tick + parameters[T_CCDL])
        _raise(memory, pc + P_READ_AT, tick + parameters[T_WTRS])
        _raise(memory, group + G_READ_AT, tick + parameters[T_WTRL])
        _raise(memory, at + B_PRE_AT, tick + parameters[T_WTP])
    else:
        memory[channel + N_READ] += 1
        _raise(memory, pc + P_READ_AT, tick + parameters[T_CCDS])
        _raise(memory, group + G_READ_AT, tick + parameters[T_CCDL])
        _raise(memory, pc + P_WRITE_AT, tick + parameters[T_RTW])
        _raise(memory, at + B_PRE_AT, tick + parameters[T_RTP])
        sids = channel + parameters[L_SID] + pc_number * parameters[O_SIDS]
        for sid in range(sids, sids + parameters[O_SIDS]):
            if sid != memory[at + B_SID]:
                _raise(memory, sid, tick + parameters[T_CCDR])
        ring = channel + parameters[L_RETURN]
        ring += (memory[channel + C_RETURN_TAIL] & (RETURNS - 1)) * RETURN_WORDS
        memory[channel + C_RETURN_TAIL] += 1
        memory[ring] = tick + parameters[T_LATENCY]
        memory[ring + 1] = memory[entry + S_CHUNK]
    memory[channel + C_COLUMN_FREE] = tick + parameters[T_COLUMN_BUS]
    memory[pc + P_PENDING] -= 1
    kind = WRITE if write else READ
    record(trace, totals, tick, channel, parameters, kind, pc_number, bank, memory[entry + S_ROW])
    release_slot(memory, channel, entry)
    _allow_precharge(memory, channel, pc, at, bank)


@inlined
def _allow_precharge(memory, channel, pc, at, bank):  # type: ignore[no-untyped-def]
    """A served request may have been what kept its bank open."""
    bit = np.int64(1) << bank
    for write in range(2):
        if memory[pc + P_MISS_READ + 2 * write] & bit:
            bound = pc + K_PRE_READ + write
            memory[bound] = min(memory[bound], memory[at + B_PRE_AT])
            memory[channel + C_ROW_AT] = min(memory[channel + C_ROW_AT], memory[bound])
    if memory[pc + P_PB_BANK] == bank or memory[channel + C_REF_LEFT] > 0:
        memory[channel + C_ROW_AT] = min(memory[channel + C_ROW_AT], memory[at + B_PRE_AT])
