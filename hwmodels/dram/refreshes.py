"""Refresh: all banks of a pseudo-channel at once, or bank by bank beside the traffic.

All-bank: every tREFI all pseudo-channels become due; one after the other closes its banks and
refreshes, and until all have done so only active requests are served.

Per bank: every tREFI / banks a pseudo-channel refreshes its next bank, in order, while the others
go on. The bank is closed as soon as no active request holds it, and opened again after tRFCpb.

Assumes: a counter walks through the banks, without regard to what waits for them; refreshes are
neither put off nor drawn forward.
Assumes: a per-bank refresh does not count among the four activates of tFAW; it keeps tRREFD to
other refreshes and to activates of its pseudo-channel, and tRRD_S after an activate.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.bits import lowest_bit
from hwmodels.dram.compiled import inlined
from hwmodels.dram.trace import record
from hwmodels.dram.waiting import merge_hits
from hwmodels.dram.words import (
    B_ACT_AT,
    B_CLOSED,
    B_REF_FROM,
    B_REF_UNTIL,
    B_ROW,
    BANK_WORDS,
    C_REF_DUE,
    C_REF_LEFT,
    C_ROW_AT,
    C_ROW_FREE,
    FAR,
    K_ACT_READ,
    L_BANK,
    L_LANES,
    L_PC,
    N_PRECHARGE,
    N_PRECHARGE_ALL,
    N_REFRESH,
    N_REFRESH_PB,
    O_BANKS_A_PC,
    O_PCS,
    O_REFRESH,
    P_ACT_AT,
    P_ACTIVE,
    P_MISS_READ,
    P_OPEN,
    P_PB_AT,
    P_PB_BANK,
    P_PB_DUE,
    P_PB_NEXT,
    P_PB_OWED,
    P_PRE_AT,
    P_REF_AT,
    P_REF_FROM,
    P_REF_PENDING,
    P_REF_UNTIL,
    PC_LANES,
    PC_WORDS,
    PRECHARGE,
    PRECHARGE_ALL,
    REFRESH,
    REFRESH_ALL_BANK,
    REFRESH_PB,
    T_ODD,
    T_PPD,
    T_PRE_BUS,
    T_REFI,
    T_REFI_PB,
    T_RFC,
    T_RFC_PB,
    T_RP,
    T_RP_REF,
    T_RREFD,
    T_RREFD_ACT,
    V_ACT_AT,
    V_PRE_AT,
)


@inlined
def make_due(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Note refreshes that become due in this tick."""
    if tick < memory[channel + C_REF_DUE]:
        return
    pcs = parameters[O_PCS]
    if parameters[O_REFRESH] == REFRESH_ALL_BANK:
        memory[channel + C_REF_DUE] += parameters[T_REFI]
        memory[channel + C_REF_LEFT] = pcs
        memory[channel + C_ROW_AT] = tick
        for pc_number in range(pcs):
            pc = channel + parameters[L_PC] + pc_number * PC_WORDS
            memory[pc + P_REF_PENDING] = 1
            memory[pc + P_REF_FROM] = tick
            memory[pc + P_REF_UNTIL] = FAR
        return
    due = FAR
    for pc_number in range(pcs):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if tick >= memory[pc + P_PB_DUE]:
            memory[pc + P_PB_OWED] += 1
            memory[pc + P_PB_DUE] += parameters[T_REFI_PB]
        due = min(due, memory[pc + P_PB_DUE])
    memory[channel + C_REF_DUE] = due


@inlined
def choose_banks(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Per-bank refresh: the bank that each pseudo-channel in debt refreshes next."""
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + P_PB_OWED] == 0 or memory[pc + P_PB_BANK] >= 0:
            continue
        bank = memory[pc + P_PB_NEXT]
        memory[pc + P_PB_BANK] = bank
        memory[pc + P_PB_NEXT] = bank + 1 if bank + 1 < parameters[O_BANKS_A_PC] else 0
        at = channel + parameters[L_BANK]
        at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
        memory[at + B_REF_FROM] = tick
        memory[at + B_REF_UNTIL] = FAR
        memory[channel + C_ROW_AT] = tick


@inlined
def forbid_activates(memory, bank, lane, until):  # type: ignore[no-untyped-def]
    """No activate of a bank before a tick, whatever its bank group allows."""
    memory[bank + B_ACT_AT] = max(memory[bank + B_ACT_AT], until)
    memory[lane + V_ACT_AT] = max(memory[lane + V_ACT_AT], until)


@inlined
def close_bank(memory, parameters, channel, pc_number, bank, tick):  # type: ignore[no-untyped-def]
    """What a precharge does to a bank and to the requests that wait there."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    lane = channel + parameters[L_LANES] + pc_number * PC_LANES + bank
    bit = np.int64(1) << bank
    memory[at + B_ROW] = -1
    memory[at + B_CLOSED] = tick
    forbid_activates(memory, at, lane, tick + parameters[T_RP])
    memory[pc + P_OPEN] &= ~bit
    merge_hits(memory, at, pc, lane, bit)
    for write in range(2):
        if memory[pc + P_MISS_READ + 2 * write] & bit:
            bound = pc + K_ACT_READ + write
            memory[bound] = min(memory[bound], memory[at + B_ACT_AT])


@inlined
def precharge(memory, parameters, channel, pc_number, bank, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Close one bank."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    row = memory[at + B_ROW]
    close_bank(memory, parameters, channel, pc_number, bank, tick)
    memory[pc + P_PRE_AT] = max(memory[pc + P_PRE_AT], tick + parameters[T_PPD])
    memory[pc + P_REF_AT] = max(memory[pc + P_REF_AT], tick + parameters[T_RP_REF])
    memory[channel + C_ROW_FREE] = tick + parameters[T_PRE_BUS]
    memory[channel + N_PRECHARGE] += 1
    record(trace, totals, tick, channel, parameters, PRECHARGE, pc_number, bank, row)


@inlined
def refresh_all(memory, parameters, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Close and refresh the first pseudo-channel that is still due; tick to look again."""
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        if memory[pc + P_REF_PENDING] == 0:
            continue
        if memory[pc + P_OPEN] != 0:
            return _precharge_all(memory, parameters, channel, pc_number, tick, trace, totals)
        ready = memory[pc + P_REF_AT]
        if parameters[T_ODD]:
            ready |= 1
        if ready > tick or (parameters[T_ODD] and tick & 1 == 0):
            return max(ready, tick + 1)
        memory[pc + P_REF_PENDING] = 0
        memory[channel + C_REF_LEFT] -= 1
        memory[pc + P_ACT_AT] = max(memory[pc + P_ACT_AT], tick + parameters[T_RFC])
        memory[pc + P_REF_UNTIL] = tick + parameters[T_RFC]
        memory[channel + C_ROW_FREE] = tick + parameters[T_PRE_BUS]
        memory[channel + N_REFRESH] += 1
        record(trace, totals, tick, channel, parameters, REFRESH, pc_number, -1, -1)
        return tick + 1
    return FAR


@inlined
def _precharge_all(memory, parameters, channel, pc_number, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Close all banks of a pseudo-channel in one command, once none holds an active request."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    if memory[pc + P_ACTIVE] != 0:
        return FAR  # a column command wakes the row slot
    lanes = channel + parameters[L_LANES] + pc_number * PC_LANES
    ready = memory[pc + P_PRE_AT]
    left = memory[pc + P_OPEN]
    while left != 0:
        ready = max(ready, memory[lanes + lowest_bit(left) + V_PRE_AT])
        left &= left - 1
    if ready > tick:
        return ready
    left = memory[pc + P_OPEN]
    while left != 0:
        close_bank(memory, parameters, channel, pc_number, lowest_bit(left), tick)
        left &= left - 1
    memory[pc + P_PRE_AT] = max(memory[pc + P_PRE_AT], tick + parameters[T_PPD])
    memory[pc + P_REF_AT] = max(memory[pc + P_REF_AT], tick + parameters[T_RP_REF])
    memory[channel + C_ROW_FREE] = tick + parameters[T_PRE_BUS]
    memory[channel + N_PRECHARGE_ALL] += 1
    record(trace, totals, tick, channel, parameters, PRECHARGE_ALL, pc_number, -1, -1)
    return tick + 1


@inlined
def refresh_banks(memory, parameters, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    """Close and refresh chosen banks; whether a command went out, and when to look again."""
    following = FAR
    for pc_number in range(parameters[O_PCS]):
        pc = channel + parameters[L_PC] + pc_number * PC_WORDS
        bank = memory[pc + P_PB_BANK]
        if bank < 0:
            continue
        at = channel + parameters[L_BANK]
        at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
        if memory[at + B_ROW] >= 0:
            if memory[pc + P_ACTIVE] & (np.int64(1) << bank):
                continue  # a column command wakes the row slot
            lane = channel + parameters[L_LANES] + pc_number * PC_LANES + bank
            ready = max(memory[pc + P_PRE_AT], memory[lane + V_PRE_AT])
            if ready <= tick:
                precharge(memory, parameters, channel, pc_number, bank, tick, trace, totals)
                return True, tick + 1
        else:
            ready = max(memory[pc + P_PB_AT], memory[at + B_CLOSED] + parameters[T_RP_REF])
            ready = max(ready, memory[at + B_ACT_AT])
            if parameters[T_ODD]:
                ready |= 1
            if ready <= tick and (parameters[T_ODD] == 0 or tick & 1):
                _refresh_bank(memory, parameters, channel, pc_number, bank, tick, trace, totals)
                return True, tick + 1
        following = min(following, max(ready, tick + 1))
    return False, following


@inlined
def _refresh_bank(memory, parameters, channel, pc_number, bank, tick, trace, totals):  # type: ignore[no-untyped-def]
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at = channel + parameters[L_BANK]
    at += (pc_number * parameters[O_BANKS_A_PC] + bank) * BANK_WORDS
    until = tick + parameters[T_RFC_PB]
    lane = channel + parameters[L_LANES] + pc_number * PC_LANES + bank
    forbid_activates(memory, at, lane, until)
    memory[at + B_REF_UNTIL] = until
    memory[pc + P_ACT_AT] = max(memory[pc + P_ACT_AT], tick + parameters[T_RREFD_ACT])
    memory[pc + P_PB_AT] = max(memory[pc + P_PB_AT], tick + parameters[T_RREFD])
    memory[pc + P_PB_OWED] -= 1
    memory[pc + P_PB_BANK] = -1
    bit = np.int64(1) << bank
    for write in range(2):
        if memory[pc + P_MISS_READ + 2 * write] & bit:
            bound = pc + K_ACT_READ + write
            memory[bound] = min(memory[bound], until)
    memory[channel + C_ROW_FREE] = tick + parameters[T_PRE_BUS]
    memory[channel + N_REFRESH_PB] += 1
    record(trace, totals, tick, channel, parameters, REFRESH_PB, pc_number, bank, -1)
