"""A plain verdict on a capacity: fits, does not fit and by how much, or unsupported."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.capacity.capacity import Capacity
from simulator.capacity.capacity_advice import Change, changes, largest_context, smallest_change

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
        f"fits: {asked}{capacity.requests:,.2f} requests {mix_text(capacity)} run at once"
        f"{_whole(capacity)}; {_binds(capacity)}"
    )


def _whole(capacity: Capacity) -> str:
    """What the sum over replicas hides: each of them runs whole requests."""
    replicas = capacity.question.parallel.data
    if replicas == 1 or not capacity.requests:
        return ""
    return (
        f" ({capacity.requests / replicas:,.2f} a replica: {capacity.whole_requests:,} whole ones)"
    )


def _binds(capacity: Capacity) -> str:
    name = capacity.binding.name
    return f"{name} {'bind' if name.endswith('s') else 'binds'}"


def short_bytes(capacity: Capacity) -> int:
    """Bytes of cache that one chip lacks for the requests asked for; 0 where bytes do not bind."""
    if capacity.budget_bytes < 0:
        return -capacity.budget_bytes
    each = ceil_div(capacity.wanted, capacity.question.parallel.data)
    pairs = zip(capacity.question.contexts, capacity.fits, strict=True)
    needed = sum(part.share * fit.request_bytes for part, fit in pairs) * each
    longest = max(fit.request_bytes for fit in capacity.fits)
    held = max(round(needed), longest) + capacity.fits[0].reserved_bytes
    return max(0, held - capacity.budget_bytes)


def _does_not_fit(capacity: Capacity, found: tuple[Change, ...]) -> str:
    short = short_bytes(capacity) / GIB
    question = capacity.question
    by_bytes = f", {short:,.2f} GiB a chip short" if short else ""
    if capacity.budget_bytes < 0:
        taken = "a chip's memory"
        if question.deployment.memory_share < 1:
            taken = (
                f"the {question.pool_bytes_allowed / GIB:,.2f} GiB of a chip that the engine takes"
            )
        head = f"weights and workspace alone exceed {taken} by {short:,.2f} GiB"
    elif capacity.too_long and len(capacity.fits) > 1:
        longest = max(capacity.too_long)
        head = (
            f"of the mix, a request of {longest:,} tokens does not fit even alone{by_bytes}; "
            f"{_binds(capacity)}"
        )
    else:
        head = (
            f"{capacity.wanted:,} request{'s' * (capacity.wanted > 1)} {mix_text(capacity)} "
            f"wanted, {capacity.requests:,.2f} run at once{_whole(capacity)}{by_bytes}; "
            f"{_binds(capacity)}"
        )
    return f"does not fit: {head}; {_way_out(capacity, found)}"


def _way_out(capacity: Capacity, found: tuple[Change, ...]) -> str:
    ways = []
    change = smallest_change(capacity, found)
    if change is not None:
        ways.append(f"{change.option} ({change.requests:,.2f} requests)")
    if capacity.whole_requests:
        ways.append(f"--requests {capacity.whole_requests}")
    elif capacity.budget_bytes > 0 and (longest := largest_context(capacity)):
        ways.append(f"--context {longest}")
    if not ways:
        return "no single change makes it fit"
    return "smallest change that fits: " + ", or ".join(ways)
