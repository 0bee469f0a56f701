"""What a reader of traces may be told: strictness, limits, block size, spreading of times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.basis.errors import InputError, unknown_name

if TYPE_CHECKING:
    from workloads.traffic.draft import Draft
    from workloads.traffic.trace_file import TraceFile

REFUSE = "refuse"
DROP = "drop"
KEEP = "keep"
# 292 years in ns fill an int64; a tenth of that leaves room for sums.
MAX_SECONDS = 9e8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Options of all readers; None stands for what the format says.

    `strict`: refuse what would else be repaired with a note (unsorted or missing times, missing
    ids, rows without input, sums that do not add up).
    `block_tokens`: tokens a block id covers, where the file does not say.
    `max_input_tokens`, `over_limit`: longest input allowed; longer ones are refused or dropped.
    `zero_output`: keep, drop or refuse requests without output (failed or prefill-only ones).
    `spread_seed`: spread arrivals evenly within the step they were rounded to.
    `slowdown`: all times are multiplied by it. `max_delay_s`: longer waits are cut to it.
    `seed`, `duration_s`: of traffic generated from a summary.
    `columns`: names of columns by part, for files of no known format. `ignore`: columns that are
    knowingly left out. `chars_per_token`: for files of text alone, whose lengths are estimated.
    """

    strict: bool = False
    block_tokens: int | None = None
    max_input_tokens: int | None = None
    over_limit: str = REFUSE
    zero_output: str = KEEP
    spread_seed: int | None = None
    slowdown: float = 1.0
    max_delay_s: float | None = None
    seed: int = 0
    duration_s: float = 600.0
    columns: str | None = None
    ignore: tuple[str, ...] = ()
    chars_per_token: float | None = None

    def __post_init__(self) -> None:
        for name in ("block_tokens", "max_input_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, expected at least 1 token")
        if self.over_limit not in (REFUSE, DROP):
            raise InputError(unknown_name("over_limit", self.over_limit, (REFUSE, DROP)))
        if self.zero_output not in (KEEP, DROP, REFUSE):
            raise InputError(unknown_name("zero_output", self.zero_output, (KEEP, DROP, REFUSE)))
        for name in ("spread_seed", "seed"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} is {value}, expected a whole number of at least 0")
        if not (math.isfinite(self.slowdown) and 0 < self.slowdown <= 1e6):
            raise InputError(f"slowdown is {self.slowdown}, expected above 0 and at most 1e6")
        if self.max_delay_s is not None and not 0 <= self.max_delay_s <= MAX_SECONDS:
            raise InputError(f"max_delay_s is {self.max_delay_s}, expected 0 to {MAX_SECONDS:g} s")
        if self.chars_per_token is not None and not 0.1 <= self.chars_per_token <= 100:
            raise InputError(
                f"chars_per_token is {self.chars_per_token:g}, expected 0.1 to 100 characters"
            )
        if not 0 < self.duration_s <= 1e7:
            raise InputError(f"duration_s is {self.duration_s}, expected above 0 and at most 1e7 s")


@dataclass(frozen=True, slots=True)
class Reader:
    """One trace format: a line about it, how its first rows are told, and how it is read.

    `matches` gets the beginning of a file; `read` returns rows that `finished` checks. `keys`
    are the keys or columns that it reads, `clock` is that of arrivals, with its unit.
    `parts`: functions beside `read` whose docstrings state what it assumes. `known`: keys of the
    format that are left out and change no request, whatever their names look like.
    """

    about: str
    matches: Callable[[TraceFile], bool]
    read: Callable[[TraceFile, ReaderOptions], Draft]
    keys: frozenset[str]
    clock: str
    parts: tuple[Callable[..., object], ...] = ()
    known: frozenset[str] = frozenset()
