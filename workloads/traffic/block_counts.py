"""Checks the number of block ids of every request against its length, in either convention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.trace import Ints

COMMON_BLOCK_TOKENS = (16, 32, 64, 128, 256, 512, 1024)
_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class BlockFit:
    """Block size of a trace, and whether a partial last block has an id (`ceil`) or not."""

    block_tokens: int
    ceil: bool
    inferred: bool

    @property
    def note(self) -> str:
        """How many ids a request has, as a sentence."""
        how = "a partial last block has an id" if self.ceil else "a partial last block has no id"
        found = ", found by comparing ids with lengths" if self.inferred else ""
        return f"blocks of {self.block_tokens} tokens{found}; {how}"


def fit_blocks(
    tokens: Ints,
    ids: Ints,
    stated: int,
    fixed: bool,
    where: Callable[[int], str],
) -> BlockFit:
    """Block size and convention that every request fits, or a refusal at the first that does not.

    `tokens`, `ids` [N]: covered tokens and number of ids. `stated`: size by the file, the user or
    the format; if it is only the format's (`fixed` false) and does not fit the first requests, the
    one common size that fits them is taken.
    """
    block, inferred = stated, False
    if not fixed and not _fits(tokens[:_SAMPLE], ids[:_SAMPLE], stated):
        others = _sizes(tokens[:_SAMPLE], ids[:_SAMPLE])
        if len(others) == 1:
            block, inferred = others[0], True
    partial = tokens % block != 0
    low = tokens // block
    up, down = ids == low + partial, ids == low
    wrong = ~(up | down)
    if wrong.any():
        raise _refusal(int(np.argmax(wrong)), tokens, ids, block, where)
    only_up, only_down = up & ~down, down & ~up
    if only_up.any() and only_down.any():
        first_up, first_down = int(np.argmax(only_up)), int(np.argmax(only_down))
        place = max(first_up, first_down)
        raise FileFormatError(
            f"{where(place)}: {ids[place]} ids for {tokens[place]:,} tokens in blocks of {block}: "
            f"this {'counts' if place == first_up else 'leaves out'} the partial last block, "
            f"unlike {where(min(first_up, first_down))}; one of the two is damaged"
        )
    return BlockFit(block, ceil=not only_down.any(), inferred=inferred)


def _fits(tokens: Ints, ids: Ints, block: int) -> bool:
    return bool(((ids == -(-tokens // block)) | (ids == tokens // block)).all())


def _sizes(tokens: Ints, ids: Ints) -> list[int]:
    return [block for block in COMMON_BLOCK_TOKENS if _fits(tokens, ids, block)]


def _refusal(
    place: int, tokens: Ints, ids: Ints, block: int, where: Callable[[int], str]
) -> FileFormatError:
    length, count = int(tokens[place]), int(ids[place])
    low, high = length // block, -(-length // block)
    allowed = f"{low}" if low == high else f"{low} or {high}"
    fitting = _sizes(tokens, ids)
    hint = (
        f"; blocks of {' or '.join(map(str, fitting))} tokens would fit every request"
        if fitting
        else "; the line is damaged or the block size is another"
    )
    return FileFormatError(
        f"{where(place)}: {count} block ids for {length:,} tokens, expected {allowed} in blocks "
        f"of {block}{hint}"
    )
