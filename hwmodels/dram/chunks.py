"""The traffic of a run: a list of chunks, each a run of bytes that is read or written as one.

A chunk counts as done with its last burst. Closed loop: a number of chunks is in flight, and a
finished one is replaced at once. Open loop: chunks come at given times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import InputError


@dataclass(frozen=True)
class Chunks:
    """Byte addresses, sizes and directions; `arrival_ps` is empty for a closed loop."""

    starts: np.ndarray
    sizes: np.ndarray
    writes: np.ndarray
    arrival_ps: np.ndarray

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.starts)

    @property
    def bursts(self) -> int:
        """Bursts of 32 bytes that the chunks touch, each burst whole."""
        return int((((self.starts + self.sizes - 1) >> 5) - (self.starts >> 5) + 1).sum())


def chunk_list(
    starts: object, sizes: object, writes: object = False, arrival_ps: object = None
) -> Chunks:
    """Chunks of given addresses, for example a kernel's; one size or direction serves all."""
    first = np.atleast_1d(np.asarray(starts, dtype=np.int64))
    count = len(first)
    bytes_each = np.broadcast_to(np.asarray(sizes, dtype=np.int64), (count,)).copy()
    written = np.broadcast_to(np.asarray(writes, dtype=bool), (count,)).astype(np.int64)
    if count == 0:
        raise InputError("the list of chunks is empty, expected at least one")
    if first.min() < 0 or bytes_each.min() < 1:
        raise InputError("a chunk begins below 0 or holds no byte, expected addresses and sizes")
    arrivals = np.empty(0, dtype=np.int64)
    if arrival_ps is not None:
        arrivals = np.asarray(arrival_ps, dtype=np.int64)
        if len(arrivals) != count or (np.diff(arrivals) < 0).any() or arrivals[0] < 0:
            raise InputError(
                f"{len(arrivals)} arrival times for {count} chunks, expected one each, in order"
            )
    return Chunks(first, bytes_each, written, arrivals)
