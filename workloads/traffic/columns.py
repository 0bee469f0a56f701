"""Any CSV or JSONL, by the names of its columns: `time=ts:ms,input=prompt_len,output=gen_len`.

Parts: `time` (of arrival), `wait` (between the reply before in the session and this request) and
`wait_after` (between this request's reply and the next one) with a unit s, ms, us or ns behind a
colon (s if none), `input`, `output`, `session`, `cached` (tokens that the source found cached),
`tenant` (whose prefixes nobody else may hit) and `ids` (a list of block ids; in CSV with blanks
between them). Keys within objects of JSONL are written with dots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError, InputError, unknown_name
from workloads.traffic.csv_table import csv_table
from workloads.traffic.draft import MISSING, Draft, counted
from workloads.traffic.fields import items, text, time_ns, tokens
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME
from workloads.traffic.trace_file import TraceFile

_TIMES = ("time", "wait", "wait_after")
PARTS = (*_TIMES, "input", "output", "session", "cached", "ids", "tenant")
_UNITS = ("s", "ms", "us", "ns")
BLOCK_TOKENS = 16
_LEAST_WALL_CLOCK_NS = 10**18


@dataclass(frozen=True, slots=True)
class Named:
    """A column and the unit of its times."""

    name: str
    unit: str = "s"


def parse_columns(words: str) -> dict[str, Named]:
    """Columns by part; raises InputError for what is not known, given twice, or missing."""
    found: dict[str, Named] = {}
    for word in words.split(","):
        part, equals, name = (piece.strip() for piece in word.partition("="))
        if part not in PARTS:
            raise InputError(unknown_name("part of --columns", part, PARTS))
        if not equals or not name:
            raise InputError(f"--columns {word.strip()!r}: write a part and a column, {part}=NAME")
        if part in found:
            raise InputError(f"--columns names {part} twice: {found[part].name!r} and {name!r}")
        found[part] = _named(part, name)
    if "wait" in found and "wait_after" in found:
        raise InputError(
            "--columns names wait and wait_after, which say the same: give one of them"
        )
    missing = [part for part in ("input", "output") if part not in found]
    if missing:
        raise InputError(
            f"--columns says nothing of {' and '.join(missing)}: lengths of prompt and reply are "
            "needed, such as input=prompt_tokens,output=reply_tokens"
        )
    return found


def _named(part: str, name: str) -> Named:
    own, colon, unit = name.rpartition(":")
    if part not in _TIMES or not colon:
        return Named(name)
    if unit not in _UNITS:
        raise InputError(unknown_name(f"unit of {part} in --columns", unit, _UNITS))
    return Named(own, unit)


def read_columns(file: TraceFile, options: ReaderOptions) -> Draft:
    """A request a row; rows of one session follow each other where they have waits.

    A row with a wait follows the row before of its session by that wait; one with a time arrives
    then. Times of the wall clock are counted from the earliest.
    """
    columns = parse_columns(options.columns or "")
    draft = Draft(file, "columns")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    if "ids" in columns and options.block_tokens is None:
        raise InputError(
            f"--columns names ids ({columns['ids'].name!r}), but not how many tokens a block has: "
            "give --block-tokens"
        )
    sessions: dict[int, _Session] = {}
    tenants: dict[str, int] = {}
    apart: dict[tuple[int, int], int] = {}
    for line, row in _rows(file, columns):
        _add(draft, line, row, columns, sessions, tenants, apart)
    draft.tenants = tuple(tenants)
    if tenants:
        draft.notes.append(f"{counted(len(tenants), 'tenant')}: none hits the prefix of another")
    _from_earliest(draft)
    named = ", ".join(f"{part} is {column.name}" for part, column in columns.items())
    draft.notes.append(f"columns as they were named: {named}")
    return draft


@dataclass(slots=True)
class _Session:
    """The last request of a session, and the wait behind it or -1."""

    last: int = NO_REQUEST
    wait_ns: int = -1


def _add(
    draft: Draft,
    line: int,
    row: dict[str, Any],
    columns: dict[str, Named],
    sessions: dict[int, _Session],
    tenants: dict[str, int],
    apart: dict[tuple[int, int], int],
) -> None:
    """`apart`: numbers of block ids by tenant, where there are tenants."""
    file = draft.file

    def part(name: str, read: Any) -> Any:
        if name not in columns or row.get(columns[name].name) is None:
            return None
        more = (columns[name].unit,) if name in _TIMES else ()
        return read(file, line, row, columns[name].name, *more)

    length = tokens(file, line, row, columns["input"].name)
    name, tenant = part("session", text), -1
    if "tenant" in columns:
        tenant = tenants.setdefault(part("tenant", text) or "", len(tenants))
        name = None if name is None else f"{tenant}/{name}"
    session = draft.session_number(("line", line) if name is None else name)
    before = sessions.setdefault(session, _Session())
    own, after = part("wait", time_ns), part("wait_after", time_ns)
    wait = before.wait_ns if own is None else own
    follows = wait >= 0 and before.last != NO_REQUEST
    ids = part("ids", items)
    number = draft.add(
        line,
        length,
        tokens(file, line, row, columns["output"].name),
        arrival_ns=NO_TIME if follows else _time(file, line, row, columns),
        delay_ns=wait if follows else 0,
        session=session,
        parent=before.last,
        observed=part("cached", tokens),
        id_tokens=-1 if ids is None else length,
        tenant=tenant,
    )
    if ids and tenant >= 0:
        ids = [apart.setdefault((tenant, block), len(apart)) for block in ids]
    before.last, before.wait_ns = number, -1 if after is None else after
    draft.ids.add_list(ids or ())


def _time(file: TraceFile, line: int, row: dict[str, Any], columns: dict[str, Named]) -> int | None:
    """An arrival, perhaps of the wall clock, whose numbers are larger than those of any trace."""
    column = columns.get("time")
    if column is None or row.get(column.name) is None:
        return None
    value = row[column.name]
    whole = 10 ** (9 - 3 * _UNITS.index(column.unit))
    if type(value) in (int, float) and _LEAST_WALL_CLOCK_NS <= value * whole < 6e18:
        seconds = int(value)
        return seconds * whole + round((value - seconds) * whole)
    return time_ns(file, line, row, column.name, column.unit)


def _from_earliest(draft: Draft) -> None:
    timed = [at for at in draft.arrival_ns if at >= 0]
    start = min(timed, default=0)
    if start >= _LEAST_WALL_CLOCK_NS:
        draft.arrival_ns = [at - start if at >= 0 else at for at in draft.arrival_ns]
        draft.notes.append(f"times are counted from {np.datetime64(start, 'ns')} UTC")
    missing = sum(at == MISSING for at in draft.arrival_ns)
    if missing and missing == len(draft):
        draft.arrival_ns = [0 if at == MISSING else at for at in draft.arrival_ns]
        draft.notes.append(f"{counted(missing, 'request')} without a column of times, all at 0 s")


def _rows(file: TraceFile, columns: dict[str, Named]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows as objects of numbers and texts, whichever the file is."""
    names = {column.name: part for part, column in columns.items()}
    if file.first_rows:
        for line, row in file.json_rows():
            yield line, {name: _within(row, name) for name in names}
        return
    table = csv_table(file, tuple(names))
    cells = [table[name] for name in names]
    for place, values in enumerate(zip(*cells, strict=True)):
        line = int(table.line[place])
        yield (
            line,
            {
                name: _cell(file, line, name, cell, part)
                for (name, part), cell in zip(names.items(), values, strict=True)
            },
        )


def _within(row: dict[str, Any], name: str) -> Any:
    """The value of a key, or of keys within each other with dots between."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        value = value.get(key) if type(value) is dict else None
    return value


def _cell(file: TraceFile, line: int, name: str, cell: str, part: str) -> Any:
    """A cell of a CSV as JSON would have it; None where it is empty."""
    if not cell.strip():
        return None
    if part in ("session", "tenant"):
        return cell
    try:
        if part == "ids":
            return [int(piece) for piece in cell.strip("[] ").replace(",", " ").split()]
        return int(cell) if cell.strip().lstrip("-").isdecimal() else float(cell)
    except ValueError as error:
        allowed = "whole numbers with blanks between them" if part == "ids" else "a number"
        raise FileFormatError(
            f"{file.at(line)}: {name!r} is {cell!r:.60}, expected {allowed}"
        ) from error


def _never(file: TraceFile) -> bool:
    return False


# Only for who names the columns; no file is told to be of it.
COLUMNS = Reader(
    "any CSV or JSONL whose columns are named", _never, read_columns, frozenset(), "as named"
)
