"""Pools of blocks under many evictions, slowly: lists that are scanned, no heap, no index.

A block is the tuple of ids that lead to it. Of one request the end counts as older than its
beginning.
"""

from itertools import pairwise


class Slow:
    """LRU; `lists` are the queues, the oldest first."""

    count = 1

    def __init__(self, capacity):
        self.capacity = capacity
        self.lists = [[] for _ in range(self.count)]
        self.fresh = [[] for _ in range(self.count)]  # of those, added by the request at work
        self.uses = {}
        self.turn = 0

    @property
    def held(self):
        return {block for queue in self.lists for block in queue}

    def ask(self, ids, now=0.0):
        self.now, self.turn = now, self.turn + 1
        self.fresh = [[] for _ in self.lists]
        self.expire()
        path = [tuple(ids[: n + 1]) for n in range(len(ids))]
        hit = 0
        while hit < len(path) and path[hit] in self.held:
            hit += 1
        for block in reversed(path[:hit]):
            self.use(block)
        for block in path[hit:]:
            self.want(block)
            if len(self.held) >= self.capacity and not self.evict(path):
                break
            self.uses[block] = [(self.turn, now)]
            self.add(block)
        return hit

    def ends(self, path=()):
        held = self.held
        inner = {block[:-1] for block in held}
        return [b for b in held if b not in inner and b not in path]

    def use(self, block):
        self.uses[block].append((self.turn, self.now))
        self.lists[0].remove(block)
        self.lists[0].append(block)
        self.fresh[0].append(block)

    def want(self, block):
        pass

    def add(self, block, queue=0):
        """Older than all that the request has added to the queue so far."""
        at = min((self.lists[queue].index(b) for b in self.fresh[queue]),
                 default=len(self.lists[queue]))  # fmt: skip
        self.lists[queue].insert(at, block)
        self.fresh[queue].append(block)

    def again(self, block, queue):
        """To the new end of a queue."""
        for n in range(self.count):
            if block in self.lists[n]:
                self.lists[n].remove(block)
            if block in self.fresh[n]:
                self.fresh[n].remove(block)
        self.lists[queue].append(block)
        self.fresh[queue].append(block)

    def evict(self, path):
        ends = self.ends(path)
        for block in self.lists[0]:
            if block in ends:
                self.drop(block)
                return True
        return False

    def drop(self, block):
        for n in range(self.count):
            if block in self.lists[n]:
                self.lists[n].remove(block)
            if block in self.fresh[n]:
                self.fresh[n].remove(block)
        del self.uses[block]

    def expire(self):
        pass

    def age(self, block):
        return self.uses[block][-1][0], -len(block)


class SlowLfu(Slow):
    half_life = 1

    def evict(self, path):
        ends = self.ends(path)
        if ends:
            count = lambda b: sum(2 ** (t / self.half_life) for t, _ in self.uses[b])  # noqa: E731
            self.drop(min(ends, key=lambda b: (count(b), self.age(b))))
        return bool(ends)


class SlowGdsf(Slow):
    tokens = 4

    def __init__(self, capacity):
        super().__init__(capacity)
        self.level, self.base = 0.0, {}

    def add(self, block, queue=0):
        super().add(block, queue)
        self.base[block] = self.level

    def use(self, block):
        super().use(block)
        self.base[block] = self.level

    def worth(self, block):
        context = (len(block) - 0.5) * self.tokens
        return self.base[block] + len(self.uses[block]) * (1 + context / 131_072)

    def evict(self, path):
        ends = self.ends(path)
        if ends:
            least = min(ends, key=lambda b: (self.worth(b), self.age(b)))
            self.level = max(self.level, self.worth(least))
            self.drop(least)
        return bool(ends)


class SlowPredicted(Slow):
    first = 3.0

    def until(self, block):
        times = [now for _, now in self.uses[block]]
        gaps = [b - a for a, b in pairwise(times)]
        if not gaps:
            return times[-1] + self.first
        mean = gaps[0]
        for gap in gaps[1:]:
            mean += 0.5 * (gap - mean)
        return times[-1] + 2 * mean

    def evict(self, path):
        ends = self.ends(path)
        if ends:
            self.drop(min(ends, key=lambda b: (self.until(b), self.age(b))))
        return bool(ends)

    def expire(self):
        while gone := [b for b in self.ends() if self.until(b) < self.now]:
            for block in gone:
                self.drop(block)


class SlowSieve(Slow):
    """The hand's rounds are lists: what it is still to look at, and what it has passed."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.round, self.passed, self.marked = [], [], set()

    def use(self, block):
        self.uses[block].append((self.turn, self.now))
        self.marked.add(block)

    def add(self, block, queue=0):
        super().add(block, queue)
        self.round.append((self.turn, -len(block), block))

    def drop(self, block):
        super().drop(block)
        self.round = [r for r in self.round if r[2] != block]
        self.passed = [r for r in self.passed if r[2] != block]
        self.marked.discard(block)

    def evict(self, path):
        ends = self.ends(path)
        if not ends:
            return False
        while True:
            ahead = sorted(r for r in self.round if r[2] in ends)
            if not ahead:  # the end of the round; what no hand could take waits for no other
                self.round, self.passed = self.round + self.passed, []
                waiting = {r[2] for r in self.round}
                assert waiting == self.held
                continue
            found = ahead[0]
            if found[2] not in self.marked:
                self.drop(found[2])
                return True
            self.marked.discard(found[2])
            self.round.remove(found)
            self.passed.append(found)


class SlowS3Fifo(Slow):
    count = 2

    def __init__(self, capacity):
        super().__init__(capacity)
        self.small = max(1, round(0.1 * capacity))
        self.ghost, self.hits = [], {}

    def use(self, block):
        self.uses[block].append((self.turn, self.now))
        self.hits[block] = min(3, self.hits[block] + 1)

    def add(self, block, queue=0):
        known = block in self.ghost
        if known:
            self.ghost.remove(block)
        super().add(block, 1 if known else 0)
        self.hits[block] = 0

    def evict(self, path):
        while ends := self.ends(path):
            small, main = self.lists
            order = [0, 1] if len(small) >= self.small or not main else [1, 0]
            queue, block = next((q, b) for q in order for b in self.lists[q] if b in ends)
            if queue == 0 and self.hits[block] >= 2:
                self.hits[block] = 0
            elif queue == 1 and self.hits[block]:
                self.hits[block] -= 1
            else:
                self.drop(block)
                if queue == 0:
                    self.ghost.append(block)
                    self.ghost = self.ghost[-max(1, self.capacity - self.small) :]
                return True
            self.again(block, 1)
        return False


class SlowArc(Slow):
    count = 2

    def __init__(self, capacity):
        super().__init__(capacity)
        self.target, self.ghosts, self.wants_again = 0.0, [[], []], False

    def use(self, block):
        self.uses[block].append((self.turn, self.now))
        self.again(block, 1)

    def want(self, block):
        one, two = self.ghosts
        self.wants_again = block in two
        if block in one:
            self.target = min(self.capacity, self.target + max(1, len(two) / len(one)))
        elif block in two:
            self.target = max(0, self.target - max(1, len(one) / len(two)))

    def add(self, block, queue=0):
        known = any(block in ghost for ghost in self.ghosts)
        self.ghosts = [[b for b in ghost if b != block] for ghost in self.ghosts]
        super().add(block, 1 if known else 0)
        self.trim()

    def evict(self, path):
        ends, once = self.ends(path), len(self.lists[0])
        if not ends:
            return False
        over = once > self.target or (self.wants_again and once == self.target)
        order = [0, 1] if once and over else [1, 0]
        queue, block = next((q, b) for q in order for b in self.lists[q] if b in ends)
        self.drop(block)
        self.ghosts[queue].append(block)
        self.trim()
        return True

    def trim(self):
        one, two = self.ghosts
        while one and len(self.lists[0]) + len(one) > self.capacity:
            one.pop(0)
        while two and len(self.held) + len(one) + len(two) > 2 * self.capacity:
            two.pop(0)


SLOW = {
    "lfu:1": SlowLfu,
    "gdsf": SlowGdsf,
    "predict:3": SlowPredicted,
    "sieve": SlowSieve,
    "s3fifo": SlowS3Fifo,
    "arc": SlowArc,
}
