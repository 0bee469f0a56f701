"""Where the compiled controller keeps what: names of the words of its flat integer memory.

One int64 array holds all channels, a block each: a header, then pseudo-channels, lanes of their
banks, banks, queue entries and reads on their way back. A flat block is what numba passes on
cheaply and what stays in the processor's cache.
"""

from __future__ import annotations

FAR = 1 << 60  # a tick that never comes

# Parameters: timings in ticks (already with the difference of the lengths of the two commands) ...
(
    T_RCDRD, T_RCDWR, T_RAS, T_RC, T_RP, T_RP_REF, T_RTP, T_WTP, T_CCDS, T_CCDL, T_CCDR,
    T_RRDS, T_RRDL, T_FAW, T_WTRS, T_WTRL, T_RTW, T_PPD, T_LATENCY, T_BURST,
    T_REFI, T_RFC, T_REFI_PB, T_RFC_PB, T_RREFD, T_RREFD_ACT, T_ACT_REF_PB,
    T_ODD, T_ACT_BUS, T_COLUMN_BUS, T_PRE_BUS,
    # ... organisation, queues and policies ...
    O_CHANNELS, O_PCS, O_SIDS, O_GROUPS, O_BANKS, O_BANKS_A_PC, O_BURSTS_A_BLOCK, O_HASHED,
    O_READ_QUEUE, O_WRITE_QUEUE, O_DRAIN_ABOVE, O_DRAIN_BELOW, O_REFRESH,
    # ... and the layout of a channel's block.
    L_PC, L_LANES, L_BANK, L_SLOT, L_RETURN, L_WORDS,
    # Behind them stand, for every bank, the banks of its bank group and those of other stack ids.
    GROUP_BITS,
) = range(51)  # fmt: skip
LANES = 64  # banks of a pseudo-channel at most: one bit each in a word
OTHER_SIDS_BITS = GROUP_BITS + LANES
PARAMETERS = OTHER_SIDS_BITS + LANES

REFRESH_NONE, REFRESH_ALL_BANK, REFRESH_PER_BANK = range(3)
DIGIT_COLUMN, DIGIT_PC, DIGIT_GROUP, DIGIT_BANK, DIGIT_SID = range(5)

# Header of a channel.
(
    C_READS, C_WRITES, C_DRAINING, C_COLUMN_AT, C_ROW_AT, C_COLUMN_FREE, C_ROW_FREE, C_REF_DUE,
    C_REF_LEFT, C_FIFO_HEAD, C_FIFO_TAIL, C_FIFO_WRITE, C_RETURN_HEAD, C_RETURN_TAIL, C_FREE_SLOT,
    N_READ, N_WRITE, N_ACTIVATE, N_PRECHARGE, N_PRECHARGE_ALL, N_REFRESH, N_REFRESH_PB, N_HIT,
    HEADER_WORDS,
) = range(24)  # fmt: skip

# A pseudo-channel: earliest ticks, the last four activates, bank sets, bounds, refresh, account.
# The pairs read / write lie side by side, so that `name + kind` picks one.
(
    P_READ_AT, P_WRITE_AT, P_ACT_AT, P_PRE_AT, P_REF_AT, P_FAW_NEXT, P_FAW,
) = range(7)  # fmt: skip
(
    P_HIT_READ, P_MISS_READ, P_HIT_WRITE, P_MISS_WRITE, P_ACTIVE, P_ACTIVE_WRITES, P_OPEN,
    # No command of the sort can be ready before its bound; scans are skipped until then.
    K_HIT_READ, K_HIT_WRITE, K_ACTIVE, K_ACT_READ, K_ACT_WRITE, K_PRE_READ, K_PRE_WRITE,
    P_REF_PENDING, P_REF_FROM, P_REF_UNTIL,
    P_PB_DUE, P_PB_OWED, P_PB_NEXT, P_PB_BANK, P_PB_AT,
    P_PENDING, P_PENDING_FROM, P_ACCOUNTED, P_LAST_WAS_WRITE, P_PARTS,
) = range(10, 37)  # fmt: skip
PARTS = 8
PC_WORDS = 48
(
    A_DATA, A_COLUMN, A_TURNAROUND, A_ACTIVATE, A_ACTIVATE_RATE, A_CONFLICT, A_REFRESH, A_IDLE,
) = range(PARTS)  # fmt: skip

# A bank; its four lists of waiting requests are (read, write) x (row hit, row miss).
(
    B_ROW, B_ACT_AT, B_ACTIVE, B_LISTS,
) = range(4)  # fmt: skip
(
    B_OPENED, B_CLOSED, B_REF_FROM, B_REF_UNTIL, BANK_WORDS,
) = range(11, 16)  # fmt: skip
# Words of a list: its first entry or -1, and where the place of the next entry is to be written.
# Row hits come first, then misses; those of writes lie LIST_WRITE further on.
LIST_MISS, LIST_WRITE = 2, 4

# What the choice among the banks of a pseudo-channel looks at, in rows of a word a bank: earliest
# ticks, with what bank group and stack id forbid, then the keys of the active request and of the
# first request of each list.
(
    V_READ_AT, V_WRITE_AT, V_ACT_AT, V_PRE_AT, V_ACTIVE, V_HITS, V_MISSES, V_HIT_WRITES,
    V_MISS_WRITES, PC_LANES,
) = range(0, 10 * LANES, LANES)  # fmt: skip
V_WRITE = V_HIT_WRITES - V_HITS
BANK_OF_KEY = LANES - 1
ACCEPTED_A_TICK = 4  # bursts that a channel takes into its queues
SAME_ARRIVAL = ACCEPTED_A_TICK * LANES - 1  # what differs in the keys of one tick

# A waiting burst. Its key is its place in the order of arrival, then its bank.
# `S_CHUNK` is twice the chunk, and one more for a write.
S_ROW, S_KEY, S_CHUNK, S_NEXT, SLOT_WORDS = range(5)

RETURNS = 256  # reads on their way back in one channel: a power of two above latency / tCCD
RETURN_WORDS = 2

# The source: runs of bursts that wait at a channel, and the counts of the whole simulation.
# Runs may be issued ahead of the tick that a channel has come to: none is seen before F_FROM.
F_CHUNK, F_BURST, F_COUNT, F_NEXT, F_FROM = range(5)
RUN_WORDS = 8  # a cache line
(
    X_NEXT, X_IN_FLIGHT, X_DONE, X_DONE_BYTES, X_BURSTS, X_FREE_RUN, X_WARM_UP, X_FROM,
    X_FROM_BYTES, X_FROM_BURSTS, X_UNTIL, X_UNTIL_BYTES, X_UNTIL_BURSTS, X_LAST, X_TRACED,
    X_STEADY, X_FINISHED, X_AHEAD, X_RETURNING, TOTALS,
) = range(20)  # fmt: skip

# Commands, as they stand in a trace.
READ, WRITE, ACTIVATE, PRECHARGE, PRECHARGE_ALL, REFRESH, REFRESH_PB = range(7)
TRACE_WORDS = 6  # tick, channel, command, pseudo-channel, bank, row
