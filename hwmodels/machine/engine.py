"""The compiled machine: blocks on cores, their loads through network and cache to the channels.

Events are in picoseconds, the memory's channels in ticks of their own; of both the earlier goes
first. The tests have the same once more as SimPy processes.

Assumes: on the way between partitions of the cache, which lies behind their slices, requests meet
in the order in which they reach those.
Assumes: a core's requests leave it one after the other, at the pace at which its port takes bytes.
Assumes: stores are posted: a block ends when what it stored has left its core; it begins a stage
and its epilogue while no more than 256 pieces of its place in the core are on their way; a launch
ends when the cache or memory has all.
Assumes: stores leave a core beside its requests for loads, and do not hold those up.
"""

from __future__ import annotations

import numpy as np

from hwmodels.dram.arrivals import accept, queue_run, return_data
from hwmodels.dram.bits import address_of
from hwmodels.dram.compiled import entry, inlined, plain
from hwmodels.dram.engine import step
from hwmodels.dram.words import L_WORDS, X_FINISHED
from hwmodels.machine import words as w

BLOCK_BYTES = 256  # neighbouring bytes on one channel and in one slice
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_SPREAD = 2654435761  # a prime: runs take turns through their places


@inlined
def mixed(number):  # type: ignore[no-untyped-def]
    """Hash of a number, not negative."""
    word = np.uint64(number)
    word ^= word >> np.uint64(17)
    word *= _MULTIPLIER
    word ^= word >> np.uint64(29)
    return np.int64(word >> np.uint64(2))


@inlined
def _moved(m, from_, to):  # type: ignore[no-untyped-def]
    """Copy an event of the heap from one place to another."""
    m[to] = m[from_]
    m[to + w.E_ORDER] = m[from_ + w.E_ORDER]
    m[to + w.E_WHAT] = m[from_ + w.E_WHAT]


@plain
def push(m, at, sort, what):  # type: ignore[no-untyped-def]
    """Add an event; of equal times the one that was added first comes first."""
    count = m[w.T_HEAP]
    if count >= m[w.M_HEAP]:
        m[w.T_FAULT] = w.FAULT_HEAP
        return
    m[w.T_HEAP] = count + 1
    m[w.T_ORDER] += 1
    order = m[w.T_ORDER]
    heap = m[w.O_HEAP]
    place = count
    while place > 0:
        above = (place - 1) >> 1
        from_ = heap + above * w.E_WORDS
        if m[from_] <= at:
            break
        _moved(m, from_, heap + place * w.E_WORDS)
        place = above
    to = heap + place * w.E_WORDS
    m[to] = at
    m[to + w.E_ORDER] = order
    m[to + w.E_WHAT] = (what << w.EVENT_BITS) | sort


@inlined
def _later(m, one, other):  # type: ignore[no-untyped-def]
    return m[one] > m[other] or (m[one] == m[other] and m[one + w.E_ORDER] > m[other + w.E_ORDER])


@plain
def pop(m):  # type: ignore[no-untyped-def]
    """Take the earliest event; its time is read before."""
    heap = m[w.O_HEAP]
    found = m[heap + w.E_WHAT]
    m[w.T_HEAP] -= 1
    count = m[w.T_HEAP]
    last = heap + count * w.E_WORDS
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        from_ = heap + below * w.E_WORDS
        if below + 1 < count and _later(m, from_, from_ + w.E_WORDS):
            below += 1
            from_ += w.E_WORDS
        if not _later(m, last, from_):
            break
        _moved(m, from_, heap + place * w.E_WORDS)
        place = below
    _moved(m, last, heap + place * w.E_WORDS)
    return found


@inlined
def _turn(m, server, at, nbytes, ps_a_kb):  # type: ignore[no-untyped-def]
    """When a server is done with bytes that reach it at `at`, after those before them."""
    done = max(m[server], at) + ((nbytes * ps_a_kb + 1023) >> 10)
    m[server] = done
    return done


@inlined
def _spent(m, slot, state, until):  # type: ignore[no-untyped-def]
    """Charge a slot's time from what was charged last to a state."""
    if until > m[slot + w.S_SINCE]:
        m[m[slot + w.S_CORE] + w.U_STATES + state] += until - m[slot + w.S_SINCE]
        m[slot + w.S_SINCE] = until


@inlined
def _note(m, sort, who, state, start, end, nbytes):  # type: ignore[no-untyped-def]
    """Note a stretch, if stretches are asked for; those without room are counted only."""
    if m[w.M_LANES] > 0 and end > start:
        if m[w.T_LANES] < m[w.M_LANES]:
            at = m[w.O_LANES] + m[w.T_LANES] * w.LANE_WORDS
            m[at + w.N_WHO] = who
            m[at + w.N_STATE] = state
            m[at + w.N_FROM] = start
            m[at + w.N_TO] = end
            m[at + w.N_SORT] = sort
            m[at + w.N_BYTES] = nbytes
        m[w.T_LANES] += 1


@inlined
def _lane(m, core, state, start, end):  # type: ignore[no-untyped-def]
    """Note a stretch of a core."""
    _note(m, w.OF_CORE, m[core + w.U_NUMBER], state, start, end, 0)


@plain
def _place_of_line(m, line, home):  # type: ignore[no-untyped-def]
    """Place of a line in the cache, made where it is missing: the least recently used goes.

    A line on its way from memory keeps its place, unless all lines of the set are.
    """
    ways = m[w.M_WAYS]
    first = (home * m[w.M_SETS] + mixed(line + 7) % m[w.M_SETS]) * ways
    tags = m[w.O_TAGS] + first
    stamps = m[w.O_STAMPS] + first
    pending = m[w.O_PENDING] + first
    m[w.T_ORDER] += 1
    oldest = np.int64(-1)
    for way in range(ways):
        if m[tags + way] == line:
            m[stamps + way] = m[w.T_ORDER]
            return first + way
        if m[pending + way] < 0 and (oldest < 0 or m[stamps + way] < m[stamps + oldest]):
            oldest = np.int64(way)
    oldest = max(oldest, 0)
    m[tags + oldest] = line
    m[stamps + oldest] = m[w.T_ORDER]
    m[pending + oldest] = -1
    m[m[w.O_VALID] + first + oldest] = 0
    return first + oldest


@inlined
def _known(m, flight, at, source):  # type: ignore[no-untyped-def]
    """A request of a stage is answered at a known time."""
    if at > m[flight + w.F_READY]:
        m[flight + w.F_READY] = at
        m[flight + w.F_FROM] = source


@plain
def _waiter(m, slot, flight, nbytes):  # type: ignore[no-untyped-def]
    """Note that a stage in flight waits for so many bytes; -1 where there is no room to."""
    waiter = m[w.T_FREE_WAITER]
    if waiter < 0:
        m[w.T_FAULT] = w.FAULT_WAITERS
        return np.int64(-1)
    m[w.T_FREE_WAITER] = m[waiter + w.W_NEXT]
    m[waiter + w.W_SLOT] = slot
    m[waiter + w.W_FLIGHT] = flight
    m[waiter + w.W_BYTES] = nbytes
    m[flight + w.F_OUT] += 1
    return waiter


@plain
def _wait_for(m, chunk, slot, flight, nbytes):  # type: ignore[no-untyped-def]
    """Note that a stage in flight waits for a chunk, of which so many bytes go to its core."""
    waiter = _waiter(m, slot, flight, nbytes)
    if waiter >= 0:
        record = m[w.O_CHUNKS] + chunk * w.H_WORDS
        m[waiter + w.W_NEXT] = m[record + w.H_WAITERS]
        m[record + w.H_WAITERS] = waiter


@inlined
def _given_back(m, waiter, now):  # type: ignore[no-untyped-def]
    """A stage waits for one answer less; free what noted it."""
    slot = m[waiter + w.W_SLOT]
    flight = m[waiter + w.W_FLIGHT]
    m[flight + w.F_OUT] -= 1
    if m[flight + w.F_OUT] == 0 or m[flight + w.F_OUT] == w.STORED:
        push(m, max(m[flight + w.F_READY], now), w.E_READY, slot)
    m[waiter + w.W_NEXT] = m[w.T_FREE_WAITER]
    m[w.T_FREE_WAITER] = waiter


@plain
def _answered(m, waiter, at, now, source):  # type: ignore[no-untyped-def]
    """Bytes that a stage waits for reach its core's port at `at`: their turn, and what it does."""
    slot = m[waiter + w.W_SLOT]
    flight = m[waiter + w.W_FLIGHT]
    nbytes = m[waiter + w.W_BYTES]
    if nbytes > 0:
        at = _turn(m, m[slot + w.S_CORE] + w.U_PORT, at, nbytes, m[w.M_PORT_PS_A_KB])
        _known(m, flight, at, source)
    _given_back(m, waiter, now)


@plain
def _send(m, address, nbytes, store, at, line):  # type: ignore[no-untyped-def]
    """Bytes of one block to memory: a chunk that reaches its channel at `at`.

    Assumes: blocks lie on stacks in turn, turned by a hash, within a stack on channels by an XOR
        hash, and within a channel on pseudo-channels and bank groups by another.
    """
    chunk = m[w.T_FREE_CHUNK]
    if chunk < 0:
        m[w.T_FAULT] = w.FAULT_CHUNKS
        return np.int64(0)
    record = m[w.O_CHUNKS] + chunk * w.H_WORDS
    m[w.T_FREE_CHUNK] = m[record + w.H_WAITERS]
    block = address // BLOCK_BYTES
    stacks = m[w.M_STACKS]
    channels = m[w.M_STACK_CHANNELS]
    own = block // stacks
    stack = (block - own * stacks + mixed(own + 3)) % stacks
    row = own // channels
    number = own - row * channels
    key = (np.uint64(row) ^ (np.uint64(row) >> np.uint64(7))) * _MULTIPLIER
    number ^= np.int64((key >> np.uint64(40)) % np.uint64(channels))
    # Streams in step, at strides of powers of two, would meet in one pseudo-channel and bank group.
    row ^= mixed(row >> 3) & 7
    first = (address - block * BLOCK_BYTES) >> 5
    bursts = ((address - block * BLOCK_BYTES + nbytes - 1) >> 5) - first + 1
    m[record + w.H_WAITERS] = -1
    m[record + w.H_CHANNEL] = stack * channels + number
    m[record + w.H_BURST] = row * (BLOCK_BYTES >> 5) + first
    m[record + w.H_BURSTS] = bursts
    m[record + w.H_LINE] = line
    m[record + w.H_SENT] = at
    m[m[w.O_SIZES] + chunk] = bursts << 5
    m[m[w.O_WRITES] + chunk] = store
    m[m[w.O_LEFT] + chunk] = bursts
    m[w.T_CHUNKS] += 1
    if store:
        m[w.T_WRITTEN] += bursts << 5
    else:
        m[w.T_READ] += bursts << 5
    push(m, at, w.E_MISS, chunk)
    return chunk


@plain
def _missed(m, slot, flight, region, address, nbytes, home, at):  # type: ignore[no-untyped-def]
    """Look up the lines of a block one by one; bytes of those that the cache has.

    The stage waits for sectors that are missing, which come as one chunk a line, and for those
    that are on their way.
    """
    line_bytes = m[w.M_LINE]
    sector = m[w.M_SECTOR]
    there = np.int64(0)
    end = address + nbytes
    line = address // line_bytes
    while line * line_bytes < end:
        begin = line * line_bytes
        low = max(address, begin) - begin
        high = min(end, begin + line_bytes) - begin
        mask = (np.int64(1) << ((high - 1) // sector + 1)) - (np.int64(1) << (low // sector))
        place = _place_of_line(m, line, home)
        pending = m[m[w.O_PENDING] + place]
        missing = mask & ~m[m[w.O_VALID] + place]
        kept = m[region + w.R_KEPT]
        draw = mixed(line * 3 + m[w.T_ORDER]) & (w.SHARES - 1)
        if missing == 0 and pending < 0 and draw >= kept:
            missing = mask  # of what does not fit, a share has been replaced meanwhile
        if missing != 0:
            first = low // sector * sector
            span = (high + sector - 1) // sector * sector - first
            chunk = _send(m, begin + first, span, 0, at, place)
            m[m[w.O_VALID] + place] |= mask
            m[m[w.O_PENDING] + place] = chunk
            m[w.T_MISS] += high - low
            _wait_for(m, chunk, slot, flight, high - low)
        elif pending >= 0:
            m[w.T_MERGED] += high - low
            _wait_for(m, pending, slot, flight, high - low)
        else:
            there += high - low
        line += 1
    return there


@inlined
def _slice_of(m, address):  # type: ignore[no-untyped-def]
    """The cache's slice of a block: neighbours lie in others, in an order that a hash turns."""
    block = address // BLOCK_BYTES
    group = block // m[w.M_SLICES]
    return (block - group * m[w.M_SLICES] + mixed(group)) % m[w.M_SLICES]


@inlined
def _is_far(m, slot, slice_number):  # type: ignore[no-untyped-def]
    """Whether a slice lies in another partition than the core of a block."""
    partitions = m[w.M_PARTITIONS]
    return slice_number % partitions != m[m[slot + w.S_CORE] + w.U_NUMBER] % partitions


@plain
def _request(m, slot, flight, region, address, nbytes, store, now):  # type: ignore[no-untyped-def]
    """Ask for bytes within one block: they leave the core in turn, and reach their slice later."""
    waiter = _waiter(m, slot, flight, nbytes)
    if waiter < 0:
        return
    m[waiter + w.W_REGION] = region
    m[waiter + w.W_ADDRESS] = address
    core = m[slot + w.S_CORE]
    way = core + w.U_STORING if store else core + w.U_ASKING
    left = max(m[way], now)
    m[way] = left + ((nbytes * m[w.M_PORT_PS_A_KB] + 1023) >> 10)
    if store:
        _known(m, flight, m[way], w.Z_LLC)
    latency = m[w.M_NEAR_PS]
    if _is_far(m, slot, _slice_of(m, address)):
        latency = m[w.M_FAR_PS]
    push(m, left + (latency >> 1), w.E_STORED if store else w.E_ASKED, waiter)


@plain
def _reached(m, waiter, store, now):  # type: ignore[no-untyped-def]
    """A request is at its slice: its bytes are there, on their way, or come from memory."""
    slot = m[waiter + w.W_SLOT]
    flight = m[waiter + w.W_FLIGHT]
    region = m[waiter + w.W_REGION]
    address = m[waiter + w.W_ADDRESS]
    nbytes = m[waiter + w.W_BYTES]
    slice_number = _slice_of(m, address)
    home = slice_number % m[w.M_PARTITIONS]
    far = _is_far(m, slot, slice_number)
    latency = m[w.M_NEAR_PS]
    if far:
        latency = m[w.M_FAR_PS]
    half = latency >> 1
    served = _turn(m, m[w.O_SLICES] + slice_number, now, nbytes, m[w.M_SLICE_PS_A_KB])
    begun = served - ((nbytes * m[w.M_SLICE_PS_A_KB] + 1023) >> 10)
    _note(m, w.OF_SLICE, slice_number, store, begun, served, nbytes)
    if far:
        m[w.T_FAR] += nbytes
        served = _turn(m, m[w.O_CROSSINGS] + home, served, nbytes, m[w.M_CROSS_PS_A_KB])
    else:
        m[w.T_NEAR] += nbytes
    to_memory = max(served, now - half + (m[w.M_PATH_PS] >> 1))
    warm = mixed(address // BLOCK_BYTES * 5 + 1) & (w.SHARES - 1) < m[region + w.R_WARM]
    if store:
        if not warm:
            _wait_for(m, _send(m, address, nbytes, 1, to_memory, -1), slot, flight, 0)
        _given_back(m, waiter, now)
        return
    there = nbytes
    if not warm:
        there = _missed(m, slot, flight, region, address, nbytes, home, to_memory)
    if there > 0:
        m[w.T_HIT] += there
        m[waiter + w.W_BYTES] = there
        push(m, served + latency - half, w.E_HIT, waiter)
    else:
        _given_back(m, waiter, now)


@plain
def _touch_run(m, slot, flight, region, start, left, store, now):  # type: ignore[no-untyped-def]
    """Requests for consecutive bytes of a region, from run to run and block to block."""
    whole = m[region + w.R_BYTES]
    run = m[region + w.R_RUN]
    start %= whole
    while left > 0:
        if run > 0:
            number = start // run
            within = start - number * run
            piece = min(left, run - within)
            address = number * _SPREAD % m[region + w.R_RUNS] * run + within
        else:
            piece = min(left, whole - start)
            address = start
        address += m[region + w.R_BASE]
        piece = min(piece, (address // BLOCK_BYTES + 1) * BLOCK_BYTES - address)
        _request(m, slot, flight, region, address, piece, store, now)
        left -= piece
        start += piece
        if start >= whole:
            start -= whole


@plain
def _touch(m, slot, flight, first, last, stage, store, now):  # type: ignore[no-untyped-def]
    """Send all requests of a part of a block, its loads or its stores."""
    coordinate = m[m[slot + w.S_BLOCK] + w.B_PLACE]
    for access in range(first, last, w.A_WORDS):
        if m[access + w.A_STORES] != store:
            continue
        region = m[access + w.A_REGION]
        pieces = m[access + w.A_PIECES]
        nbytes = m[access + w.A_BYTES] // pieces
        row = coordinate // m[access + w.A_DIVIDE] % m[access + w.A_MODULO]
        start = m[access + w.A_FIRST] + row * m[access + w.A_ROW] + stage * nbytes
        for _ in range(pieces):
            _touch_run(m, slot, flight, region, start, nbytes, store, now)
            start += m[access + w.A_PITCH]


@inlined
def _flight(slot, place):  # type: ignore[no-untyped-def]
    return slot + w.S_FLIGHTS + place * w.F_WORDS


@plain
def _load(m, slot, place, part, stage, now):  # type: ignore[no-untyped-def]
    """Send the loads of a part; where all answers are known, say when the last one comes."""
    flight = _flight(slot, place)
    m[flight + w.F_READY] = now
    m[flight + w.F_FROM] = w.Z_LLC
    _touch(m, slot, flight, m[part + w.Q_FROM], m[part + w.Q_TO], stage, 0, now)
    if m[flight + w.F_OUT] == 0:
        push(m, m[flight + w.F_READY], w.E_READY, slot)


@inlined
def _part(m, slot, part):  # type: ignore[no-untyped-def]
    return m[m[slot + w.S_BLOCK] + w.B_KIND] + w.K_PARTS + part * w.PART_WORDS


@plain
def _load_ahead(m, slot, now):  # type: ignore[no-untyped-def]
    """Send the loads of all stages for which a buffer is free."""
    block = m[slot + w.S_BLOCK]
    kind = m[block + w.B_KIND]
    part = _part(m, slot, w.LOOP)
    until = min(m[block + w.B_STAGES], m[slot + w.S_DONE] + m[kind + w.K_DEPTH])
    while m[slot + w.S_LOADED] < until:
        stage = m[slot + w.S_LOADED]
        m[slot + w.S_LOADED] += 1
        _load(m, slot, stage & (w.RING - 1), part, stage, now)


@plain
def _work(m, slot, part, other, now):  # type: ignore[no-untyped-def]
    """Matrix, vector, links and wait of a part, one after the other; when it ends.

    Time in the queue for a unit is the pipe's; `other` is the state of the plain wait.
    """
    core = m[slot + w.S_CORE]
    here = now
    for unit in range(2):
        busy = m[part + w.Q_MATRIX + unit]
        if busy > 0:
            start = max(here, m[core + w.U_MATRIX + unit])
            here = start + busy
            m[core + w.U_MATRIX + unit] = here
            _spent(m, slot, w.Z_PIPE, start)
            _spent(m, slot, w.Z_MATRIX + unit, here)
            _lane(m, core, w.Z_MATRIX + unit, start, here)
    sent = m[part + w.Q_SEND]
    if sent > 0:
        done = _turn(m, w.T_LINK, here, sent, m[w.M_LINK_PS_A_KB])
        m[w.T_SENT] += sent
        _spent(m, slot, w.Z_LINK, done)
        _lane(m, core, w.Z_LINK, here, done)
        begun = done - ((sent * m[w.M_LINK_PS_A_KB] + 1023) >> 10)
        _note(m, w.OF_LINK, 0, 1, begun, done, sent)
        here = done
    waited = m[part + w.Q_WAIT]
    if waited > 0:
        _spent(m, slot, other, here + waited)
        _lane(m, core, other, here, here + waited)
        here += waited
    return here


@plain
def _advance(m, slot, now):  # type: ignore[no-untyped-def]
    """Start what a block does next, where its data are there and it is not at work."""
    if m[slot + w.S_BLOCK] < 0 or m[slot + w.S_BUSY]:
        return
    part = m[slot + w.S_PART]
    other = w.Z_WAIT
    if part == w.LOOP:
        if m[slot + w.S_DONE] >= m[slot + w.S_LOADED]:
            return
        flight = _flight(slot, m[slot + w.S_DONE] & (w.RING - 1))
    elif part == w.PROLOGUE:
        flight = _flight(slot, w.FIRST_PLACE)
        other = w.Z_PROLOGUE
    else:
        flight = _flight(slot, w.LAST_PLACE)
        other = w.Z_EPILOGUE
    if part != w.PROLOGUE and m[_flight(slot, w.LAST_PLACE) + w.F_OUT] > w.STORED:
        return
    # An epilogue waits until what was stored has left the core, not until all of it is taken.
    if (part != w.EPILOGUE and m[flight + w.F_OUT] > 0) or m[flight + w.F_READY] > now:
        return
    _spent(m, slot, m[flight + w.F_FROM], now)
    m[slot + w.S_BUSY] = 1
    push(m, _work(m, slot, _part(m, slot, part), other, now), w.E_PART, slot)


@plain
def _part_ended(m, slot, now):  # type: ignore[no-untyped-def]
    """A block has done its prologue, a stage or its epilogue; whether that was its last."""
    block = m[slot + w.S_BLOCK]
    m[slot + w.S_BUSY] = 0
    part = m[slot + w.S_PART]
    if part == w.EPILOGUE:
        return True
    last = _flight(slot, w.LAST_PLACE)
    if part == w.LOOP:
        stage = m[slot + w.S_DONE]
        m[slot + w.S_DONE] += 1
        record = _part(m, slot, w.LOOP)
        _touch(m, slot, last, m[record + w.Q_FROM], m[record + w.Q_TO], stage, 1, now)
        _load_ahead(m, slot, now)
    else:
        m[slot + w.S_PART] = w.LOOP
    if m[slot + w.S_DONE] == m[block + w.B_STAGES]:
        m[slot + w.S_PART] = w.EPILOGUE
        record = _part(m, slot, w.EPILOGUE)
        _touch(m, slot, last, m[record + w.Q_FROM], m[record + w.Q_TO], 0, 1, now)
        push(m, max(m[last + w.F_READY], now), w.E_READY, slot)
        return False
    _advance(m, slot, now)
    return False


@plain
def _leave(m, slot):  # type: ignore[no-untyped-def]
    """A block gives back what it had of its core."""
    core = m[slot + w.S_CORE]
    kind = m[m[slot + w.S_BLOCK] + w.B_KIND]
    m[slot + w.S_BLOCK] = -1
    m[core + w.U_BLOCKS] += 1
    m[core + w.U_SHARED] += m[kind + w.K_SHARED]
    m[core + w.U_REGISTERS] += m[kind + w.K_REGISTERS]
    m[core + w.U_THREADS] += m[kind + w.K_THREADS]


@plain
def _place(m, launch, core, now):  # type: ignore[no-untyped-def]
    """Start the next block of a launch on a core, where one is left and fits; whether one did."""
    dealt = m[launch + w.G_DEALT]
    next_at = launch + w.G_NEXT
    to = m[launch + w.G_TO]
    if dealt >= 0:
        next_at = dealt + 2 * m[core + w.U_NUMBER]
        to = m[next_at + 1]
    block = m[next_at]
    if block >= to:
        return False
    kind = m[block + w.B_KIND]
    if (
        m[core + w.U_BLOCKS] < 1
        or m[core + w.U_SHARED] < m[kind + w.K_SHARED]
        or m[core + w.U_REGISTERS] < m[kind + w.K_REGISTERS]
        or m[core + w.U_THREADS] < m[kind + w.K_THREADS]
    ):
        return False
    m[next_at] += w.B_WORDS
    m[core + w.U_BLOCKS] -= 1
    m[core + w.U_SHARED] -= m[kind + w.K_SHARED]
    m[core + w.U_REGISTERS] -= m[kind + w.K_REGISTERS]
    m[core + w.U_THREADS] -= m[kind + w.K_THREADS]
    slot = m[core + w.U_FIRST_SLOT]
    while m[slot + w.S_BLOCK] >= 0:
        slot += w.S_WORDS
    _spent(m, slot, w.Z_EMPTY, now)
    m[slot + w.S_BLOCK] = block
    m[slot + w.S_LOADED] = 0
    m[slot + w.S_DONE] = 0
    m[slot + w.S_BUSY] = 0
    m[slot + w.S_PART] = w.PROLOGUE
    last = _flight(slot, w.LAST_PLACE)
    m[last + w.F_READY] = now
    m[last + w.F_FROM] = w.Z_LLC
    _load(m, slot, w.FIRST_PLACE, _part(m, slot, w.PROLOGUE), 0, now)
    _load_ahead(m, slot, now)
    return True


@plain
def _launch(m, launch, now):  # type: ignore[no-untyped-def]
    """Deal the first blocks of a launch to the cores, one each in turn, until none fits."""
    m[launch + w.G_STARTED] = now
    gap = m[launch + w.G_GAP_PS]
    slots_end = m[w.O_SLOTS] + m[w.M_CORES] * m[w.M_SLOTS] * w.S_WORDS
    for slot in range(m[w.O_SLOTS], slots_end, w.S_WORDS):
        if m[slot + w.S_BLOCK] < 0:
            _spent(m, slot, w.Z_EMPTY, now - gap)
            _spent(m, slot, w.Z_LAUNCH, now)
    placed = True
    while placed:
        placed = False
        for number in range(m[w.M_CORES]):
            if _place(m, launch, m[w.O_CORES] + number * w.U_WORDS, now):
                placed = True


@plain
def _closed(m, launch, now):  # type: ignore[no-untyped-def]
    """End a launch without a block left or a store on its way; whether it did."""
    if m[launch + w.G_LEFT] > 0 or m[launch + w.G_OWED] > 0:
        return False
    ended = now + m[launch + w.G_END_PS]
    m[launch + w.G_ENDED] = ended
    launches_end = m[w.O_LAUNCHES] + m[w.M_LAUNCHES] * w.G_WORDS
    for other in range(m[w.O_LAUNCHES], launches_end, w.G_WORDS):
        if m[other + w.G_AFTER] == launch:
            push(m, ended + m[other + w.G_GAP_PS], w.E_LAUNCH, other)
    return True


@plain
def _block_ended(m, slot, now):  # type: ignore[no-untyped-def]
    """Give the core to the next blocks; whether the launch has ended with this one."""
    core = m[slot + w.S_CORE]
    block = m[slot + w.S_BLOCK]
    launch = m[block + w.B_LAUNCH]
    m[block + w.B_ENDED] = now
    _leave(m, slot)
    if m[_flight(slot, w.LAST_PLACE) + w.F_OUT] > 0 and m[slot + w.S_OWES] == 0:
        m[slot + w.S_OWES] = launch
        m[launch + w.G_OWED] += 1
    m[launch + w.G_LEFT] -= 1
    ended = _closed(m, launch, now)
    launches_end = m[w.O_LAUNCHES] + m[w.M_LAUNCHES] * w.G_WORDS
    for other in range(m[w.O_LAUNCHES], launches_end, w.G_WORDS):
        if m[other + w.G_STARTED] >= 0 and m[other + w.G_LEFT] > 0:
            while _place(m, other, core, now):
                pass
    return ended


@plain
def _taken(m, slot, now):  # type: ignore[no-untyped-def]
    """Whether with the last of a slot's stores its launch has ended."""
    launch = m[slot + w.S_OWES]
    if launch == 0 or m[_flight(slot, w.LAST_PLACE) + w.F_OUT] > 0:
        return False
    m[slot + w.S_OWES] = 0
    m[launch + w.G_OWED] -= 1
    return _closed(m, launch, now)


@plain
def _returned(m, chunk, now):  # type: ignore[no-untyped-def]
    """A chunk is back from memory, or taken by it: tell all that wait, and free it."""
    record = m[w.O_CHUNKS] + chunk * w.H_WORDS
    back = now
    if m[m[w.O_WRITES] + chunk] == 0:
        back = now + m[w.M_PATH_PS] - (m[w.M_PATH_PS] >> 1)
    m[w.T_DRAM_PS] += now - m[record + w.H_SENT]
    _note(
        m, w.OF_CHUNK, m[record + w.H_CHANNEL], m[m[w.O_WRITES] + chunk], m[record + w.H_SENT], now,
        m[m[w.O_SIZES] + chunk],
    )  # fmt: skip
    line = m[record + w.H_LINE]
    if line >= 0 and m[m[w.O_PENDING] + line] == chunk:
        m[m[w.O_PENDING] + line] = -1
    waiter = m[record + w.H_WAITERS]
    while waiter >= 0:
        after = m[waiter + w.W_NEXT]
        _answered(m, waiter, back, now, w.Z_DRAM)
        waiter = after
    m[record + w.H_WAITERS] = m[w.T_FREE_CHUNK]
    m[w.T_FREE_CHUNK] = chunk


@inlined
def _in_order(left, chunk):  # type: ignore[no-untyped-def]
    """The chain of chunks just finished, the first of them first."""
    first = np.int64(-1)
    while chunk >= 0:
        after = left[chunk]
        left[chunk] = first
        first = chunk
        chunk = after
    return first


@inlined
def _enter(m, memory, parameters, runs, totals, wake, chunk, tick):  # type: ignore[no-untyped-def]
    """Queue a chunk at its channel."""
    record = m[w.O_CHUNKS] + chunk * w.H_WORDS
    number = m[record + w.H_CHANNEL]
    m[m[w.O_CHANNELS] + number] += m[m[w.O_SIZES] + chunk]
    queue_run(
        memory, parameters, runs, totals, wake, number, chunk, m[record + w.H_BURST],
        m[record + w.H_BURSTS], tick,
    )  # fmt: skip


@entry
def run_machine(  # type: ignore[no-untyped-def]
    words, memory_words, parameter_words, digits, runs, totals, wake, writes, sizes, left, finished,
    trace,
):  # fmt: skip
    """Run all launches to their end. Everything is written into the arrays given."""
    m = address_of(words)
    memory = address_of(memory_words)
    parameters = address_of(parameter_words)
    tick_fs = m[w.M_TICK_FS]
    open_launches = m[w.M_LAUNCHES]
    launches_end = m[w.O_LAUNCHES] + open_launches * w.G_WORDS
    for launch in range(m[w.O_LAUNCHES], launches_end, w.G_WORDS):
        if m[launch + w.G_AFTER] < 0:
            push(m, m[launch + w.G_GAP_PS], w.E_LAUNCH, launch)
    following = wake[0]
    for number in range(1, m[w.M_CHANNELS]):
        following = min(following, wake[number])
    while open_launches > 0 and m[w.T_FAULT] == 0:
        event_at = m[m[w.O_HEAP]] if m[w.T_HEAP] > 0 else w.FAR
        if m[w.T_HEAP] == 0 and m[w.T_OUT] == 0:
            m[w.T_FAULT] = w.FAULT_STUCK
            break
        if (following * tick_fs + 999) // 1000 < event_at:
            tick = following
            following = w.FAR
            for number in range(m[w.M_CHANNELS]):
                if wake[number] <= tick:
                    channel = number * parameters[L_WORDS]
                    accept(
                        memory, parameters, digits, runs, totals, channel, writes, sizes, left,
                        finished, tick,
                    )  # fmt: skip
                    return_data(memory, parameters, totals, channel, left, finished, sizes, tick)
                    wake[number] = step(
                        memory, parameters, runs, writes, channel, tick, trace, totals
                    )
                following = min(following, wake[number])
            chunk = _in_order(left, totals[X_FINISHED])
            totals[X_FINISHED] = -1
            while chunk >= 0:
                after = left[chunk]
                m[w.T_OUT] -= 1
                _returned(m, chunk, (tick * tick_fs + 999) // 1000)
                chunk = after
            continue
        event = pop(m)
        m[w.T_EVENTS] += 1
        what = event >> w.EVENT_BITS
        sort = event & ((1 << w.EVENT_BITS) - 1)
        if sort == w.E_MISS:
            # The first tick whose picosecond is not before the event's, awake or not.
            tick = max((event_at - 1) * 1000 // tick_fs + 1, 1)
            m[w.T_OUT] += 1
            _enter(m, memory, parameters, runs, totals, wake, what, tick)
            following = min(following, tick)
        elif sort == w.E_READY:
            if _taken(m, what, event_at):
                open_launches -= 1
            _advance(m, what, event_at)
        elif sort == w.E_ASKED:
            _reached(m, what, 0, event_at)
        elif sort == w.E_STORED:
            _reached(m, what, 1, event_at)
        elif sort == w.E_HIT:
            _answered(m, what, event_at, event_at, w.Z_LLC)
        elif sort == w.E_PART:
            if _part_ended(m, what, event_at) and _block_ended(m, what, event_at):
                open_launches -= 1
        else:
            _launch(m, what, event_at)
