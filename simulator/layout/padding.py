"""Padding of cache entries and pages, and the pages of a pool cut to another size."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from simulator.basis.errors import InputError
from simulator.basis.whole import ceil_div, round_up
from simulator.engine.cache_layout import PoolRule
from simulator.engine.entry_bytes import find_row_format
from simulator.engine.physical_layout import PoolGeometry

_FORM = re.compile(r"(page|row):(\d+)")
LARGEST_ALIGN = 65_536


@dataclass(frozen=True, slots=True)
class Padding:
    """What is rounded up to a multiple of `align_bytes`: every row, every page, or as the engine.

    `engine` keeps the alignment that the profile gives each pool.
    """

    of: Literal["engine", "page", "row"]
    align_bytes: int = 1

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        if self.of == "engine":
            return "engine"
        return "none" if self.align_bytes == 1 else f"{self.of}:{self.align_bytes}"


NONE = Padding("page", 1)
ENGINE = Padding("engine")
DEFAULT_PADDINGS = (
    ENGINE,
    NONE,
    *(Padding("page", align) for align in (32, 64, 128, 576)),
    *(Padding("row", align) for align in (32, 64, 128, 576)),
)


def parse_padding(text: str) -> Padding:
    """`engine`, `none`, `page:576` or `row:64`."""
    if text in ("engine", "none"):
        return ENGINE if text == "engine" else NONE
    found = _FORM.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= LARGEST_ALIGN:
        raise InputError(
            f"padding {text!r} is not known: expected engine, none, page:BYTES or row:BYTES with "
            f"1 to {LARGEST_ALIGN:,} bytes, such as page:576"
        )
    of: Literal["page", "row"] = "page" if found[1] == "page" else "row"
    return Padding(of, int(found[2])) if int(found[2]) > 1 else NONE


def cut_pool(
    pool: PoolGeometry, rule: PoolRule, padding: Padding, page_tokens: int
) -> PoolGeometry:
    """The pool with pages of `page_tokens` (0: as they are), padded.

    Raises InputError where a page cannot hold one entry whole.
    """
    rows = pool.page_rows
    if page_tokens and pool.page_tokens:
        rows = ceil_div(page_tokens, pool.ratio)
        if page_tokens < pool.ratio:
            raise InputError(
                f"a page of {page_tokens} tokens cannot hold one {pool.name} entry, which stands "
                f"for {pool.ratio} tokens ({pool.ratio - page_tokens} too few); try {pool.ratio}"
            )
        pool = replace(pool, page_tokens=page_tokens, page_rows=rows)
    align = {"engine": rule.align_bytes, "page": padding.align_bytes, "row": 1}[padding.of]
    row_align = padding.align_bytes if padding.of == "row" else 1
    stride = round_up(pool.row_bytes, row_align)
    nbytes = round_up(rows * stride, align)
    if rule.duplicate:
        # The copy's row has as many values as the pool's, none of them rotary (index keys).
        copy = round_up(find_row_format(rule.duplicate).nbytes(pool.row_values), row_align)
        nbytes += round_up(rows * copy, align)
    return replace(pool, page_bytes=nbytes, stride_bytes=stride)
