"""Which replica takes a request; one line in a dictionary a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.serve.live_request import LiveRequest
from simulator.serve.replica import Replica

Choice = Callable[[Sequence[Replica], LiveRequest, int], int]


def round_robin(replicas: Sequence[Replica], _request: LiveRequest, turn: int) -> int:
    """In turn."""
    return turn % len(replicas)


def least_loaded(replicas: Sequence[Replica], _request: LiveRequest, _turn: int) -> int:
    """The one with the fewest prompt tokens waiting, then the fewest requests."""
    return min(
        range(len(replicas)),
        key=lambda i: (replicas[i].outstanding_tokens, replicas[i].load, i),
    )


def prefix_aware(replicas: Sequence[Replica], request: LiveRequest, turn: int) -> int:
    """The one that holds most of the prompt, unless it is far busier than the least loaded.

    Assumes: a hit is worth waiting for as many prompt tokens as it saves.
    """
    waits = [replica.outstanding_tokens for replica in replicas]
    gains = [replica.prefixes.peek(request) for replica in replicas]
    return min(range(len(replicas)), key=lambda i: (waits[i] - gains[i], replicas[i].load, i))


ROUTES: dict[str, Choice] = {
    "round-robin": round_robin,
    "least-loaded": least_loaded,
    "prefix-aware": prefix_aware,
}
