"""One tier whose pages and windows share its bytes, block by block and without an index.

Pages are prefixes as tuples of ids, windows (prefix, token). What was used longest ago leaves
first, of pages only those that nothing held goes on from.
"""


class SlowTier:
    """Least recently used over both kinds; `clock` counts uses."""

    def __init__(self, capacity, page_bytes, window_bytes):
        self.capacity, self.page, self.window = capacity, page_bytes, window_bytes
        self.pages, self.windows, self.clock = {}, {}, 0

    @property
    def used(self):
        return len(self.pages) * self.page + len(self.windows) * self.window

    def run(self, ids):
        """Leading pages held."""
        count = 0
        while count < len(ids) and tuple(ids[: count + 1]) in self.pages:
            count += 1
        return count

    def last_window(self, ids, limit, block):
        """Largest window of a prompt up to `limit` tokens."""
        found = [t for (prefix, t) in self.windows
                 if t <= limit and tuple(ids[: -(-t // block)]) == prefix]  # fmt: skip
        return max(found, default=0)

    def touch_pages(self, ids, count):
        self.clock += 1
        for n in range(count, 0, -1):
            if tuple(ids[:n]) in self.pages:
                self.pages[tuple(ids[:n])] = (self.clock, -n)

    def touch_window(self, ids, token, block):
        key = (tuple(ids[: -(-token // block)]), token)
        if key in self.windows:
            self.clock += 1
            self.windows[key] = (self.clock, 0)
        return key in self.windows

    def store_pages(self, ids):
        self.touch_pages(ids, len(ids))
        for n in range(1, len(ids) + 1):
            key = tuple(ids[:n])
            if key not in self.pages:
                if not self.make(self.page, ids):
                    return
                self.pages[key] = (self.clock, -n)

    def store_window(self, ids, token, block):
        if self.touch_window(ids, token, block) or not self.make(self.window, ids):
            return
        self.clock += 1
        self.windows[tuple(ids[: -(-token // block)]), token] = (self.clock, 0)

    def make(self, nbytes, ids):
        """Free so many bytes; pages of the prompt at work stay."""
        own = {tuple(ids[:n]) for n in range(1, len(ids) + 1)}
        while self.capacity - self.used < nbytes:
            ends = {p: use for p, use in self.pages.items()
                    if p not in own and not any(q[:-1] == p for q in self.pages)}  # fmt: skip
            most = [(use, 0, p) for p, use in ends.items()]
            most += [(use, 1, w) for w, use in self.windows.items()]
            if not most:
                return False
            _, kind, key = min(most)
            del (self.windows if kind else self.pages)[key]
        return True
