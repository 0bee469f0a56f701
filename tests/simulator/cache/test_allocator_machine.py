"""Random operations on an allocator whose slots hold something: every request reads back its own.

A token is a number given out once. The storage under test keeps tokens where the allocator says, so
a slot with two owners, a copy that was left out or a page freed too early reads back wrong.
"""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from simulator.cache.allocator import Allocator
from simulator.cache.block_pool import OutOfPagesError
from simulator.cache.pool_spec import PoolSpec

ROWS, MAX_TOKENS, RING = 4, 64, 8
OPERATIONS = 2_000


class Slots:
    """Storage of tokens: a token an entry, and the last `RING` of every row."""

    def __init__(self, allocator):
        self.allocator = allocator
        self.pools = {p: np.full(allocator.pool_slots(p), -1) for p in allocator.pools}
        self.rings = np.full((allocator.rows, RING), -1)

    def copy_page(self, pool, source, target, entries):
        size, held = self.allocator.page_entries(pool), self.pools[pool]
        held[target * size : target * size + entries] = held[source * size :][:entries]

    def copy_state(self, source, target):
        self.rings[target] = self.rings[source]

    def forget_page(self, pool, page):
        size = self.allocator.page_entries(pool)
        self.pools[pool][page * size : (page + 1) * size] = -1

    def forget_state(self, slot):
        self.rings[slot] = -1

    def write(self, row, start, tokens):
        """Entries that the tokens complete hold the last of their own tokens."""
        for name, pool in self.allocator.pools.items():
            ends = [i for i in range(start, len(tokens)) if (i + 1) % pool.ratio == 0]
            places = self.allocator.entry_slots(name, row, np.array(ends, dtype=int) // pool.ratio)
            self.pools[name][places] = [tokens[i] for i in ends]
        for i in range(start, len(tokens)):
            self.rings[row, i % RING] = tokens[i]

    def read(self, row, pool, tokens):
        entries = np.arange(len(tokens) // self.allocator.pools[pool].ratio)
        return self.pools[pool][self.allocator.entry_slots(pool, row, entries)].tolist()


class AllocatorMachine(RuleBasedStateMachine):
    """Admit, extend, fork, shorten, preempt and release, against a list of tokens a request."""

    operations = 0
    refused = 0
    copied = 0

    @initialize(
        page=st.sampled_from([8, 16, 24]),
        own=st.sampled_from([None, 4, 12, 32]),
        wide=st.sampled_from([None, 8, 16, 64]),
        scarce=st.booleans(),
    )
    def start(self, page, own, wide, scarce):
        pools = (
            PoolSpec(name="each", ratio=1),
            PoolSpec(name="four", ratio=4, page_tokens=own),
            PoolSpec(name="eight", ratio=8, page_tokens=wide, pages=9 if scarce and wide else None),
        )
        pages = 128 // page if scarce else None
        self.a = Allocator(ROWS, MAX_TOKENS, page_tokens=page, pages=pages, pools=pools, debug=True)
        self.storage = Slots(self.a)
        self.a.attach(self.storage)
        self.live: dict[int, list[int]] = {}
        self.waiting: list[list[int]] = []
        self.next = 0

    def fresh(self, count):
        self.next += count
        return list(range(self.next - count, self.next))

    def snapshot(self):
        return (
            {n: (t.blocks.free_list, [list(r) for r in t.rows]) for n, t in self.a.tables.items()},
            self.a.lengths.tolist(),
            self.a.slots.live,
        )

    def grow(self, additions):
        """Extend all or nothing, as `shortage` foretells."""
        short, before = self.a.shortage([(r, len(new)) for r, new in additions]), self.snapshot()
        try:
            taken = self.a.extend_all([(row, len(new)) for row, new in additions])
        except OutOfPagesError as refusal:
            taken, binding = None, refusal.pool
        if taken is None:
            type(self).refused += 1
            assert binding in short
            assert self.snapshot() == before
            return
        assert not short
        type(self).copied += len(taken.copies)
        for row, new in additions:
            start = len(self.live[row])
            self.live[row] += new
            self.storage.write(row, start, self.live[row])

    @precondition(lambda self: len(self.live) < ROWS)
    @rule(count=st.integers(0, 40), again=st.booleans())
    def admit(self, count, again):
        type(self).operations += 1
        tokens = self.waiting.pop() if again and self.waiting else self.fresh(count)
        before = self.snapshot()
        try:
            row = self.a.admit(tokens=len(tokens))
        except OutOfPagesError:
            type(self).refused += 1
            assert self.snapshot() == before
            return
        self.live[row] = tokens
        self.storage.write(row, 0, tokens)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), counts=st.lists(st.integers(0, 12), min_size=ROWS, max_size=ROWS))
    def extend(self, data, counts):
        type(self).operations += 1
        rows = data.draw(st.lists(st.sampled_from(sorted(self.live)), unique=True, min_size=1))
        held = -(-MAX_TOKENS // self.a.page_tokens) * self.a.page_tokens
        self.grow(
            [
                (row, self.fresh(min(count, held - len(self.live[row]))))
                for row, count in zip(rows, counts, strict=False)
            ]
        )

    @precondition(lambda self: 0 < len(self.live) < ROWS)
    @rule(data=st.data())
    def fork(self, data):
        type(self).operations += 1
        row = data.draw(st.sampled_from(sorted(self.live)))
        child = self.a.fork(row)
        self.live[child] = list(self.live[row])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(1, 4))
    def extend_and_take_back(self, data, count):
        """Draft tokens: what was added in this step is its own, so it can always be cut."""
        type(self).operations += 1
        row = data.draw(st.sampled_from(sorted(self.live)))
        length = len(self.live[row])
        if length + count > MAX_TOKENS or self.a.shortage([(row, count)]):
            return
        ring = self.storage.rings[row].copy()
        self.grow([(row, self.fresh(count))])
        self.a.shorten(row, length)
        del self.live[row][length:]
        self.storage.rings[row] = ring

    @precondition(lambda self: self.live)
    @rule(data=st.data(), preempt=st.booleans())
    def leave(self, data, preempt):
        type(self).operations += 1
        row = data.draw(st.sampled_from(sorted(self.live)))
        tokens = self.live.pop(row)
        if preempt:
            assert self.a.preempt(row) == len(tokens)
            self.waiting.append(tokens)
        else:
            self.a.release(row)

    @invariant()
    def every_request_reads_back_its_own(self):
        if not hasattr(self, "a"):
            return
        self.a.check_invariants()
        for row, tokens in self.live.items():
            assert self.a.lengths[row] == len(tokens)
            for name, pool in self.a.pools.items():
                expected = tokens[pool.ratio - 1 :: pool.ratio]
                assert self.storage.read(row, name, tokens) == expected
            for i in range(max(len(tokens) - RING, 0), len(tokens)):
                assert self.storage.rings[row, i % RING] == tokens[i]

    def teardown(self):
        if not hasattr(self, "a"):
            return
        for row in self.live:
            self.a.release(row)
        for tables in self.a.tables.values():
            assert tables.blocks.free == tables.blocks.pages
        assert self.a.slots.free == ROWS
        assert all((pool == -1).all() for pool in self.storage.pools.values())
        assert (self.storage.rings == -1).all()


def test_random_operations_keep_every_invariant():
    AllocatorMachine.operations = AllocatorMachine.refused = AllocatorMachine.copied = 0
    run_state_machine_as_test(
        AllocatorMachine,
        settings=settings(
            max_examples=80,
            stateful_step_count=60,
        ),
    )
    assert AllocatorMachine.operations >= OPERATIONS
    # Both kinds of event that matter did happen.
    assert AllocatorMachine.copied > 20
    assert AllocatorMachine.refused > 20
