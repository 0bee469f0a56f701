"""The compiled controller: every channel tick by tick, but for ticks in which nothing can happen.

Channels meet only where chunks end and begin. Where that is known for some ticks ahead, a channel
goes through all of these before the next one does.

In a tick: new chunks, up to four bursts accepted a channel, returned data, refreshes that become
due, the write-drain mode, the column slot, the row slot. The tests have the same in plain Python.
"""

from __future__ import annotations

from hwmodels.dram.arrivals import (
    accept,
    head_direction,
    issue_chunk,
    note_returns,
    return_data,
    take_returns,
)
from hwmodels.dram.bits import address_of
from hwmodels.dram.columns import column_slot, note_next_column
from hwmodels.dram.compiled import entry, inlined
from hwmodels.dram.refreshes import choose_banks, make_due
from hwmodels.dram.rows import row_slot
from hwmodels.dram.words import (
    A_DATA,
    A_IDLE,
    C_COLUMN_AT,
    C_DRAINING,
    C_FIFO_HEAD,
    C_READS,
    C_REF_DUE,
    C_RETURN_HEAD,
    C_RETURN_TAIL,
    C_ROW_AT,
    C_WRITES,
    F_FROM,
    FAR,
    L_PC,
    L_RETURN,
    L_WORDS,
    O_CHANNELS,
    O_DRAIN_ABOVE,
    O_DRAIN_BELOW,
    O_PCS,
    O_READ_QUEUE,
    O_REFRESH,
    P_ACCOUNTED,
    P_PARTS,
    PARTS,
    PC_WORDS,
    REFRESH_PER_BANK,
    RETURN_WORDS,
    RETURNS,
    X_AHEAD,
    X_BURSTS,
    X_DONE,
    X_DONE_BYTES,
    X_FROM_BURSTS,
    X_IN_FLIGHT,
    X_LAST,
    X_NEXT,
    X_RETURNING,
    X_STEADY,
    X_UNTIL,
    X_UNTIL_BURSTS,
    X_UNTIL_BYTES,
)


@entry
def run_controller(  # type: ignore[no-untyped-def]
    memory_words, parameter_words, digits, runs, totals, wake, due,
    starts, sizes, writes, arrivals, left, issued, finished, outstanding, trace,
):  # fmt: skip
    """Serve all chunks. Everything is written into the arrays given."""
    memory = address_of(memory_words)
    parameters = address_of(parameter_words)
    chunks = starts.shape[0]
    tick = 1
    while True:
        last = _look_ahead(
            memory, parameters, runs, totals, wake, due, starts, sizes, arrivals, left, issued,
            finished, outstanding, tick,
        )  # fmt: skip
        following = FAR
        for number in range(parameters[O_CHANNELS]):
            channel = number * parameters[L_WORDS]
            at = wake[number]
            while at <= last:
                accept(
                    memory, parameters, digits, runs, totals, channel, writes, sizes, left,
                    finished, at,
                )  # fmt: skip
                if totals[X_AHEAD] == 0:
                    return_data(memory, parameters, totals, channel, left, finished, sizes, at)
                _use_slots(memory, parameters, channel, at, trace, totals)
                if totals[X_AHEAD] > 0:
                    note_returns(memory, parameters, totals, channel, due)
                at = _next_wake(memory, parameters, runs, writes, channel, at)
            wake[number] = at
            following = min(following, at)
        if totals[X_FROM_BURSTS] < 0:
            totals[X_FROM_BURSTS] = totals[X_BURSTS]
            open_account(memory, parameters, last)
        if totals[X_DONE] == chunks:
            break
        if totals[X_NEXT] < chunks and totals[X_IN_FLIGHT] < outstanding:
            following = min(following, max(arrivals[totals[X_NEXT]], last + 1))
        if totals[X_RETURNING] > 0:
            following = last + 1
        if following >= FAR:
            break  # a bug, which the caller reports
        tick = following
    if totals[X_UNTIL] == 0:
        _close_window(memory, parameters, totals, totals[X_LAST])


@inlined
def _look_ahead(  # type: ignore[no-untyped-def]
    memory, parameters, runs, totals, wake, due, starts, sizes, arrivals, left, issued, finished,
    outstanding, tick,
):  # fmt: skip
    """Issue chunks and take returned data from this tick on; the last tick that was looked at.

    What returns before the latency of a read is over was read before. So each channel can go
    through all of these ticks alone, while its memory stays in the processor's cache.
    """
    chunks = starts.shape[0]
    last = tick + max(totals[X_AHEAD] - 1, 0)
    at = tick
    while True:
        _issue_due(
            memory, parameters, runs, totals, wake, starts, sizes, arrivals, left, issued,
            outstanding, at,
        )  # fmt: skip
        if totals[X_RETURNING] > 0:
            take_returns(totals, due, left, finished, sizes, at)
        # The account of the window begins and ends between two ticks of all channels.
        if totals[X_DONE] == chunks or totals[X_FROM_BURSTS] < 0 or at == last:
            return at
        may_issue = totals[X_NEXT] < chunks and totals[X_IN_FLIGHT] < outstanding
        places = outstanding - totals[X_IN_FLIGHT]
        if totals[X_STEADY] and may_issue and totals[X_NEXT] + places >= chunks:
            return at  # the next tick may issue the last chunk, before which the account ends
        if totals[X_RETURNING] == 0:
            following = arrivals[totals[X_NEXT]] if may_issue else FAR
            if following > last:
                return last
        at += 1


@inlined
def _issue_due(  # type: ignore[no-untyped-def]
    memory, parameters, runs, totals, wake, starts, sizes, arrivals, left, issued, outstanding,
    tick,
):  # fmt: skip
    """Issue the chunks that have arrived and find a place."""
    chunks = starts.shape[0]
    while totals[X_NEXT] < chunks and totals[X_IN_FLIGHT] < outstanding:
        chunk = totals[X_NEXT]
        if arrivals[chunk] > tick:
            return
        issued[chunk] = arrivals[chunk] if arrivals[chunk] > 0 else tick
        start = starts[chunk]
        issue_chunk(
            memory, parameters, runs, totals, wake, chunk, start, sizes[chunk], left, tick
        )  # fmt: skip
        totals[X_NEXT] += 1
        totals[X_IN_FLIGHT] += 1
        if totals[X_NEXT] == chunks and totals[X_STEADY]:
            _close_window(memory, parameters, totals, tick)


@inlined
def _close_window(memory, parameters, totals, tick):  # type: ignore[no-untyped-def]
    totals[X_UNTIL] = tick
    totals[X_UNTIL_BYTES] = totals[X_DONE_BYTES]
    totals[X_UNTIL_BURSTS] = totals[X_BURSTS]
    close_account(memory, parameters, tick)


@inlined
def set_mode(memory, parameters, channel, tick):  # type: ignore[no-untyped-def]
    """Begin to drain writes when many wait or no read does; stop when few are left."""
    reads = memory[channel + C_READS]
    waiting = memory[channel + C_WRITES]
    if memory[channel + C_DRAINING] == 0:
        if not (waiting > parameters[O_DRAIN_ABOVE] or reads == 0):
            return
        memory[channel + C_DRAINING] = 1
    else:
        if not (waiting < parameters[O_DRAIN_BELOW] and reads > 0):
            return
        memory[channel + C_DRAINING] = 0
    memory[channel + C_COLUMN_AT] = min(memory[channel + C_COLUMN_AT], tick)
    memory[channel + C_ROW_AT] = min(memory[channel + C_ROW_AT], tick)


@inlined
def step(memory, parameters, runs, writes, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    """The controller's part of a tick; the next tick in which it may have something to do."""
    _use_slots(memory, parameters, channel, tick, trace, totals)
    return _next_wake(memory, parameters, runs, writes, channel, tick)


@inlined
def _use_slots(memory, parameters, channel, tick, trace, totals):  # type: ignore[no-untyped-def]
    make_due(memory, parameters, channel, tick)
    set_mode(memory, parameters, channel, tick)
    if memory[channel + C_COLUMN_AT] <= tick:
        column_slot(memory, parameters, channel, tick, trace, totals)
        draining = memory[channel + C_DRAINING]
        set_mode(memory, parameters, channel, tick)
        if memory[channel + C_DRAINING] != draining:
            note_next_column(memory, parameters, channel, tick)
    if parameters[O_REFRESH] == REFRESH_PER_BANK:
        choose_banks(memory, parameters, channel, tick)
    if memory[channel + C_ROW_AT] <= tick:
        row_slot(memory, parameters, channel, tick, trace, totals)


@inlined
def _next_wake(memory, parameters, runs, writes, channel, tick):  # type: ignore[no-untyped-def]
    following = min(memory[channel + C_COLUMN_AT], memory[channel + C_ROW_AT])
    following = min(following, memory[channel + C_REF_DUE])
    if memory[channel + C_RETURN_HEAD] != memory[channel + C_RETURN_TAIL]:
        ring = channel + parameters[L_RETURN]
        ring += (memory[channel + C_RETURN_HEAD] & (RETURNS - 1)) * RETURN_WORDS
        following = min(following, memory[ring])
    run = memory[channel + C_FIFO_HEAD]
    if run >= 0:
        write = head_direction(memory, runs, writes, channel, run)
        if memory[channel + C_READS + write] < parameters[O_READ_QUEUE + write]:
            following = min(following, runs[run, F_FROM])
    if _mode_turns(memory, parameters, channel):
        following = tick + 1
    return max(following, tick + 1)


@inlined
def _mode_turns(memory, parameters, channel):  # type: ignore[no-untyped-def]
    reads = memory[channel + C_READS]
    waiting = memory[channel + C_WRITES]
    if memory[channel + C_DRAINING] == 0:
        return waiting > parameters[O_DRAIN_ABOVE] or reads == 0
    return waiting < parameters[O_DRAIN_BELOW] and reads > 0


@inlined
def open_account(memory, parameters, tick):  # type: ignore[no-untyped-def]
    """Forget the parts of the warm-up."""
    for number in range(parameters[O_CHANNELS]):
        for pc_number in range(parameters[O_PCS]):
            pc = number * parameters[L_WORDS] + parameters[L_PC] + pc_number * PC_WORDS
            for part in range(PARTS):
                memory[pc + P_PARTS + part] = 0
            # A burst that began before the window keeps its share of it.
            memory[pc + P_PARTS + A_DATA] = max(memory[pc + P_ACCOUNTED] - tick, 0)
            memory[pc + P_ACCOUNTED] = max(memory[pc + P_ACCOUNTED], tick)


@inlined
def close_account(memory, parameters, tick):  # type: ignore[no-untyped-def]
    """Make the parts of every pseudo-channel add up to the window that ends here."""
    for number in range(parameters[O_CHANNELS]):
        for pc_number in range(parameters[O_PCS]):
            pc = number * parameters[L_WORDS] + parameters[L_PC] + pc_number * PC_WORDS
            at = memory[pc + P_ACCOUNTED]
            if at > tick:
                memory[pc + P_PARTS + A_DATA] -= at - tick
            else:
                memory[pc + P_PARTS + A_IDLE] += tick - at
            memory[pc + P_ACCOUNTED] = FAR  # later bursts are not charged
