"""The row slot: one activate, precharge or refresh a channel.

A bank is not closed while a request that it was opened for waits, nor for a request when a row hit
of the same kind arrived at the same time or earlier.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.bits import lowest_bit
from hwmodels.dram.compiled import inlined
from hwmodels.dram.refreshes import precharge, refresh_all, refresh_banks
from hwmodels.dram.trace import record
from hwmodels.dram.waiting import pop, split_hits
from hwmodels.dram.words import (
    ACTIVATE,
    B_ACT_AT,
    B_ACTIVE,
    B_GROUP,
    B_LISTS,
    B_OPENED,
    B_PRE_AT,
    B_READ_AT,
    B_ROW,
    B_WRITE_AT,
    BANK_WORDS,
    C_COLUMN_AT,
    C_DRAINING,
    C_READS,
    C_REF_LEFT,
    C_ROW_AT,
    C_ROW_FREE,
    FAR,
    G_ACT_AT,
    K_ACT_READ,
    K_ACTIVE,
    K_HIT_READ,
    K_PRE_READ,
    L_BANK,
    L_PC,
    LIST_HIT,
    LIST_MISS,
    LIST_WRITE,
    N_ACTIVATE,
    O_BANKS_A_PC,
    O_PCS,
    O_REFRESH,
    P_ACT_AT,
    P_ACTIVE,
    P_FAW,
    P_FAW_NEXT,
    P_HIT_READ,
    P_MISS_READ,
    P_OPEN,
    P_PB_AT,
    P_PB_BANK,
    P_PRE_AT,
    PC_WORDS,
    REFRESH_PER_BANK,
    S_ARRIVED,
    S_ROW,
    S_SEQUENCE,
    S_WRITE,
    T_ACT_BUS,
    T_ACT_REF_PB,
    T_FAW,
    T_ODD,
    T_RAS,
    T_RC,
    T_RCDRD,
    T_RCDWR,
    T_RRDL,
    T_RRDS,
)


@inlined
def row_slot(memory, parameters, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Issue the row command of this tick, if one is ready; note when to look again."""
    if memory[channel + C_ROW_FREE] > tick:
        memory[channel + C_ROW_AT] = memory[channel + C_ROW_FREE]
        return
    if memory[channel + C_REF_LEFT] > 0:
        following = refresh_all(memory, parameters, channel, tick, trace, totals)
        if memory[channel + C_REF_LEFT] == 0:
            memory[channel + C_COLUMN_AT] = tick + 1
        memory[channel + C_ROW_AT] = following
        return
    refresh_at = FAR
    if parameters[O_REFRESH] == REFRESH_PER_BANK:
        issued, refresh_at = refresh_banks(memory, parameters, channel, tick, trace, totals)
        if issued:
            memory[channel + C_ROW_AT] = tick + 1
            return
    write = memory[channel + C_DRAINING]
    bank, pc_number = _best_row_command(memory, parameters, channel, write, tick)
    if bank < 0:
        memory[channel + C_ROW_AT] = min(
            refresh_at, _next_row(memory, parameters, channel, write, tick)
        )
        return
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    if memory[at + B_ROW] >= 0:
        precharge(memory, parameters, channel, pc_number, bank, tick, trace, totals)
    else:
        _activate(memory, parameters, channel, pc_number, bank, write, tick, trace, totals)
    memory[channel + C_ROW_AT] = min(
        refresh_at, _next_row(memory, parameters, channel, write, tick)
    )


@inlined
def _next_row(memory, parameters, channel, write, tick):  # type: ignore[no-untyped-def]
    at = FAR
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        misses = memory[pc + P_MISS_READ + 2 * write]
        if misses & ~memory[pc + P_OPEN]:
            may = max(memory[pc + K_ACT_READ + write], memory[pc + P_ACT_AT])
            at = min(at, may | 1 if parameters[T_ODD] else may)
        if misses & memory[pc + P_OPEN]:
            at = min(at, max(memory[pc + K_PRE_READ + write], memory[pc + P_PRE_AT]))
    return max(at, max(tick + 1, memory[channel + C_ROW_FREE]))


@inlined
def _best_row_command(memory, parameters, channel, write, tick):  # type: ignore[no-untyped-def]
    """Bank whose activate or precharge is ready for the earliest arrival, or -1."""
    best = FAR
    best_bank = -1
    best_pc = 0
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + K_ACT_READ + write] <= tick:
            sequence, bank = _best_activate(memory, parameters, channel, pc_number, write, tick)
            if sequence < best:
                best = sequence
                best_bank = bank
                best_pc = pc_number
        if memory[pc + K_PRE_READ + write] <= tick:
            sequence, bank = _best_precharge(memory, parameters, channel, pc_number, write, tick)
            if sequence < best:
                best = sequence
                best_bank = bank
                best_pc = pc_number
    return best_bank, best_pc


@inlined
def _best_activate(memory, parameters, channel, pc_number, write, tick):  # type: ignore[no-untyped-def]
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    best = FAR
    best_bank = -1
    bound = FAR
    left = memory[pc + P_MISS_READ + 2 * write] & ~memory[pc + P_OPEN]
    if memory[pc + P_PB_BANK] >= 0:
        left &= ~(np.int64(1) << memory[pc + P_PB_BANK])
    if left != 0:
        may = memory[pc + P_ACT_AT]
        if parameters[T_ODD] and tick & 1 == 0:
            may = max(may, tick + 1)
        if may > tick:
            bound = may
            left = 0
    base = channel + parameters[L_BANK] + pc_number * parameters[O_BANKS_A_PC] * BANK_WORDS
    while left != 0:
        bank = lowest_bit(left)
        left &= left - 1
        at = base + bank * BANK_WORDS
        ready = max(memory[at + B_ACT_AT], memory[memory[at + B_GROUP] + G_ACT_AT])
        bound = min(bound, max(ready, tick + 1))
        if ready <= tick:
            head = memory[at + B_LISTS + LIST_MISS + write * LIST_WRITE]
            if memory[head + S_SEQUENCE] < best:
                best = memory[head + S_SEQUENCE]
                best_bank = bank
    memory[pc + K_ACT_READ + write] = bound
    return best, best_bank


@inlined
def _best_precharge(memory, parameters, channel, pc_number, write, tick):  # type: ignore[no-untyped-def]
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    best = FAR
    best_bank = -1
    bound = FAR
    left = memory[pc + P_MISS_READ + 2 * write] & memory[pc + P_OPEN] & ~memory[pc + P_ACTIVE]
    if left != 0 and memory[pc + P_PRE_AT] > tick:
        bound = memory[pc + P_PRE_AT]
        left = 0
    base = channel + parameters[L_BANK] + pc_number * parameters[O_BANKS_A_PC] * BANK_WORDS
    while left != 0:
        bank = lowest_bit(left)
        left &= left - 1
        at = base + bank * BANK_WORDS
        head = memory[at + B_LISTS + LIST_MISS + write * LIST_WRITE]
        hit = memory[at + B_LISTS + LIST_HIT + write * LIST_WRITE]
        if hit >= 0 and memory[hit + S_ARRIVED] <= memory[head + S_ARRIVED]:
            continue  # the column command that serves the hit lowers the bound again
        ready = memory[at + B_PRE_AT]
        bound = min(bound, max(ready, tick + 1))
        if ready <= tick and memory[head + S_SEQUENCE] < best:
            best = memory[head + S_SEQUENCE]
            best_bank = bank
    memory[pc + K_PRE_READ + write] = bound
    return best, best_bank


@inlined
def _activate(memory, parameters, channel, pc_number, bank, write, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Open a row for the first request that waits there; the request becomes active."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    bit = np.int64(1) << bank
    misses = at + B_LISTS + LIST_MISS + write * LIST_WRITE
    entry = pop(memory, misses)
    if memory[misses] < 0:
        memory[pc + P_MISS_READ + 2 * write] &= ~bit
    memory[channel + C_READS + write] -= 1
    row = memory[entry + S_ROW]
    memory[at + B_ACTIVE] = entry
    memory[at + B_ROW] = row
    memory[at + B_OPENED] = tick
    memory[pc + P_ACTIVE] |= bit
    memory[pc + P_OPEN] |= bit
    split_hits(memory, at, pc, bit, row)
    memory[at + B_READ_AT] = max(memory[at + B_READ_AT], tick + parameters[T_RCDRD])
    memory[at + B_WRITE_AT] = max(memory[at + B_WRITE_AT], tick + parameters[T_RCDWR])
    memory[at + B_PRE_AT] = max(memory[at + B_PRE_AT], tick + parameters[T_RAS])
    memory[at + B_ACT_AT] = max(memory[at + B_ACT_AT], tick + parameters[T_RC])
    group = memory[at + B_GROUP]
    memory[group + G_ACT_AT] = max(memory[group + G_ACT_AT], tick + parameters[T_RRDL])
    _four_activates(memory, parameters, pc, tick)
    memory[channel + C_ROW_FREE] = tick + parameters[T_ACT_BUS]
    memory[channel + N_ACTIVATE] += 1
    _lower_bounds(memory, channel, pc, at, bit, memory[entry + S_WRITE])
    record(trace, totals, tick, channel, parameters, ACTIVATE, pc_number, bank, row)


@inlined
def _four_activates(memory, parameters, pc, tick):  # type: ignore[no-untyped-def]
    """tRRD_S and tFAW: the fifth activate waits for the first of the last four."""
    newest = memory[pc + P_FAW_NEXT]
    memory[pc + P_FAW + newest] = tick
    oldest = (newest + 1) & 3
    memory[pc + P_FAW_NEXT] = oldest
    may = max(tick + parameters[T_RRDS], memory[pc + P_FAW + oldest] + parameters[T_FAW])
    memory[pc + P_ACT_AT] = max(memory[pc + P_ACT_AT], may)
    memory[pc + P_PB_AT] = max(memory[pc + P_PB_AT], tick + parameters[T_ACT_REF_PB])


@inlined
def _lower_bounds(memory, channel, pc, at, bit, active_write):  # type: ignore[no-untyped-def]
    memory[pc + K_ACTIVE] = min(memory[pc + K_ACTIVE], memory[at + B_READ_AT + active_write])
    column_at = min(memory[channel + C_COLUMN_AT], memory[pc + K_ACTIVE])
    for write in range(2):
        if memory[pc + P_HIT_READ + 2 * write] & bit:
            bound = pc + K_HIT_READ + write
            memory[bound] = min(memory[bound], memory[at + B_READ_AT + write])
            column_at = min(column_at, memory[bound])
    memory[channel + C_COLUMN_AT] = column_at
