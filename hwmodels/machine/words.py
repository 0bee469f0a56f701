"""Where the compiled machine keeps what: names of the words of its flat integer memory.

One int64 array holds it all: a header of numbers, then records. A record is named by the place of
its first word, so that the loop never multiplies; lists are chains of such places.
"""

from __future__ import annotations

FAR = 1 << 60  # a time that never comes

# Header: facts of the machine. Times are picoseconds; `..._PS_A_KB` are picoseconds a 1,024 bytes.
(
    M_CORES, M_SLOTS, M_SLICES, M_PARTITIONS, M_TICK_FS, M_NEAR_PS, M_FAR_PS, M_PATH_PS,
    M_SLICE_PS_A_KB, M_PORT_PS_A_KB, M_CROSS_PS_A_KB, M_LINK_PS_A_KB, M_LINE, M_SECTOR, M_WAYS,
    M_SETS, M_CHANNELS, M_STACK_CHANNELS, M_STACKS, M_LAUNCHES, M_HEAP, M_LANES,
    # Where the tables begin.
    O_REGIONS, O_ACCESSES, O_KINDS, O_LAUNCHES, O_BLOCKS, O_DEALT, O_CORES, O_SLOTS, O_SLICES,
    O_CROSSINGS, O_TAGS, O_VALID, O_STAMPS, O_PENDING, O_CHUNKS, O_SIZES, O_WRITES, O_LEFT,
    O_FINISHED, O_WAITERS, O_HEAP, O_CHANNELS, O_LANES,
    # Counts of a run.
    T_HEAP, T_ORDER, T_FREE_CHUNK, T_FREE_WAITER, T_LINK, T_HIT, T_MISS, T_MERGED, T_READ,
    T_WRITTEN, T_NEAR, T_FAR, T_CHUNKS, T_DRAM_PS, T_LANES, T_FAULT, T_SENT, T_OUT, T_EVENTS,
    HEADER_WORDS,
) = range(65)  # fmt: skip
FAULT_CHUNKS, FAULT_HEAP, FAULT_WAITERS, FAULT_STUCK = range(1, 5)

# Regions: warm and kept in `SHARES`.
R_BASE, R_BYTES, R_RUN, R_RUNS, R_WARM, R_KEPT, R_WORDS = range(7)
SHARES = 1 << 20

(
    A_REGION, A_BYTES, A_ROW, A_DIVIDE, A_MODULO, A_STORES, A_PIECES, A_PITCH, A_FIRST, A_WORDS,
) = range(10)  # fmt: skip

# Kinds of blocks: needs; then of prologue, stage and epilogue the times of the units, bytes sent,
# and first and past-last access.
K_SHARED, K_REGISTERS, K_THREADS, K_DEPTH, K_PARTS = range(5)
Q_MATRIX, Q_VECTOR, Q_WAIT, Q_SEND, Q_FROM, Q_TO, PART_WORDS = range(7)
PROLOGUE, LOOP, EPILOGUE = range(3)
K_WORDS = K_PARTS + 3 * PART_WORDS

# Launches: the number of blocks, the first of them, whether cores have lists of their own; slots
# whose stores are not yet taken.
(
    G_FIRST, G_TO, G_DEALT, G_AFTER, G_GAP_PS, G_END_PS, G_NEXT, G_LEFT, G_STARTED, G_ENDED,
    G_OWED, G_WORDS,
) = range(12)  # fmt: skip

B_KIND, B_STAGES, B_PLACE, B_LAUNCH, B_ENDED, B_WORDS = range(6)

# States of a slot, of which every picosecond from the start to the end has one.
(
    Z_LAUNCH, Z_EMPTY, Z_PROLOGUE, Z_MATRIX, Z_VECTOR, Z_WAIT, Z_PIPE, Z_LLC, Z_DRAM, Z_LINK,
    Z_EPILOGUE, STATES,
) = range(12)  # fmt: skip
STATE_NAMES = (
    "launch", "no block", "prologue", "matrix", "vector", "wait", "pipe busy", "cache", "memory",
    "links", "epilogue",
)  # fmt: skip

# Cores: when their units, their port and its ways out are free, what blocks may still take, time
# by state.
(
    U_NUMBER, U_MATRIX, U_VECTOR, U_PORT, U_ASKING, U_STORING, U_SHARED, U_REGISTERS, U_THREADS,
    U_BLOCKS, U_FIRST_SLOT, U_STATES,
) = range(12)  # fmt: skip
U_WORDS = U_STATES + STATES

# A stage in flight: requests that are out, when the last known one is answered and from where.
F_OUT, F_READY, F_FROM, F_WORDS = range(4)
RING = 16  # stages in flight at most; a power of two
STORED = 256  # stored pieces that a block may have out when it begins a stage or its epilogue
FIRST_PLACE, LAST_PLACE, PLACES = RING, RING + 1, RING + 2

# Slots: a block at work, -1 for none; stages loaded and done; whether at work, and which part;
# until when its time is charged; launch of which stores are not yet taken, 0 for none.
S_BLOCK, S_CORE, S_LOADED, S_DONE, S_BUSY, S_PART, S_SINCE, S_OWES, S_FLIGHTS = range(9)
S_WORDS = S_FLIGHTS + PLACES * F_WORDS

# Chunks on their way to and from memory, and who waits for them.
H_WAITERS, H_CHANNEL, H_BURST, H_BURSTS, H_LINE, H_SENT, H_WORDS = range(7)
W_SLOT, W_FLIGHT, W_BYTES, W_NEXT, W_REGION, W_ADDRESS, W_WORDS = range(7)

# Events: time, order, what (a place or a number) with its sort in the low bits.
E_AT, E_ORDER, E_WHAT, E_WORDS = range(4)
E_LAUNCH, E_PART, E_READY, E_MISS, E_HIT, E_ASKED, E_STORED = range(7)
EVENT_BITS = 3

# Stretches that a run notes: whose, of a core its state and else whether it stores, from, to, of
# what sort, and the bytes.
N_WHO, N_STATE, N_FROM, N_TO, N_SORT, N_BYTES, LANE_WORDS = range(7)
OF_CORE, OF_SLICE, OF_CHUNK, OF_LINK = range(4)
