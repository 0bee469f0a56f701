"""Rows of a trace as a reader found them, before they are checked and put in order."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from workloads.traffic.id_runs import IdRuns
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Ints
from workloads.traffic.trace_file import TraceFile

# An arrival that the source left out, unlike NO_TIME, which says that a parent decides.
MISSING = NO_TIME - 1


class Draft:
    """Columns that grow row by row; `line[i]` is where request i came from.

    `block_tokens` is the size of the file or of its format; `fixed_block` if the file or the user
    stated it. `sort` puts requests in order of arrival, with a note
    unless the source never had one order (`sort_quietly`). `notes` are sentences of the
    reader, `doubts` those of repairs that `strict` refuses.
    `id_tokens[i]`: tokens that the ids of request i cover (its input, unless the reader says else),
    and -1 where it has none.
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
        }
        for name, values in columns.items():
            setattr(self, name, values)


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,234 rows`."""
    plural = noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {plural}"
