"""From chunks to queue entries: cutting chunks, the channels' FIFOs, acceptance, returned data."""

from __future__ import annotations

import numpy as np

from hwmodels.dram.compiled import inlined
from hwmodels.dram.waiting import append, take_slot
from hwmodels.dram.words import (
    ACCEPTED_A_TICK,
    B_LISTS,
    B_ROW,
    BANK_WORDS,
    C_COLUMN_AT,
    C_COLUMN_FREE,
    C_DRAINING,
    C_FIFO_HEAD,
    C_FIFO_TAIL,
    C_FIFO_WRITE,
    C_READS,
    C_RETURN_HEAD,
    C_RETURN_TAIL,
    DIGIT_BANK,
    DIGIT_GROUP,
    DIGIT_PC,
    DIGIT_SID,
    F_BURST,
    F_CHUNK,
    F_COUNT,
    F_FROM,
    F_NEXT,
    K_ACT_READ,
    K_HIT_READ,
    K_PRE_READ,
    L_BANK,
    L_LANES,
    L_PC,
    L_RETURN,
    L_WORDS,
    LANES,
    LIST_MISS,
    LIST_WRITE,
    O_BANKS,
    O_BANKS_A_PC,
    O_BURSTS_A_BLOCK,
    O_CHANNELS,
    O_GROUPS,
    O_HASHED,
    O_READ_QUEUE,
    P_ACTIVE,
    P_HIT_READ,
    P_PENDING,
    P_PENDING_FROM,
    P_READ_AT,
    PC_LANES,
    PC_WORDS,
    RETURN_WORDS,
    RETURNS,
    S_CHUNK,
    S_KEY,
    S_ROW,
    T_ODD,
    V_HITS,
    V_READ_AT,
    V_WRITE,
    X_BURSTS,
    X_DONE,
    X_DONE_BYTES,
    X_FINISHED,
    X_FREE_RUN,
    X_FROM,
    X_FROM_BURSTS,
    X_FROM_BYTES,
    X_IN_FLIGHT,
    X_LAST,
    X_RETURNING,
    X_WARM_UP,
)

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_BURST_SHIFT = 5  # 32-byte bursts


@inlined
def issue_chunk(memory, parameters, runs, totals, wake, chunk, start, size, left, tick):  # type: ignore[no-untyped-def]
    """Cut a chunk into bursts, and queue its runs at the channels that hold them."""
    burst = start >> _BURST_SHIFT
    last = (start + size - 1) >> _BURST_SHIFT
    left[chunk] = last - burst + 1
    block_bursts = parameters[O_BURSTS_A_BLOCK]
    channels = parameters[O_CHANNELS]
    while burst <= last:
        block = burst // block_bursts
        offset = burst - block * block_bursts
        count = min(block_bursts - offset, last - burst + 1)
        row = block // channels
        number = block - row * channels
        if parameters[O_HASHED]:
            key = (np.uint64(row) ^ (np.uint64(row) >> np.uint64(7))) * _MULTIPLIER
            number ^= np.int64((key >> np.uint64(40)) % np.uint64(channels))
        queue_run(
            memory, parameters, runs, totals, wake, number, chunk, row * block_bursts + offset,
            count, tick,
        )  # fmt: skip
        burst += count


@inlined
def queue_run(memory, parameters, runs, totals, wake, number, chunk, burst, count, tick):  # type: ignore[no-untyped-def]
    """Queue consecutive bursts of a chunk, by their number in a channel, at that channel."""
    run = totals[X_FREE_RUN]
    totals[X_FREE_RUN] = runs[run, F_NEXT]
    runs[run, F_CHUNK] = chunk
    runs[run, F_BURST] = burst
    runs[run, F_COUNT] = count
    runs[run, F_NEXT] = -1
    runs[run, F_FROM] = tick
    channel = number * parameters[L_WORDS]
    if memory[channel + C_FIFO_HEAD] < 0:
        memory[channel + C_FIFO_HEAD] = run
    else:
        runs[memory[channel + C_FIFO_TAIL], F_NEXT] = run
    memory[channel + C_FIFO_TAIL] = run
    wake[number] = min(wake[number], tick)


@inlined
def finish_burst(totals, left, finished, sizes, chunk, tick):  # type: ignore[no-untyped-def]
    """Count a burst; with the last one of its chunk, the chunk, which joins those just finished."""
    totals[X_BURSTS] += 1
    left[chunk] -= 1
    if left[chunk] == 0:
        finished[chunk] = tick
        left[chunk] = totals[X_FINISHED]
        totals[X_FINISHED] = chunk
        totals[X_IN_FLIGHT] -= 1
        totals[X_DONE] += 1
        totals[X_DONE_BYTES] += sizes[chunk]
        totals[X_LAST] = tick
        if totals[X_DONE] == totals[X_WARM_UP]:
            totals[X_FROM] = tick
            totals[X_FROM_BYTES] = totals[X_DONE_BYTES]
            totals[X_FROM_BURSTS] = -1  # taken at the end of the tick, all channels counted


@inlined
def head_direction(memory, runs, writes, channel, run):  # type: ignore[no-untyped-def]
    """Whether the head of a channel's FIFO is a write.

    Noted in the channel, as a full queue asks again every tick, and run and chunk lie far away.
    """
    write = memory[channel + C_FIFO_WRITE]
    if write < 0:
        write = writes[runs[run, F_CHUNK]]
        memory[channel + C_FIFO_WRITE] = write
    return write


@inlined
def accept(  # type: ignore[no-untyped-def]
    memory, parameters, digits, runs, totals, channel, writes, sizes, left, finished, tick
):
    """Move up to four bursts from a channel's FIFO into its queues; a full one blocks the head.

    Called once a tick, as a key holds the tick and the number in it.
    """
    for number in range(ACCEPTED_A_TICK):
        run = memory[channel + C_FIFO_HEAD]
        if run < 0:
            return
        write = head_direction(memory, runs, writes, channel, run)
        if memory[channel + C_READS + write] >= parameters[O_READ_QUEUE + write]:
            return
        if runs[run, F_FROM] > tick:
            return
        memory[channel + C_READS + write] += 1
        chunk = runs[run, F_CHUNK]
        burst = runs[run, F_BURST]
        runs[run, F_BURST] = burst + 1
        runs[run, F_COUNT] -= 1
        if runs[run, F_COUNT] == 0:
            memory[channel + C_FIFO_HEAD] = runs[run, F_NEXT]
            memory[channel + C_FIFO_WRITE] = -1  # of the next head, not looked up yet
            runs[run, F_NEXT] = totals[X_FREE_RUN]
            totals[X_FREE_RUN] = run
        order = tick * ACCEPTED_A_TICK + number
        _enqueue(memory, parameters, digits, channel, burst, chunk, write, tick, order)
        if write:  # posted
            finish_burst(totals, left, finished, sizes, chunk, tick)


@inlined
def _enqueue(memory, parameters, digits, channel, burst, chunk, write, tick, order):  # type: ignore[no-untyped-def]
    pc = 0
    group = 0
    bank = 0
    sid = 0
    for i in range(digits.shape[0]):
        kind = digits[i, 1]
        if digits[i, 2] >= 0:  # a power of two: shift, as a division costs as much as a scan
            digit = burst & (digits[i, 0] - 1)
            burst >>= digits[i, 2]
        else:
            rest = burst // digits[i, 0]
            digit = burst - rest * digits[i, 0]
            burst = rest
        if kind == DIGIT_PC:
            pc = digit
        elif kind == DIGIT_GROUP:
            group = digit
        elif kind == DIGIT_BANK:
            bank = digit
        elif kind == DIGIT_SID:
            sid = digit
    row = burst
    key = np.uint64(row) * _MULTIPLIER
    groups = parameters[O_GROUPS]
    banks = parameters[O_BANKS]
    group = _fold(group, np.int64(key >> np.uint64(33)), groups)
    bank = _fold(bank, np.int64(key >> np.uint64(45)), banks)
    local = (sid * groups + group) * banks + bank
    entry = take_slot(memory, channel)
    memory[entry + S_ROW] = row
    memory[entry + S_KEY] = order * LANES + local
    memory[entry + S_CHUNK] = 2 * chunk + write
    _join(memory, parameters, channel, pc, local, entry, row, write, tick)


@inlined
def _fold(digit, key, size):  # type: ignore[no-untyped-def]
    """XOR a digit with a hash, both below `size`."""
    if size & (size - 1) == 0:
        return (digit ^ key) & (size - 1)
    return (digit ^ (key % size)) % size


@inlined
def _join(memory, parameters, channel, pc_number, local, entry, row, write, tick):  # type: ignore[no-untyped-def]
    """Put an entry into its bank's list, and lower the bounds that it may beat."""
    pc = channel + parameters[L_PC] + pc_number * PC_WORDS
    at_bank = parameters[L_BANK] + (pc_number * parameters[O_BANKS_A_PC] + local) * BANK_WORDS
    bank = channel + at_bank
    lane = channel + parameters[L_LANES] + pc_number * PC_LANES + local
    if memory[pc + P_PENDING] == 0:
        memory[pc + P_PENDING_FROM] = tick
    memory[pc + P_PENDING] += 1
    open_row = memory[bank + B_ROW]
    miss = 0 if open_row == row else 1
    bit = np.int64(1) << local
    at = bank + B_LISTS + miss * LIST_MISS + write * LIST_WRITE
    first = memory[at] < 0
    append(memory, at, lane + V_HITS + miss * LANES + write * V_WRITE, entry)
    # A bank is not closed before its active request and the hits that wait already are served.
    held = (memory[pc + P_HIT_READ + 2 * write] | memory[pc + P_ACTIVE]) & bit
    memory[pc + P_HIT_READ + 2 * write + miss] |= bit
    if first and (miss == 0 or open_row < 0 or held == 0):
        _lower_bound(memory, parameters, channel, pc, lane, write, miss, open_row)


@inlined
def _lower_bound(memory, parameters, channel, pc, lane, write, miss, open_row):  # type: ignore[no-untyped-def]
    """Look for a read or write, an activate or a precharge once the bank may be ready for it."""
    sort = write if miss == 0 else 2 if open_row < 0 else 3
    ready = memory[lane + V_READ_AT + sort * LANES]
    bound = pc + (K_HIT_READ if miss == 0 else K_ACT_READ if open_row < 0 else K_PRE_READ) + write
    memory[bound] = min(memory[bound], ready)
    if write == memory[channel + C_DRAINING]:
        slot = channel + C_COLUMN_AT + miss
        may = max(memory[bound], memory[pc + P_READ_AT + sort])
        may = max(may, memory[slot + C_COLUMN_FREE - C_COLUMN_AT])
        odd = parameters[T_ODD] if sort != 3 else 0
        memory[slot] = min(memory[slot], may | odd)


@inlined
def return_data(memory, parameters, totals, channel, left, finished, sizes, tick):  # type: ignore[no-untyped-def]
    """Hand over the reads whose data have arrived."""
    ring = channel + parameters[L_RETURN]
    while memory[channel + C_RETURN_HEAD] != memory[channel + C_RETURN_TAIL]:
        at = ring + (memory[channel + C_RETURN_HEAD] & (RETURNS - 1)) * RETURN_WORDS
        if memory[at] > tick:
            return
        memory[channel + C_RETURN_HEAD] += 1
        finish_burst(totals, left, finished, sizes, memory[at + 1], tick)


@inlined
def note_returns(memory, parameters, totals, channel, due):  # type: ignore[no-untyped-def]
    """Move reads on their way back from their channel to the lists of what comes in which tick.

    A tick's list is in the order of the channels, as they note in turn what they read.
    """
    if memory[channel + C_RETURN_TAIL] == 0:
        return
    at = channel + parameters[L_RETURN]  # one read a tick at most, at the beginning of the ring
    memory[channel + C_RETURN_TAIL] = 0
    slot = memory[at] & (due.shape[0] - 1)
    count = due[slot, 0] + 1
    due[slot, 0] = count
    due[slot, count] = memory[at + 1]
    totals[X_RETURNING] += 1


@inlined
def take_returns(totals, due, left, finished, sizes, tick):  # type: ignore[no-untyped-def]
    """Hand over the reads of all channels whose data arrive in this tick."""
    slot = tick & (due.shape[0] - 1)
    for i in range(due[slot, 0]):
        finish_burst(totals, left, finished, sizes, due[slot, 1 + i], tick)
    totals[X_RETURNING] -= due[slot, 0]
    due[slot, 0] = 0
