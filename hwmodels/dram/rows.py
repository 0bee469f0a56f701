"""The row slot: one activate, precharge or refresh a channel.

A bank is not closed while a request that it was opened for waits, nor for a request when a row hit
of the same kind arrived at the same time or earlier.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.compiled import inlined
from hwmodels.dram.lanes import first_ready, no_later, raise_banks, settle
from hwmodels.dram.refreshes import forbid_activates, precharge, refresh_all, refresh_banks
from hwmodels.dram.trace import record
from hwmodels.dram.waiting import pop, split_hits
from hwmodels.dram.words import (
    ACTIVATE,
    B_ACTIVE,
    B_LISTS,
    B_OPENED,
    B_ROW,
    BANK_OF_KEY,
    BANK_WORDS,
    C_COLUMN_AT,
    C_DRAINING,
    C_READS,
    C_REF_LEFT,
    C_ROW_AT,
    C_ROW_FREE,
    FAR,
    GROUP_BITS,
    K_ACT_READ,
    K_ACTIVE,
    K_HIT_READ,
    K_PRE_READ,
    L_BANK,
    L_LANES,
    L_PC,
    LANES,
    LIST_MISS,
    LIST_WRITE,
    N_ACTIVATE,
    O_BANKS_A_PC,
    O_PCS,
    O_REFRESH,
    P_ACT_AT,
    P_ACTIVE,
    P_ACTIVE_WRITES,
    P_FAW,
    P_FAW_NEXT,
    P_HIT_READ,
    P_MISS_READ,
    P_OPEN,
    P_PB_AT,
    P_PB_BANK,
    P_PRE_AT,
    P_READ_AT,
    PC_LANES,
    PC_WORDS,
    REFRESH_PER_BANK,
    S_KEY,
    S_ROW,
    SAME_ARRIVAL,
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
    V_ACT_AT,
    V_ACTIVE,
    V_HITS,
    V_MISSES,
    V_PRE_AT,
    V_READ_AT,
    V_WRITE,
    V_WRITE_AT,
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
    key, pc_number = _best_row_command(memory, parameters, channel, write, tick)
    if key >= FAR:
        memory[channel + C_ROW_AT] = min(
            refresh_at, _next_row(memory, parameters, channel, write, tick)
        )
        return
    bank = key & BANK_OF_KEY
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
    """Key of the earliest arrival whose activate or precharge is ready, or FAR."""
    best = FAR
    best_pc = 0
    best_bound = 0
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
        bound = pc + K_ACT_READ + write
        if memory[bound] <= tick:
            key = _best_activate(memory, parameters, pc, lanes, write, tick)
            best, best_pc, best_bound = settle(
                memory, best, best_pc, best_bound, key, pc_number, bound, tick
            )
        bound = pc + K_PRE_READ + write
        if memory[bound] <= tick:
            key = _best_precharge(memory, pc, lanes, write, tick)
            best, best_pc, best_bound = settle(
                memory, best, best_pc, best_bound, key, pc_number, bound, tick
            )
    return best, best_pc


@inlined
def _best_activate(memory, parameters, pc, lanes, write, tick):  # type: ignore[no-untyped-def]
    banks = memory[pc + P_MISS_READ + 2 * write] & ~memory[pc + P_OPEN]
    if memory[pc + P_PB_BANK] >= 0:
        banks &= ~(np.int64(1) << memory[pc + P_PB_BANK])
    may = memory[pc + P_ACT_AT]
    if parameters[T_ODD] and tick & 1 == 0:
        may = max(may, tick + 1)
    keys = lanes + V_MISSES + write * V_WRITE
    key, bound = first_ready(memory, lanes + V_ACT_AT, keys, banks, may, tick)
    memory[pc + K_ACT_READ + write] = bound
    return key


@inlined
def _best_precharge(memory, pc, lanes, write, tick):  # type: ignore[no-untyped-def]
    banks = memory[pc + P_MISS_READ + 2 * write] & memory[pc + P_OPEN] & ~memory[pc + P_ACTIVE]
    keys = lanes + V_MISSES + write * V_WRITE
    # A bank with an earlier hit waits: the column command that serves it lowers the bound again.
    hits = banks & memory[pc + P_HIT_READ + 2 * write]
    if hits != 0:
        banks ^= no_later(memory, lanes + V_HITS + write * V_WRITE, keys, SAME_ARRIVAL, hits)
    key, bound = first_ready(memory, lanes + V_PRE_AT, keys, banks, memory[pc + P_PRE_AT], tick)
    memory[pc + K_PRE_READ + write] = bound
    return key


@inlined
def _activate(memory, parameters, channel, pc_number, bank, write, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Open a row for the first request that waits there; the request becomes active."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    bit = np.int64(1) << bank
    lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
    lane = lanes + bank
    misses = at + B_LISTS + LIST_MISS + write * LIST_WRITE
    entry = pop(memory, misses, lane + V_MISSES + write * V_WRITE)
    if memory[misses] < 0:
        memory[pc + P_MISS_READ + 2 * write] &= ~bit
    memory[channel + C_READS + write] -= 1
    row = memory[entry + S_ROW]
    memory[at + B_ACTIVE] = entry
    memory[lane + V_ACTIVE] = memory[entry + S_KEY]
    memory[at + B_ROW] = row
    memory[at + B_OPENED] = tick
    memory[pc + P_ACTIVE] |= bit
    if write:
        memory[pc + P_ACTIVE_WRITES] |= bit
    memory[pc + P_OPEN] |= bit
    split_hits(memory, at, pc, lane, bit, row)
    group = parameters[GROUP_BITS + bank]
    raise_banks(memory, lanes + V_ACT_AT, group, tick + parameters[T_RRDL])
    forbid_activates(memory, at, lane, tick + parameters[T_RC])
    memory[lane + V_READ_AT] = max(memory[lane + V_READ_AT], tick + parameters[T_RCDRD])
    memory[lane + V_WRITE_AT] = max(memory[lane + V_WRITE_AT], tick + parameters[T_RCDWR])
    memory[lane + V_PRE_AT] = max(memory[lane + V_PRE_AT], tick + parameters[T_RAS])
    _four_activates(memory, parameters, pc, tick)
    memory[channel + C_ROW_FREE] = tick + parameters[T_ACT_BUS]
    memory[channel + N_ACTIVATE] += 1
    _lower_bounds(memory, parameters, channel, pc, lane, bit, write)
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
def _lower_bounds(memory, parameters, channel, pc, lane, bit, active_write):  # type: ignore[no-untyped-def]
    """Look for a column command once the bank just opened may be ready for it."""
    ready = memory[lane + V_READ_AT + active_write * LANES]
    memory[pc + K_ACTIVE] = min(memory[pc + K_ACTIVE], ready)
    may = max(ready, memory[pc + P_READ_AT + active_write])
    for write in range(2):
        if memory[pc + P_HIT_READ + 2 * write] & bit:
            bound = pc + K_HIT_READ + write
            memory[bound] = min(memory[bound], memory[lane + V_READ_AT + write * LANES])
    # The active request is of the kind that is served now; its hits are ready no sooner.
    memory[channel + C_COLUMN_AT] = min(memory[channel + C_COLUMN_AT], may | parameters[T_ODD])
