"""Rows of a trace as a reader found them, before they are checked and put in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.trace import NO_REQUEST, NO_TIME, SESSION_STRIDE, Ints
from workloads.traffic.trace_file import TraceFile

# Lists wait until so many ids are together: numpy calls are few and memory stays small.
_PENDING_IDS = 1 << 20
_LARGEST = 1 << 62

Where = Callable[[int], str]


class IdRuns:
    """Collects the ids of request after request; `where(i)` names the place of request i.

    `offset` of an `add` call moves private ids apart; such ids must lie below SESSION_STRIDE.
    Ids that do not fit (hashes of 64 bits, negative ones) are numbered anew, `renumbered` of them.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._lists: list[Sequence[int]] = []
        self._offsets: list[int] = []
        self._private: list[bool] = []
        self._pending = 0
        self._parts: list[tuple[Ints, Ints, Ints]] = []  # runs per request, first ids, counts
        self._numbers: dict[int, int] = {}
        self.done = 0

    @property
    def renumbered(self) -> int:
        """Distinct ids that were numbered anew."""
        return len(self._numbers)

    def add_list(self, ids: Sequence[int], offset: int = 0, private: bool = False) -> None:
        """One request's ids, each written out."""
        self._lists.append(ids)
        self._offsets.append(offset)
        self._private.append(private)
        self._pending += len(ids)
        if self._pending > _PENDING_IDS:
            self._flush()

    def add_ranges(self, requests: Sequence[Any], offset: int = 0, private: bool = False) -> None:
        """Ids of several requests, each a list of inclusive [first, last] pairs."""
        self._flush()
        counts, pairs = self._pairs(requests)
        first, count = pairs[:, 0], pairs[:, 1] - pairs[:, 0] + 1
        owner = np.repeat(np.arange(len(requests)), counts)
        limit = SESSION_STRIDE if private else _LARGEST
        bad = (count < 1) | (first < 0) | (pairs[:, 1] >= limit)
        if bad.any():
            place = int(np.argmax(bad))
            raise FileFormatError(
                f"{self._where(self.done + int(owner[place]))}: id range {pairs[place].tolist()}, "
                f"expected [first, last] with 0 <= first <= last < {limit:,}"
            )
        self._take(counts, first + offset, count)

    def finish(self) -> tuple[Ints, Ints, Ints]:
        """`run_offsets` [N + 1], `run_first`, `run_count`; the collector is empty afterwards."""
        self._flush()
        parts, self._parts = self._parts, []
        none = np.empty(0, dtype=np.int64)
        runs = np.concatenate([part[0] for part in parts]) if parts else none
        first = np.concatenate([part[1] for part in parts]) if parts else none
        count = np.concatenate([part[2] for part in parts]) if parts else none
        return np.concatenate([[0], np.cumsum(runs, dtype=np.int64)]), first, count

    def _flush(self) -> None:
        """Turn waiting lists into runs: a run ends where the id does not go up by one."""
        lists, self._lists = self._lists, []
        offsets, self._offsets = self._offsets, []
        private, self._private = self._private, []
        self._pending = 0
        if not lists:
            return
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        flat = self._flat(lists, private)
        ends = np.cumsum(lengths)
        breaks = np.ones(len(flat), dtype=bool)
        breaks[1:] = np.diff(flat) != 1
        breaks[(ends - lengths)[lengths > 0]] = True
        starts = np.flatnonzero(breaks)
        counts = np.diff(starts, append=len(flat))
        owner = np.searchsorted(ends, starts, side="right")
        runs = np.bincount(owner, minlength=len(lists)).astype(np.int64)
        moved = flat[starts] + np.asarray(offsets, dtype=np.int64)[owner]
        self._take(runs, moved, counts)

    def _take(self, runs: Ints, first: Ints, count: Ints) -> None:
        self._parts.append((runs, first, count))
        self.done += len(runs)

    def _flat(self, lists: list[Sequence[int]], private: list[bool]) -> Ints:
        try:
            flat = np.array(list(chain.from_iterable(lists)))
        except (ValueError, OverflowError, TypeError):
            flat = np.empty(0, dtype=object)
            self._refuse(lists)
        if not len(flat):
            return np.empty(0, dtype=np.int64)
        if flat.dtype != np.int64:
            self._refuse(lists)
            return self._renumber(lists)
        if any(private) and (flat.min() < 0 or flat.max() >= SESSION_STRIDE):
            place = next(i for i, ids in enumerate(lists) if ids and not _small(ids))
            raise FileFormatError(
                f"{self._where(self.done + place)}: a private id outside 0 to {SESSION_STRIDE:,}; "
                "ids of a session are expected to count up from a small number"
            )
        if not any(private) and (flat.min() < 0 or flat.max() >= _LARGEST or self._numbers):
            return self._renumber(lists)
        return flat

    def _refuse(self, lists: list[Sequence[int]]) -> None:
        """Name the first id that is no whole number."""
        for place, ids in enumerate(lists):
            for item in ids:
                if type(item) is not int:
                    raise FileFormatError(
                        f"{self._where(self.done + place)}: block id {item!r} is "
                        f"{type(item).__name__}, expected a whole number"
                    )

    def _renumber(self, lists: list[Sequence[int]]) -> Ints:
        """Odd ids in order of appearance above _LARGEST; those that fit stay."""
        numbers = self._numbers
        return np.array(
            [
                item if 0 <= item < _LARGEST else _LARGEST + numbers.setdefault(item, len(numbers))
                for item in chain.from_iterable(lists)
            ],
            dtype=np.int64,
        )

    def _pairs(self, requests: Sequence[Any]) -> tuple[Ints, Ints]:
        counts = np.fromiter(map(len, requests), dtype=np.int64, count=len(requests))
        flat = list(chain.from_iterable(requests))
        try:
            pairs = np.array(flat) if flat else np.empty((0, 2), dtype=np.int64)
        except (ValueError, OverflowError):
            pairs = np.empty(0, dtype=object)
        if pairs.dtype == np.int64 and pairs.shape == (len(flat), 2):
            return counts, pairs
        for place, ranges in enumerate(requests):
            for pair in ranges:
                if type(pair) is not list or list(map(type, pair)) != [int, int]:
                    raise FileFormatError(
                        f"{self._where(self.done + place)}: id range {pair!r}, expected "
                        "[first, last] in whole numbers"
                    )
        place = max(range(len(requests)), key=lambda i: max(map(max, requests[i]), default=0))
        raise FileFormatError(
            f"{self._where(self.done + place)}: an id range above {_LARGEST:,}, too large"
        )


def _small(ids: Sequence[int]) -> bool:
    return min(ids) >= 0 and max(ids) < SESSION_STRIDE


# An arrival that the source left out, unlike NO_TIME, which says that a parent decides.
MISSING = NO_TIME - 1


class Draft:
    """Columns that grow row by row; `line[i]` is where request i came from.

    `block_tokens` is the size of the file or of its format; `fixed_block` if the file or the user
    stated it. `sort` puts requests in order of arrival, with a note
    unless the source never had one order (`sort_quietly`). `notes` are sentences of the
    reader, `doubts` those of repairs that `strict` refuses.
    `id_tokens[i]`: tokens that the ids of request i cover (its input, unless the reader says else),
    and -1 where it has none. `start_ns[i]`: recorded start from the session's, or -1.
    `tenant[i]`: place in `tenants`, or -1.
    """

    def __init__(self, file: TraceFile, format: str, *, sort: bool = True) -> None:
        self.file = file
        self.format = format
        self.sort = sort
        self.sort_quietly = False
        self.block_tokens = 0
        self.fixed_block = False
        self.scope = ""
        self.notes: list[str] = []
        self.doubts: list[str] = []
        self.line: list[int] = []
        self.arrival_ns: list[int] = []
        self.delay_ns: list[int] = []
        self.input_tokens: list[int] = []
        self.output_tokens: list[int] = []
        self.session: list[int] = []
        self.parent: list[int] = []
        self.observed: list[int] = []
        self.start_ns: list[int] = []
        self.tenant: list[int] = []
        self.tenants: tuple[str, ...] = ()
        self.id_tokens: list[int] = []
        self.ids = IdRuns(self.at)
        self.packed: tuple[Ints, Ints, Ints] | None = None
        self._sessions: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self.line)

    def at(self, request: int) -> str:
        """`file:line` of a request."""
        return self.file.at(self.line[request])

    def use_blocks(self, given: int | None, default: int, stated: int | None = None) -> None:
        """Block size: the user's, else the file's, else the format's."""
        chosen = given or stated
        self.block_tokens, self.fixed_block = chosen or default, chosen is not None

    @property
    def sessions(self) -> int:
        """Sessions named so far."""
        return len(self._sessions)

    def session_number(self, name: Hashable) -> int:
        """Dense number of a session by its name, in order of appearance."""
        return self._sessions.setdefault(name, len(self._sessions))

    def add(
        self,
        line: int,
        input_tokens: int,
        output_tokens: int,
        *,
        arrival_ns: int | None,
        session: int,
        delay_ns: int = 0,
        parent: int = NO_REQUEST,
        observed: int | None = None,
        id_tokens: int = -1,
        start_ns: int = -1,
        tenant: int = -1,
    ) -> int:
        """Append a request; returns its number. `arrival_ns` None is a missing time.

        Ids are given to `ids`, one call a request, in the same order, if any request has ids.
        """
        self.line.append(line)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        self.arrival_ns.append(MISSING if arrival_ns is None else arrival_ns)
        self.delay_ns.append(delay_ns)
        self.session.append(session)
        self.parent.append(parent)
        self.observed.append(-1 if observed is None else observed)
        self.id_tokens.append(id_tokens)
        self.start_ns.append(start_ns)
        self.tenant.append(tenant)
        return len(self.line) - 1

    def fill(
        self,
        line: Ints,
        input_tokens: Ints,
        output_tokens: Ints,
        *,
        arrival_ns: Ints,
        session: Ints | None = None,
        parent: Ints | None = None,
        observed: Ints | None = None,
    ) -> None:
        """All requests of a table at once, without ids; None for `session` gives each its own."""
        none = np.full(len(line), -1)
        columns = {
            "line": line,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "arrival_ns": arrival_ns,
            "delay_ns": np.zeros(len(line), dtype=np.int64),
            "session": np.arange(len(line)) if session is None else session,
            "parent": none if parent is None else parent,
            "observed": none if observed is None else observed,
            "id_tokens": none,
            "start_ns": none,
            "tenant": none,
        }
        for name, values in columns.items():
            setattr(self, name, values)


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,234 rows`."""
    plural = noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {plural}"
