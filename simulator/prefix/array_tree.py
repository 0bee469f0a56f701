"""The tree of known prefixes and the pools of all tiers in whole-number arrays, compiled.

A pool of pages holds of every segment a head of so many blocks, so that nothing is split to make
room. Ends leave first, least recently used: pages and windows of a tier stand in linked lists in
order of use, of one use the end of a prompt before its beginning, so that the front is always an
end. What this computes is what `tiered_cache.py` does with objects, for LRU written through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwmodels.dram.compiled import compiled

Ints = NDArray[np.int64]
ROOT, NONE = 0, -1
# Columns of a segment. The first window of a segment stands in FIRST_WINDOW.
PARENT, FIRST, COUNT, START, CHILDREN, PINNED, GUARDED, FIRST_WINDOW = range(8)
# Columns of a segment in a tier, then of a window in a tier, whose TURN is 0 where it is not held.
PREVIOUS, NEXT, TURN, HELD = range(4)
# Columns of a window.
TOKEN, SEGMENT, NEXT_WINDOW, HOLDERS = range(4)
# Columns of a tier: list ends of pages and windows, what is held and what may be.
PAGE_FRONT, PAGE_BACK, WINDOW_FRONT, WINDOW_BACK = range(4)
USED_BLOCKS, USED_WINDOWS, MOST_BLOCKS, MOST_WINDOWS, ROOM_BYTES, BLOCK_BYTES = range(4, 10)
WINDOW_BYTES, PAGE_TURN, WINDOW_TURN = range(10, 13)
TIER_COLUMNS = 13
# Columns of the totals.
FREE_SEGMENT, FREE_WINDOW, USED_SEGMENTS, USED_KEPT, BLOCK_TOKENS, PATH, MATCHED = range(7)
TOTALS = 7


class State(NamedTuple):
    """All arrays: segments [n, 8], in tiers [n, tiers, 4], windows [m, 4] and in tiers.

    `tiers` [tiers, 13], `children` [slots, 3]: parent, first id and segment + 1 by hash. `path`:
    segments of the prompt that was matched last, from the root. A tier without ROOM_BYTES (-1) has
    MOST_BLOCKS and MOST_WINDOWS of its own.
    """

    segments: Ints
    pages: Ints
    windows: Ints
    kept: Ints
    tiers: Ints
    children: Ints
    path: Ints
    totals: Ints


@compiled
def _slot(s: State, parent: int, first: int) -> int:
    """Where a child stands in the table, or the free slot where it would."""
    mask = s.children.shape[0] - 1
    key = (parent * 0x9E3779B1 + first * 0x85EBCA77) & 0x7FFFFFFFFFFFFFF
    at = (key ^ (key >> 17)) & mask
    while s.children[at, 2] and (s.children[at, 0] != parent or s.children[at, 1] != first):
        at = (at + 1) & mask
    return at


@compiled
def _put_child(s: State, parent: int, first: int, segment: int) -> None:
    at = _slot(s, parent, first)
    s.children[at, 0], s.children[at, 1], s.children[at, 2] = parent, first, segment + 1


@compiled
def _drop_child(s: State, parent: int, first: int) -> None:
    """Empty a slot and move up what was pushed behind it."""
    mask = s.children.shape[0] - 1
    at = _slot(s, parent, first)
    s.children[at, 2] = 0
    at = (at + 1) & mask
    while s.children[at, 2]:
        p, f, segment = s.children[at, 0], s.children[at, 1], s.children[at, 2]
        s.children[at, 2] = 0
        to = _slot(s, p, f)
        s.children[to, 0], s.children[to, 1], s.children[to, 2] = p, f, segment
        at = (at + 1) & mask


@compiled
def refill(s: State, old: Ints) -> None:
    """Children of a smaller table."""
    for row in range(old.shape[0]):
        if old[row, 2]:
            _put_child(s, old[row, 0], old[row, 1], old[row, 2] - 1)


@compiled
def _new_segment(s: State, parent: int, first: int, count: int, start: int) -> int:
    one = s.totals[FREE_SEGMENT]
    s.totals[FREE_SEGMENT] = s.segments[one, PARENT]
    s.totals[USED_SEGMENTS] += 1
    s.segments[one, PARENT], s.segments[one, FIRST] = parent, first
    s.segments[one, COUNT], s.segments[one, START] = count, start
    s.segments[one, CHILDREN] = s.segments[one, PINNED] = s.segments[one, GUARDED] = 0
    s.segments[one, FIRST_WINDOW] = NONE
    for tier in range(s.tiers.shape[0]):
        s.pages[one, tier, HELD] = 0
    return one


@compiled
def _free_segment(s: State, one: int) -> None:
    s.segments[one, PARENT] = s.totals[FREE_SEGMENT]
    s.totals[FREE_SEGMENT] = one
    s.totals[USED_SEGMENTS] -= 1


@compiled
def _unlink(items: Ints, tiers: Ints, tier: int, one: int, front: int) -> None:
    """Take an item out of the list of a tier whose ends stand at `front` and behind it."""
    before, after = items[one, tier, PREVIOUS], items[one, tier, NEXT]
    if before >= 0:
        items[before, tier, NEXT] = after
    else:
        tiers[tier, front] = after
    if after >= 0:
        items[after, tier, PREVIOUS] = before
    else:
        tiers[tier, front + 1] = before


@compiled
def _link_behind(items: Ints, tiers: Ints, tier: int, one: int, other: int, front: int) -> None:
    """Put an item behind another one in the list of a tier."""
    after = items[other, tier, NEXT]
    items[one, tier, PREVIOUS], items[one, tier, NEXT] = other, after
    items[other, tier, NEXT] = one
    if after >= 0:
        items[after, tier, PREVIOUS] = one
    else:
        tiers[tier, front + 1] = one


@compiled
def _link_last(items: Ints, tiers: Ints, tier: int, one: int, front: int) -> None:
    """Put an item at the end of the list of a tier: it was used last."""
    last = tiers[tier, front + 1]
    items[one, tier, PREVIOUS], items[one, tier, NEXT] = last, NONE
    tiers[tier, front + 1] = one
    if last >= 0:
        items[last, tier, NEXT] = one
    else:
        tiers[tier, front] = one


@compiled
def _replace(items: Ints, tiers: Ints, tier: int, old: int, new: int) -> None:
    """Put one segment where another stands in the list of a tier."""
    _link_behind(items, tiers, tier, new, old, PAGE_FRONT)
    _unlink(items, tiers, tier, old, PAGE_FRONT)
    items[new, tier, TURN] = items[old, tier, TURN]


@compiled
def match(s: State, first: Ints, count: Ints) -> int:
    """Blocks of a prompt that are in the tree; `path` then holds their segments."""
    node, blocks, length, run, offset = ROOT, 0, 0, 0, 0
    while run < first.shape[0]:
        at = _slot(s, node, first[run] + offset)
        if not s.children[at, 2]:
            break
        node = s.children[at, 2] - 1
        s.path[length] = node
        length += 1
        same, size, begin = 0, s.segments[node, COUNT], s.segments[node, FIRST]
        while run < first.shape[0] and same < size and first[run] + offset == begin + same:
            taken = min(size - same, count[run] - offset)
            same += taken
            offset += taken
            if offset == count[run]:
                run, offset = run + 1, 0
        blocks += same
        if same < size:
            break
    s.totals[PATH], s.totals[MATCHED] = length, blocks
    return blocks


@compiled
def extents(s: State, tiers: int, ends: Ints, places: Ints) -> int:
    """Blocks up to which the fastest of so many tiers holds the matched prompt, from tier to tier.

    Fills `ends` (blocks) and `places` (tiers), and returns how many.
    """
    found = 0
    for step in range(s.totals[PATH]):
        one = s.path[step]
        start = s.segments[one, START]
        most = min(s.segments[one, COUNT], s.totals[MATCHED] - start)
        at = 0
        while at < most:
            tier = 0
            while tier < tiers and s.pages[one, tier, HELD] <= at:
                tier += 1
            if tier == tiers:
                return found
            at = min(most, s.pages[one, tier, HELD])
            if not found or places[found - 1] != tier:
                places[found] = tier
                found += 1
                if found == ends.shape[0]:
                    return -1
            ends[found - 1] = start + at
    return found


@compiled
def last_window(s: State, limit: int, tiers: int) -> tuple[int, int]:
    """Largest window of the matched prompt up to `limit`, and the fastest tier that holds it."""
    for step in range(s.totals[PATH] - 1, -1, -1):
        window, best, place = s.segments[s.path[step], FIRST_WINDOW], 0, 0
        while window >= 0:
            token = s.windows[window, TOKEN]
            if best < token <= limit:
                for tier in range(tiers):
                    if s.kept[window, tier, TURN]:
                        best, place = token, tier
                        break
            window = s.windows[window, NEXT_WINDOW]
        if best:
            return best, place
    return 0, 0


@compiled
def _split(s: State, step: int, count: int) -> None:
    """Make the first blocks of a segment of the path a segment of their own, its new parent."""
    tail = s.path[step]
    parent, first = s.segments[tail, PARENT], s.segments[tail, FIRST]
    head = _new_segment(s, parent, first, count, s.segments[tail, START])
    s.segments[head, CHILDREN] = 1
    s.segments[head, PINNED], s.segments[head, GUARDED] = s.segments[tail, PINNED], 0
    _put_child(s, parent, first, head)
    s.segments[tail, PARENT] = head
    s.segments[tail, FIRST] += count
    s.segments[tail, START] += count
    s.segments[tail, COUNT] -= count
    _put_child(s, head, first + count, tail)
    for tier in range(s.tiers.shape[0]):
        held = s.pages[tail, tier, HELD]
        if not held:
            continue
        s.pages[head, tier, HELD] = min(held, count)
        s.pages[head, tier, TURN] = s.pages[tail, tier, TURN]
        s.pages[tail, tier, HELD] = max(0, held - count)
        if held > count:
            _link_behind(s.pages, s.tiers, tier, head, tail, PAGE_FRONT)
        else:
            _replace(s.pages, s.tiers, tier, tail, head)
    border = s.segments[tail, START] * s.totals[BLOCK_TOKENS]
    window, s.segments[tail, FIRST_WINDOW] = s.segments[tail, FIRST_WINDOW], NONE
    while window >= 0:
        after = s.windows[window, NEXT_WINDOW]
        owner = head if s.windows[window, TOKEN] <= border else tail
        _own(s, window, owner)
        window = after
    s.path[step] = head


@compiled
def _own(s: State, window: int, segment: int) -> None:
    s.windows[window, SEGMENT] = segment
    s.windows[window, NEXT_WINDOW] = s.segments[segment, FIRST_WINDOW]
    s.segments[segment, FIRST_WINDOW] = window


@compiled
def _trim(s: State, one: int) -> None:
    """Forget blocks that no tier holds, that no window lies behind and nothing goes on from."""
    while one != ROOT and not s.segments[one, CHILDREN] and not s.segments[one, PINNED]:
        most = 0
        for tier in range(s.tiers.shape[0]):
            most = max(most, s.pages[one, tier, HELD])
        border = (s.segments[one, START] + most) * s.totals[BLOCK_TOKENS]
        window = s.segments[one, FIRST_WINDOW]
        while window >= 0:
            if s.windows[window, TOKEN] > border:
                return
            window = s.windows[window, NEXT_WINDOW]
        if most:
            s.segments[one, COUNT] = most
            return
        parent = s.segments[one, PARENT]
        _drop_child(s, parent, s.segments[one, FIRST])
        s.segments[parent, CHILDREN] -= 1
        _free_segment(s, one)
        one = parent


@compiled
def _evict_page(s: State, tier: int, one: int, blocks: int) -> None:
    """So many blocks leave from the end of what a tier holds of a segment."""
    s.pages[one, tier, HELD] -= blocks
    s.tiers[tier, USED_BLOCKS] -= blocks
    if not s.pages[one, tier, HELD]:
        _unlink(s.pages, s.tiers, tier, one, PAGE_FRONT)
    _trim(s, one)


@compiled
def _evict_window(s: State, tier: int, window: int) -> None:
    _unlink(s.kept, s.tiers, tier, window, WINDOW_FRONT)
    s.kept[window, tier, TURN] = 0
    s.tiers[tier, USED_WINDOWS] -= 1
    s.windows[window, HOLDERS] -= 1
    if s.windows[window, HOLDERS]:
        return
    segment = s.windows[window, SEGMENT]
    after, before = s.windows[window, NEXT_WINDOW], s.segments[segment, FIRST_WINDOW]
    if before == window:
        s.segments[segment, FIRST_WINDOW] = after
    else:
        while s.windows[before, NEXT_WINDOW] != window:
            before = s.windows[before, NEXT_WINDOW]
        s.windows[before, NEXT_WINDOW] = after
    s.windows[window, NEXT_WINDOW] = s.totals[FREE_WINDOW]
    s.totals[FREE_WINDOW] = window
    s.totals[USED_KEPT] -= 1
    _trim(s, segment)


@compiled
def _free_bytes(s: State, tier: int) -> int:
    row = s.tiers[tier]
    held = row[USED_BLOCKS] * row[BLOCK_BYTES] + row[USED_WINDOWS] * row[WINDOW_BYTES]
    return row[ROOM_BYTES] - held


@compiled
def _make(s: State, tier: int, nbytes: int) -> bool:
    """Free bytes of a room that pages and windows share: whichever was used longest ago leaves."""
    while _free_bytes(s, tier) < nbytes:
        page = s.tiers[tier, PAGE_FRONT]
        while page >= 0 and s.segments[page, GUARDED]:
            page = s.pages[page, tier, NEXT]
        window = s.tiers[tier, WINDOW_FRONT]
        if page < 0 and window < 0:
            return False
        if window < 0 or (page >= 0 and s.pages[page, tier, TURN] < s.kept[window, tier, TURN]):
            size = s.tiers[tier, BLOCK_BYTES]
            short = nbytes - _free_bytes(s, tier)
            blocks = min(s.pages[page, tier, HELD], (short + size - 1) // size)
            _evict_page(s, tier, page, blocks)
        else:
            _evict_window(s, tier, window)
    return True


@compiled
def _room_for(s: State, tier: int, wanted: int) -> int:
    """Blocks of `wanted` that there is room for after others have left, never the path's own."""
    if s.tiers[tier, ROOM_BYTES] >= 0:
        _make(s, tier, wanted * s.tiers[tier, BLOCK_BYTES])
        return min(wanted, max(0, _free_bytes(s, tier)) // s.tiers[tier, BLOCK_BYTES])
    while True:
        short = wanted - (s.tiers[tier, MOST_BLOCKS] - s.tiers[tier, USED_BLOCKS])
        page = s.tiers[tier, PAGE_FRONT]
        if short <= 0 or page < 0 or s.pages[page, tier, TURN] == s.tiers[tier, PAGE_TURN]:
            break
        _evict_page(s, tier, page, min(short, s.pages[page, tier, HELD]))
    return min(wanted, s.tiers[tier, MOST_BLOCKS] - s.tiers[tier, USED_BLOCKS])


@compiled
def _turn(s: State, tier: int, column: int) -> int:
    """A use; those of a shared room are counted together."""
    column = PAGE_TURN if s.tiers[tier, ROOM_BYTES] >= 0 else column
    s.tiers[tier, column] += 1
    return s.tiers[tier, column]


@compiled
def _touch_pages(s: State, tier: int, length: int) -> int:
    """Use what a tier holds of the path's first segments, the end first; returns the turn."""
    turn = _turn(s, tier, PAGE_TURN)
    for step in range(length - 1, -1, -1):
        one = s.path[step]
        if s.pages[one, tier, HELD]:
            s.pages[one, tier, TURN] = turn
            _unlink(s.pages, s.tiers, tier, one, PAGE_FRONT)
            _link_last(s.pages, s.tiers, tier, one, PAGE_FRONT)
    return turn


@compiled
def _store_pages(s: State, tier: int) -> int:
    """Touch what a tier holds of the path and hold the rest as far as it fits; blocks added."""
    length = s.totals[PATH]
    turn = _touch_pages(s, tier, length)
    missing = 0
    for step in range(length):
        one = s.path[step]
        missing += s.segments[one, COUNT] - s.pages[one, tier, HELD]
    added = left = max(0, _room_for(s, tier, missing)) if missing else 0
    for step in range(length):
        one = s.path[step]
        taken = min(left, s.segments[one, COUNT] - s.pages[one, tier, HELD])
        if taken:
            if not s.pages[one, tier, HELD]:
                s.pages[one, tier, TURN] = turn
                _link_before(s, tier, one, s.path[step - 1] if step else NONE)
            s.pages[one, tier, HELD] += taken
            left -= taken
    s.tiers[tier, USED_BLOCKS] += added
    return added


@compiled
def _link_before(s: State, tier: int, one: int, parent: int) -> None:
    """Put a segment in the list just before its parent, which is used again no later."""
    if parent < 0:
        _link_last(s.pages, s.tiers, tier, one, PAGE_FRONT)
        return
    before = s.pages[parent, tier, PREVIOUS]
    s.pages[one, tier, PREVIOUS], s.pages[one, tier, NEXT] = before, parent
    s.pages[parent, tier, PREVIOUS] = one
    if before >= 0:
        s.pages[before, tier, NEXT] = one
    else:
        s.tiers[tier, PAGE_FRONT] = one


@compiled
def _holder(s: State, token: int) -> int:
    """The segment of the path that a token lies in, or NONE."""
    block = -(-token // s.totals[BLOCK_TOKENS])
    for step in range(s.totals[PATH] - 1, -1, -1):
        one = s.path[step]
        start = s.segments[one, START]
        if start < block <= start + s.segments[one, COUNT]:
            return one
    return NONE


@compiled
def _window_at(s: State, segment: int, token: int) -> int:
    window = s.segments[segment, FIRST_WINDOW]
    while window >= 0 and s.windows[window, TOKEN] != token:
        window = s.windows[window, NEXT_WINDOW]
    return window


@compiled
def _touch_window(s: State, tier: int, window: int) -> bool:
    if window < 0 or not s.kept[window, tier, TURN]:
        return False
    s.kept[window, tier, TURN] = _turn(s, tier, WINDOW_TURN)
    _unlink(s.kept, s.tiers, tier, window, WINDOW_FRONT)
    _link_last(s.kept, s.tiers, tier, window, WINDOW_FRONT)
    return True


@compiled
def _store_window(s: State, tier: int, segment: int, token: int) -> bool:
    """Hold a window; one that is held already counts as used. Whether it is new."""
    if _touch_window(s, tier, _window_at(s, segment, token)):
        return False
    if s.tiers[tier, ROOM_BYTES] >= 0:
        if not _make(s, tier, s.tiers[tier, WINDOW_BYTES]):
            return False
    else:
        if s.tiers[tier, MOST_WINDOWS] == 0:
            return False
        while s.tiers[tier, USED_WINDOWS] >= s.tiers[tier, MOST_WINDOWS]:
            _evict_window(s, tier, s.tiers[tier, WINDOW_FRONT])
    window = _window_at(s, segment, token)  # making room may have taken the last copy of another
    if window < 0:
        window = s.totals[FREE_WINDOW]
        s.totals[FREE_WINDOW] = s.windows[window, NEXT_WINDOW]
        s.totals[USED_KEPT] += 1
        s.windows[window, TOKEN], s.windows[window, HOLDERS] = token, 0
        for other in range(s.tiers.shape[0]):
            s.kept[window, other, TURN] = 0
        _own(s, window, segment)
    s.kept[window, tier, TURN] = _turn(s, tier, WINDOW_TURN)
    _link_last(s.kept, s.tiers, tier, window, WINDOW_FRONT)
    s.windows[window, HOLDERS] += 1
    s.tiers[tier, USED_WINDOWS] += 1
    return True


@compiled
def _write_down(s: State, upper: int, segment: int, token: int, written: Ints) -> None:
    """Copy a window to the tiers below, from one to the next, down to the first that has it."""
    for tier in range(upper + 1, s.tiers.shape[0]):
        window = _window_at(s, segment, token)
        if window >= 0 and s.kept[window, tier, TURN]:
            return
        written[tier] += _store_window(s, tier, segment, token)


@compiled
def _pin(s: State, length: int, pinned: int) -> None:
    for step in range(length):
        s.segments[s.path[step], PINNED] = pinned
        s.segments[s.path[step], GUARDED] = 0


@compiled
def use(s: State, blocks: int, token: int, written: Ints) -> None:
    """Use the first blocks of the matched prompt, and a window of it (0: none) in every tier.

    `written` [tiers]: windows that were written.
    """
    length = s.totals[PATH]
    _pin(s, length, 1)
    tail, head = NONE, 0
    while head < length and s.segments[s.path[head], START] < blocks:
        head += 1
    if head:
        one = s.path[head - 1]
        over = s.segments[one, START] + s.segments[one, COUNT] - blocks
        if over > 0:
            tail = one
            _split(s, head - 1, s.segments[one, COUNT] - over)
    for step in range(head):
        s.segments[s.path[step], GUARDED] = 1
    segment = NONE
    if token:
        s.totals[PATH] = head
        segment = _holder(s, token)
        s.totals[PATH] = length
    for tier in range(s.tiers.shape[0]):
        _touch_pages(s, tier, head)
        if segment >= 0 and _touch_window(s, tier, _window_at(s, segment, token)):
            _write_down(s, tier, segment, token, written)
    if segment >= 0:
        window = _window_at(s, segment, token)
        if window < 0 or not s.kept[window, 0, TURN]:
            written[0] += _store_window(s, 0, segment, token)
    _pin(s, length, 0)
    if tail >= 0:
        s.segments[tail, PINNED] = 0
    _trim(s, tail if tail >= 0 and head == length else s.path[length - 1] if length else ROOT)


@compiled
def store(s: State, first: Ints, count: Ints, tokens: Ints, blocks: Ints, written: Ints) -> None:
    """Keep a prompt's pages in every tier, and windows at `tokens`.

    `blocks` [tiers], `written` [tiers]: blocks and windows that were written.
    """
    tiers = s.tiers.shape[0]
    known = match(s, first, count)
    length, tail = s.totals[PATH], ROOT
    if length:
        one = s.path[length - 1]
        inside = known - s.segments[one, START]
        if inside < s.segments[one, COUNT]:
            tail = one
            _split(s, length - 1, inside)
            s.segments[tail, PINNED] = 1
    node = s.path[length - 1] if length else ROOT
    at = 0
    for run in range(first.shape[0]):
        skipped = max(0, min(count[run], known - at))
        at += count[run]
        if skipped == count[run]:
            continue
        start, size = at - count[run] + skipped, count[run] - skipped
        child = _new_segment(s, node, first[run] + skipped, size, start)
        _put_child(s, node, first[run] + skipped, child)
        s.segments[node, CHILDREN] += 1
        s.path[length] = node = child
        length += 1
    s.totals[PATH], s.totals[MATCHED] = length, at
    for step in range(length):
        s.segments[s.path[step], PINNED] = s.segments[s.path[step], GUARDED] = 1
    for tier in range(tiers):
        blocks[tier] = _store_pages(s, tier)
    for token in tokens:
        segment = _holder(s, token)
        new = _store_window(s, 0, segment, token)
        written[0] += new
        if new or (s.tiers[0, ROOM_BYTES] < 0 and s.tiers[0, MOST_WINDOWS] == 0):
            _write_down(s, 0, segment, token, written)
    _pin(s, length, 0)
    s.segments[tail, PINNED] = 0
    _trim(s, s.path[length - 1])
    _trim(s, tail)  # after the end of the path, which it keeps from being forgotten twice
    _join(s)
    s.totals[PATH] = 0


@compiled
def _join(s: State) -> None:
    """Make one segment of neighbours of the path that nothing tells apart any more.

    What was split where a hit ended has been used alike since.
    """
    length = s.totals[PATH]
    step = 0
    # What was trimmed from the end is no longer on the path.
    while step < length and _is_child(s, s.path[step], s.path[step - 1] if step else ROOT):
        step += 1
    tail = s.path[step - 1] if step else ROOT
    for place in range(step - 2, -1, -1):
        if not _join_one(s, s.path[place], tail):
            tail = s.path[place]


@compiled
def _is_child(s: State, one: int, parent: int) -> bool:
    return s.children[_slot(s, parent, s.segments[one, FIRST]), 2] == one + 1


@compiled
def _join_one(s: State, head: int, tail: int) -> bool:
    """Let a segment take in its parent, if nothing tells them apart; it stays the same number."""
    first, size = s.segments[head, FIRST], s.segments[head, COUNT]
    if s.segments[head, CHILDREN] != 1 or s.segments[tail, FIRST] != first + size:
        return False
    for tier in range(s.tiers.shape[0]):
        below = s.pages[tail, tier, HELD]
        if below and s.pages[tail, tier, TURN] != s.pages[head, tier, TURN]:
            return False
    for tier in range(s.tiers.shape[0]):
        held = s.pages[head, tier, HELD]
        if held and s.pages[tail, tier, HELD]:
            _unlink(s.pages, s.tiers, tier, head, PAGE_FRONT)
        elif held:
            _replace(s.pages, s.tiers, tier, head, tail)
        s.pages[tail, tier, HELD] += held
    window = s.segments[head, FIRST_WINDOW]
    while window >= 0:
        after = s.windows[window, NEXT_WINDOW]
        _own(s, window, tail)
        window = after
    parent = s.segments[head, PARENT]
    _drop_child(s, head, first + size)
    _put_child(s, parent, first, tail)
    s.segments[tail, PARENT], s.segments[tail, FIRST] = parent, first
    s.segments[tail, START] = s.segments[head, START]
    s.segments[tail, COUNT] += size
    _free_segment(s, head)
    return True
