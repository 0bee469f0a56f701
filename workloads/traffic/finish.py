"""From a draft to a trace: refused, dropped, sorted or set, each with a count and a note."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import FileFormatError
from workloads.traffic.arrival_steps import spread_arrivals
from workloads.traffic.block_counts import fit_blocks
from workloads.traffic.draft import MISSING, Draft, counted
from workloads.traffic.reader_options import KEEP, REFUSE, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Ints, Trace

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class _Columns:
    """Columns as arrays while they are put in order."""

    line: Ints
    arrival_ns: Ints
    delay_ns: Ints
    input_tokens: Ints
    output_tokens: Ints
    session: Ints
    parent: Ints
    observed: Ints
    start_ns: Ints
    tenant: Ints
    run_offsets: Ints
    run_first: Ints
    run_count: Ints


def finished(draft: Draft, options: ReaderOptions) -> Trace:
    """Check a draft's requests and put them in order.

    Raises FileFormatError, naming file and line, for an empty trace, ids that do not match lengths,
    inputs over the limit, and under `strict` for everything that would be repaired.
    """
    if not len(draft):
        raise FileFormatError(f"{draft.file.path}: no request in it, expected at least one")
    notes = list(draft.notes)
    _doubt(draft, options, notes, draft.doubts)
    block_tokens = _check_ids(draft, options, notes)
    columns = _columns(draft)
    _drop(columns, _unwanted(draft, columns, options, notes))
    _set_missing(draft, columns, options, notes)
    if draft.sort:
        _sort(draft, columns, options, notes)
    _scale(columns, options, notes)
    spread_arrivals(columns.arrival_ns, options.spread_seed, notes)
    observed = columns.observed if (columns.observed >= 0).any() else None
    start = columns.start_ns if (columns.start_ns >= 0).any() else None
    return Trace(
        name=draft.file.name,
        block_tokens=block_tokens,
        arrival_ns=columns.arrival_ns,
        delay_ns=columns.delay_ns,
        input_tokens=columns.input_tokens,
        output_tokens=columns.output_tokens,
        session=_dense(columns.session),
        parent=columns.parent,
        run_offsets=columns.run_offsets,
        run_first=columns.run_first,
        run_count=columns.run_count,
        observed_cached_tokens=observed,
        start_ns=start,
        tenant=columns.tenant if draft.tenants else None,
        tenants=draft.tenants,
        notes=tuple(notes),
        format=draft.format,
    )


def _doubt(draft: Draft, options: ReaderOptions, notes: list[str], doubts: list[str]) -> None:
    """Repairs that a note states, and that `strict` refuses."""
    if doubts and options.strict:
        raise FileFormatError(
            f"{draft.file.path}: {doubts[0]}; refused as strict reading was asked for"
        )
    notes.extend(doubts)


def _check_ids(draft: Draft, options: ReaderOptions, notes: list[str]) -> int:
    """Block size, 0 without ids; every request with ids has as many as its length asks for."""
    covered = np.asarray(draft.id_tokens, dtype=np.int64)
    having = np.flatnonzero(covered >= 0)
    if not len(having):
        notes.append("no block ids: prefix hits between requests cannot be known")
        return 0
    if len(having) < len(draft):
        first = int(np.argmax(covered < 0))
        lacking = counted(len(draft) - len(having), "request")
        doubt = f"{lacking} without block ids, the first at {draft.at(first)}: they share nothing"
        _doubt(draft, options, notes, [doubt])
    offsets, first_ids, counts = draft.ids.finish()
    ids = _per_request(offsets, counts)[having]
    fit = fit_blocks(
        covered[having],
        ids,
        draft.block_tokens,
        draft.fixed_block,
        lambda i: draft.at(int(having[i])),
    )
    notes.append(fit.note)
    if draft.ids.renumbered:
        notes.append(
            f"{counted(draft.ids.renumbered, 'id')} too large or negative, numbered anew in order "
            "of appearance"
        )
    draft.packed = (offsets, first_ids, counts)
    return fit.block_tokens


def _per_request(offsets: Ints, counts: Ints) -> Ints:
    sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def _columns(draft: Draft) -> _Columns:
    def array(values: list[int]) -> Ints:
        return np.asarray(values, dtype=np.int64)

    offsets, first, count = draft.packed or (
        np.zeros(len(draft) + 1, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int64),
    )
    return _Columns(
        line=array(draft.line),
        arrival_ns=array(draft.arrival_ns),
        delay_ns=array(draft.delay_ns),
        input_tokens=array(draft.input_tokens),
        output_tokens=array(draft.output_tokens),
        session=array(draft.session),
        parent=array(draft.parent),
        observed=array(draft.observed),
        start_ns=array(draft.start_ns),
        tenant=array(draft.tenant),
        run_offsets=offsets,
        run_first=first,
        run_count=count,
    )


def _unwanted(draft: Draft, columns: _Columns, options: ReaderOptions, notes: list[str]) -> Flags:
    """Requests that are dropped: over the limit, without input, without output if so asked."""
    unwanted = np.zeros(len(columns.line), dtype=bool)
    limit = options.max_input_tokens
    if limit is not None:
        over = columns.input_tokens > limit
        if over.any() and options.over_limit == REFUSE:
            place = int(np.argmax(over))
            given = int(columns.input_tokens[place])
            raise FileFormatError(
                f"{draft.at(place)}: input of {given:,} tokens, {given - limit:,} over the limit "
                f"of {limit:,}, as are {int(over.sum()):,} of {len(over):,} requests; raise the "
                "limit (--max-input-tokens) or have them dropped"
            )
        if over.any():
            notes.append(f"dropped {counted(int(over.sum()), 'request')} over {limit:,} tokens")
        unwanted |= over
    empty = columns.input_tokens == 0
    if empty.any():
        text = f"dropped {counted(int(empty.sum()), 'request')} without input tokens"
        _doubt(draft, options, notes, [f"{text}, the first at {draft.at(int(np.argmax(empty)))}"])
        unwanted |= empty
    return unwanted | _without_output(draft, columns, options, notes)


def _without_output(
    draft: Draft, columns: _Columns, options: ReaderOptions, notes: list[str]
) -> Flags:
    silent = (columns.output_tokens == 0) & (columns.input_tokens > 0)
    if not silent.any():
        return silent
    what = f"{counted(int(silent.sum()), 'request')} without output tokens"
    if options.zero_output == REFUSE:
        raise FileFormatError(f"{draft.at(int(np.argmax(silent)))}: one of {what}")
    if options.zero_output == KEEP:
        notes.append(f"kept {what} (failed or prefill only)")
        return np.zeros(len(silent), dtype=bool)
    notes.append(f"dropped {what} (failed or prefill only)")
    return silent


def _drop(columns: _Columns, unwanted: Flags) -> None:
    """Leave requests out; their children follow their parents, or arrive when they did."""
    if not unwanted.any():
        return
    parent, arrival = columns.parent, columns.arrival_ns
    while True:
        orphans = np.flatnonzero((parent >= 0) & unwanted[parent] & ~unwanted)
        if not len(orphans):
            break
        lost = parent[orphans]
        first = (parent[lost] == NO_REQUEST) & (arrival[orphans] == NO_TIME)
        arrival[orphans[first]] = arrival[lost[first]]
        columns.delay_ns[orphans[first]] = 0
        parent[orphans] = parent[lost]
    _select(columns, np.flatnonzero(~unwanted))


def _select(columns: _Columns, order: Ints) -> None:
    """Take requests in a new order; parents and runs follow."""
    place = np.full(len(columns.line) + 1, NO_REQUEST, dtype=np.int64)
    place[order] = np.arange(len(order))
    starts = columns.run_offsets[:-1][order]
    lengths = (columns.run_offsets[1:] - columns.run_offsets[:-1])[order]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    runs = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    columns.parent = place[columns.parent[order]]
    columns.run_offsets = offsets
    columns.run_first = columns.run_first[runs]
    columns.run_count = columns.run_count[runs]
    for name in (
        "line", "arrival_ns", "delay_ns", "input_tokens", "output_tokens", "session", "observed",
        "start_ns", "tenant",
    ):  # fmt: skip
        setattr(columns, name, getattr(columns, name)[order])


def _set_missing(draft: Draft, columns: _Columns, options: ReaderOptions, notes: list[str]) -> None:
    missing = columns.arrival_ns == MISSING
    if missing.any():
        first = draft.file.at(int(columns.line[np.argmax(missing)]))
        many = counted(int(missing.sum()), "request")
        _doubt(draft, options, notes, [f"{many} without a time set to 0, the first at {first}"])
        columns.arrival_ns[missing] = 0


def _sort(draft: Draft, columns: _Columns, options: ReaderOptions, notes: list[str]) -> None:
    """In order of arrival; requests of the same time keep the file's order.

    A request that waits for a reply stands with the request whose reply it is.
    """
    arrival = columns.arrival_ns.copy()
    for place in np.flatnonzero(arrival == NO_TIME):
        arrival[place] = arrival[columns.parent[place]]
    latest = np.maximum.accumulate(arrival)
    early = arrival < latest
    if early.any():
        first = draft.file.at(int(columns.line[np.argmax(early)]))
        many = counted(int(early.sum()), "request")
        doubt = f"{many} earlier than a request before, the first at {first}: sorted by time"
        _doubt(draft, options, notes, [] if draft.sort_quietly else [doubt])
        _select(columns, np.argsort(arrival, kind="stable"))
        _unlink_early(columns, notes)


def _unlink_early(columns: _Columns, notes: list[str]) -> None:
    """A request that arrives before the one it follows stands on its own."""
    early = columns.parent >= np.arange(len(columns.parent))
    if early.any():
        many = counted(int(early.sum()), "request")
        notes.append(f"{many} arriving before the one they follow: not linked to it")
        columns.parent[early] = NO_REQUEST


def _scale(columns: _Columns, options: ReaderOptions, notes: list[str]) -> None:
    if options.max_delay_s is not None:
        limit = round(options.max_delay_s * 1e9)
        long = columns.delay_ns > limit
        if long.any():
            notes.append(
                f"{counted(int(long.sum()), 'wait')} cut to {options.max_delay_s:g} s, the longest "
                f"from {columns.delay_ns.max() / 1e9:,.1f} s"
            )
            columns.delay_ns = np.minimum(columns.delay_ns, limit)
    if options.slowdown != 1.0:
        timed = columns.arrival_ns >= 0
        columns.arrival_ns[timed] = np.rint(columns.arrival_ns[timed] * options.slowdown)
        columns.delay_ns = np.rint(columns.delay_ns * options.slowdown).astype(np.int64)
        started = columns.start_ns >= 0
        columns.start_ns[started] = np.rint(columns.start_ns[started] * options.slowdown)
        notes.append(f"all times multiplied by {options.slowdown:g}")


def _dense(session: Ints) -> Ints:
    """Numbers from 0 in order of appearance."""
    _, first, inverse = np.unique(session, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
