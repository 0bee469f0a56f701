"""Where the time of a pseudo-channel's data bus goes, part by part.

Assumes: a gap on the data bus belongs to what the burst that ends it waited for last, counted from
that burst's command; gaps that end with no burst are idle.
Assumes: while only writes wait that the controller has not begun to drain, the bus waits for its
turn-around.
"""

from __future__ import annotations

from hwmodels.dram.compiled import inlined
from hwmodels.dram.words import (
    A_ACTIVATE,
    A_ACTIVATE_RATE,
    A_COLUMN,
    A_CONFLICT,
    A_DATA,
    A_IDLE,
    A_REFRESH,
    A_TURNAROUND,
    B_CLOSED,
    B_OPENED,
    B_REF_FROM,
    B_REF_UNTIL,
    FAR,
    P_ACCOUNTED,
    P_LAST_WAS_WRITE,
    P_PARTS,
    P_PENDING_FROM,
    P_REF_FROM,
    P_REF_UNTIL,
    T_BURST,
    T_RCDRD,
    T_RCDWR,
    T_RP,
)


@inlined
def account_burst(memory, parameters, pc, bank, write, tick):  # type: ignore[no-untyped-def]
    """Charge the gap before a column command at `tick`, and its burst."""
    parts = pc + P_PARTS
    at = memory[pc + P_ACCOUNTED]
    if at >= FAR:  # the window is over
        return
    if at < tick:
        idle_until = min(tick, memory[pc + P_PENDING_FROM])
        if idle_until > at:
            memory[parts + A_IDLE] += idle_until - at
            at = idle_until
        opened = min(tick, memory[bank + B_OPENED])
        if at < opened:
            at = _account_closed(memory, parameters, pc, bank, at, opened)
        row_ready = opened + parameters[T_RCDWR if write else T_RCDRD]
        row_until = min(tick, row_ready)
        if at < row_until:
            memory[parts + A_ACTIVATE] += row_until - at
            at = row_until
        switched = memory[pc + P_LAST_WAS_WRITE] != write
        memory[parts + (A_TURNAROUND if switched else A_COLUMN)] += tick - at
        at = tick
    memory[parts + A_DATA] += parameters[T_BURST]
    memory[pc + P_ACCOUNTED] = at + parameters[T_BURST]
    memory[pc + P_LAST_WAS_WRITE] = write


@inlined
def _account_closed(memory, parameters, pc, bank, at, opened):  # type: ignore[no-untyped-def]
    """Charge the time before the activate: bank conflict, refresh, then the activate's turn."""
    parts = pc + P_PARTS
    begin = max(at, max(memory[pc + P_REF_FROM], memory[bank + B_REF_FROM]))
    end = min(opened, max(memory[pc + P_REF_UNTIL], memory[bank + B_REF_UNTIL]))
    if begin < end:
        at = _account_precharge(memory, parameters, pc, bank, at, begin)
        memory[parts + A_ACTIVATE_RATE] += begin - at
        memory[parts + A_REFRESH] += end - begin
        at = end
    at = _account_precharge(memory, parameters, pc, bank, at, opened)
    memory[parts + A_ACTIVATE_RATE] += opened - at
    return opened


@inlined
def _account_precharge(memory, parameters, pc, bank, at, until):  # type: ignore[no-untyped-def]
    closed = min(until, memory[bank + B_CLOSED] + parameters[T_RP])
    if closed > at:
        memory[pc + P_PARTS + A_CONFLICT] += closed - at
        return closed
    return at
