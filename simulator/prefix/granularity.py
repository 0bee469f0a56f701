"""Trace blocks against cache granules: what is known of a hit, and what of it can be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.basis.errors import InputError
from workloads.traffic.trace import Ints, Trace


def known_tokens(blocks: int, block_tokens: int, input_tokens: int) -> int:
    """Tokens in the first `blocks` blocks of a prompt; the last block may be partial."""
    return min(blocks * block_tokens, input_tokens)


def whole_granules(tokens: int, granule_tokens: int) -> int:
    """Tokens in whole granules."""
    return tokens // granule_tokens * granule_tokens


def rounding_note(block_tokens: int, granule_tokens: int) -> str:
    """How the two sizes round, as a sentence."""
    known = (
        f"the trace tells prefixes apart only at multiples of {block_tokens:,} tokens (and at the "
        f"end of a prompt), so that up to {block_tokens - 1:,} tokens of a shared prefix count as "
        "different"
    )
    if block_tokens == 1:
        known = "the trace tells every token of a prefix"
    if granule_tokens == 1:
        return f"{known}; the cache is taken to hit at any token."
    if block_tokens % granule_tokens == 0:
        used = (
            f"cache granules of {granule_tokens:,} tokens divide a trace block and round only the "
            "end of a prompt"
        )
    else:
        used = (
            f"a hit is cut to whole cache granules of {granule_tokens:,} tokens, which loses up to "
            f"{granule_tokens - 1:,} more"
        )
    return f"{known}; {used}."


def in_granules(trace: Trace, granule_tokens: int) -> Trace:
    """The trace in blocks of whole granules, each known by the last of the block ids in it.

    Incomplete granules have no block, so that they never hit. Raises InputError for a granule that
    is no multiple of the trace's blocks.

    Assumes: a granule is known by the last of its block ids, as ids of prefix hashes allow.
    """
    block = trace.block_tokens
    each, rest = divmod(granule_tokens, block)
    if rest or not each:
        near = max(1, round(granule_tokens / block)) * block
        raise InputError(
            f"a pool of whole granules of {granule_tokens:,} tokens cannot be counted on blocks of "
            f"{block:,}: give a multiple, nearest is {near:,}"
        )
    owner = np.repeat(np.arange(len(trace)), np.diff(trace.run_offsets))
    ends = np.cumsum(trace.run_count)
    ahead = np.concatenate([[0], ends])[trace.run_offsets[:-1]]
    begin = ends - trace.run_count - ahead[owner]  # blocks of the prompt before a run
    blocks = np.minimum(
        np.diff(np.concatenate([[0], ends])[trace.run_offsets]), trace.input_tokens // block
    )
    # Granules that end within a run: the last block of granule k is block (k + 1) each - 1.
    low = begin // each
    high = np.minimum(begin + trace.run_count, blocks[owner]) // each
    count = np.maximum(0, high - low)
    starts = np.cumsum(count) - count
    place = np.arange(int(count.sum())) - np.repeat(starts, count) + np.repeat(low, count)
    last = (place + 1) * each - 1
    ids = np.repeat(trace.run_first - begin, count) + last
    offsets, first, lengths = _renumbered(ids, np.repeat(owner, count), len(trace))
    return replace(
        trace,
        block_tokens=granule_tokens,
        run_offsets=offsets,
        run_first=first,
        run_count=lengths,
        notes=(
            *trace.notes,
            f"cut into granules of {granule_tokens:,} tokens, each known by the last of its "
            f"{each:,} block ids; incomplete ones never hit",
        ),
    )


def _renumbered(ids: Ints, owner: Ints, requests: int) -> tuple[Ints, Ints, Ints]:
    """Runs of ids that are numbered anew in order of appearance: `run_offsets`, first, count."""
    if not len(ids):
        none = np.empty(0, dtype=np.int64)
        return np.zeros(requests + 1, dtype=np.int64), none, none
    _, seen, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(seen), dtype=np.int64)
    rank[np.argsort(seen)] = np.arange(len(seen))
    numbers = rank[inverse]
    breaks = np.ones(len(ids), dtype=bool)
    breaks[1:] = (np.diff(numbers) != 1) | (np.diff(owner) != 0)
    starts = np.flatnonzero(breaks)
    runs = np.bincount(owner[starts], minlength=requests)
    return (
        np.concatenate([[0], np.cumsum(runs)]).astype(np.int64),
        numbers[starts],
        np.diff(starts, append=len(ids)),
    )
