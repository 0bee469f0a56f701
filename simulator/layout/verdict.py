"""A plain verdict on a capacity: fits, does not fit and by how much, or unsupported."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.layout.capacity import Capacity
from simulator.layout.capacity_advice import Change, changes, largest_context, smallest_change

FITS, DOES_NOT_FIT, UNSUPPORTED = 0, 3, 4
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`exit_code` 0 fits, 3 does not, 4 unsupported; `found` are the changes that help."""

    exit_code: int
    sentence: str
    found: tuple[Change, ...] = ()


def judge(capacity: Capacity) -> Verdict:
    """Verdict on an answer, with what would free most."""
    found = changes(capacity)
    if capacity.is_enough:
        return Verdict(exit_code=FITS, sentence=_fits(capacity), found=found)
    return Verdict(exit_code=DOES_NOT_FIT, sentence=_does_not_fit(capacity, found), found=found)


def mix_text(capacity: Capacity) -> str:
    """The contexts in words."""
    parts = capacity.question.contexts
    if len(parts) == 1:
        return f"of {parts[0].context_tokens:,} tokens"
    return "of " + ", ".join(f"{p.context_tokens:,} tokens ({p.share:.0%})" for p in parts)


def _fits(capacity: Capacity) -> str:
    wanted = capacity.question.wanted_requests
    asked = f"{wanted:,} wanted, " if wanted else ""
    return (
        f"fits: {asked}{capacity.requests:,.2f} requests {mix_text(capacity)} run at once; "
        f"{capacity.binding.name} bind"
    )


def short_bytes(capacity: Capacity) -> int:
    """Bytes of cache that one chip lacks for the requests asked for; 0 where bytes do not bind."""
    if capacity.budget_bytes < 0:
        return -capacity.budget_bytes
    each = ceil_div(capacity.wanted, capacity.question.parallel.data)
    pairs = zip(capacity.question.contexts, capacity.fits, strict=True)
    needed = sum(part.share * fit.request_bytes for part, fit in pairs) * each
    return max(0, round(needed) + capacity.fits[0].reserved_bytes - capacity.budget_bytes)


def _does_not_fit(capacity: Capacity, found: tuple[Change, ...]) -> str:
    short = short_bytes(capacity) / GIB
    if capacity.budget_bytes < 0:
        head = f"weights and workspace alone exceed a chip's memory by {short:,.2f} GiB"
    else:
        by_bytes = f", {short:,.2f} GiB a chip short" if short else ""
        head = (
            f"{capacity.wanted:,} request{'s' * (capacity.wanted > 1)} {mix_text(capacity)} "
            f"wanted, {capacity.requests:,.2f} run at once{by_bytes}; "
            f"{capacity.binding.name} bind"
        )
    return f"does not fit: {head}; {_way_out(capacity, found)}"


def _way_out(capacity: Capacity, found: tuple[Change, ...]) -> str:
    ways = []
    change = smallest_change(capacity, found)
    if change is not None:
        ways.append(f"{change.option} ({change.requests:,.2f} requests)")
    if int(capacity.requests) >= 1:
        ways.append(f"--requests {int(capacity.requests)}")
    elif capacity.budget_bytes > 0 and (longest := largest_context(capacity)):
        ways.append(f"--context {longest}")
    if not ways:
        return "no single change makes it fit"
    return "smallest change that fits: " + ", or ".join(ways)
