"""What one step computes: (new tokens, past tokens) of every request in the batch.

Ragged sums (visible window keys, compressed entries, top-k picks of every query) are exact and in
closed form, so one node of the graph serves a batch of any mix. A query at position t (0-indexed)
sees min(t+1, window) raw keys and (t+1)//ratio compressed entries, itself included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.basis.errors import InputError

# DSpark drafts at most 8 tokens; the token that was answered last is computed with them.
MOST_VERIFIED = 9


def is_in_prompt(new: int, past: int) -> bool:
    """Whether a request's new tokens are those of a prompt, and no drafts to be verified."""
    return new > MOST_VERIFIED or (new > 1 and past < new)


@dataclass(frozen=True, slots=True)
class StepShape:
    """The requests of one step, in packed order. `requests[i]` is (new, past) tokens."""

    requests: tuple[tuple[int, int], ...]
    _counts: tuple[tuple[tuple[int, int], int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.requests:
            raise InputError("a step needs at least one request, but none was given")
        counts = Counter(self.requests)
        for new, past in counts:
            if new < 1 or past < 0:
                raise InputError(
                    f"a request of a step needs new tokens >= 1 and past tokens >= 0, "
                    f"but new = {new} and past = {past} were given"
                )
        object.__setattr__(self, "_counts", tuple(counts.items()))

    @classmethod
    def uniform(cls, batch: int, new: int, past: int) -> StepShape:
        """A batch of equal requests."""
        if batch < 1:
            raise InputError(f"batch must be at least 1, but {batch} was given")
        return cls(((new, past),) * batch)

    def total(self, term: Callable[[int, int], int]) -> int:
        """Sum of term(new, past) over the requests."""
        return sum(term(new, past) * count for (new, past), count in self._counts)

    def ordered_total(self, term: Callable[[int, int], float]) -> float:
        """Sum of a term with fractions, added up in the order of the requests."""
        terms = {request: term(*request) for request, _ in self._counts}
        total = 0.0
        for request in self.requests:
            total += terms[request]
        return total

    @property
    def batch(self) -> int:
        """Requests in the step."""
        return len(self.requests)

    @property
    def tokens(self) -> int:
        """New tokens of all requests: the packed rows."""
        return self.total(lambda new, _: new)

    def window_pairs(self, window: int) -> int:
        """Sum over queries of min(t+1, window)."""
        return self._difference(lambda n: capped_sum(n, 1, window))

    def window_past_rows(self, window: int) -> int:
        """Raw keys of earlier steps that a chunk still needs: min(past, window-1) a request."""
        return self.total(lambda _, past: min(past, window - 1))

    def window_written_rows(self, window: int) -> int:
        """Rows of the chunk that survive in the ring: min(new, window) a request."""
        return self.total(lambda new, _: min(new, window))

    def entry_pairs(self, ratio: int) -> int:
        """Sum over queries of the visible compressed entries (t+1)//ratio."""
        return self._difference(lambda n: floor_sum(n, ratio))

    def picked_pairs(self, ratio: int, top_k: int) -> int:
        """Sum over queries of min((t+1)//ratio, top_k)."""
        return self._difference(lambda n: capped_sum(n, ratio, top_k))

    def emitted(self, ratio: int) -> int:
        """Compressed entries that the step completes."""
        return self._difference(lambda n: n // ratio)

    def entries(self, ratio: int) -> int:
        """Compressed entries that the requests hold after the step."""
        return self.total(lambda new, past: (new + past) // ratio)

    def _difference(self, prefix_sum: Callable[[int], int]) -> int:
        return self.total(lambda new, past: prefix_sum(past + new) - prefix_sum(past))

    def split(self, parts: int) -> StepShape:
        """The share with the most requests when they are dealt to `parts` ranks in turn."""
        return self if parts == 1 else StepShape(self.requests[::parts])


def floor_sum(n: int, ratio: int) -> int:
    """Sum of u//ratio for u = 1..n: ratio q(q-1)/2 + q(r+1) with n = q ratio + r."""
    q, r = divmod(n, ratio)
    return ratio * q * (q - 1) // 2 + q * (r + 1)


def capped_sum(n: int, ratio: int, cap: int) -> int:
    """Sum of min(u//ratio, cap) for u = 1..n."""
    knee = min(n, ratio * cap)
    return floor_sum(knee, ratio) + cap * (n - knee)
