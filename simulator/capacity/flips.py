"""The inputs on which a verdict hangs: for each, the value at which it becomes the other one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError
from simulator.capacity.capacity import Capacity, capacity_of
from simulator.capacity.capacity_question import CapacityQuestion

# Shares are told to a thousandth.
_SHARE_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One input: its value now, the first at which the verdict is the other one, and in words."""

    name: str
    now: float
    at: float
    text: str

    @property
    def distance(self) -> float:
        """Relative change that turns the verdict."""
        return abs(self.at - self.now) / self.now


def flips(capacity: Capacity) -> tuple[Flip, ...]:
    """Inputs whose change alone turns the verdict, the nearest first."""
    found = [flip for flip in _found(capacity) if flip is not None]
    return tuple(sorted(found, key=lambda flip: flip.distance))


def flip_sentence(found: tuple[Flip, ...]) -> str | None:
    """On what the verdict hangs; None where none of these inputs turns it."""
    if not found:
        return None
    first, *others = found
    also = f"; also at {', '.join(flip.text for flip in others)}" if others else ""
    return (
        f"The verdict hangs most on {first.name}: it turns at {first.text} "
        f"({first.distance:.1%} away){also}."
    )


def _found(capacity: Capacity) -> Iterator[Flip | None]:
    question, holds = capacity.question, capacity.is_enough
    if question.wanted_requests is not None:
        yield _requests(capacity)
    share = round(question.deployment.memory_share * _SHARE_STEPS)
    yield _flip(
        "the memory share",
        share,
        (share - 1, 1) if holds else (share + 1, _SHARE_STEPS),
        lambda n: question.changed(memory_share=n / _SHARE_STEPS),
        holds,
        lambda n: f"a memory share of {n / _SHARE_STEPS:g} (now {share / _SHARE_STEPS:g})",
    )
    tokens = question.in_flight_tokens
    yield _flip(
        "the tokens in flight",
        tokens,
        (tokens + 1, 2**20) if holds else (tokens - 1, 1),
        lambda n: replace(
            question,
            in_flight_tokens=n,
            workspace_tokens=question.workspace_tokens * n // tokens,
        ),
        holds,
        lambda n: f"{n:,} tokens in flight (now {tokens:,})",
    )
    if len(question.contexts) == 1:
        context = question.contexts[0].context_tokens
        longest = question.config.max_position_embeddings
        part = question.contexts[0]
        yield _flip(
            "the context",
            context,
            (context + 1, longest) if holds else (context - 1, 1),
            lambda n: replace(question, contexts=(replace(part, context_tokens=n),)),
            holds,
            lambda n: f"a context of {n:,} (now {context:,})",
        )


def _requests(capacity: Capacity) -> Flip | None:
    now, most = capacity.wanted, capacity.whole_requests
    at = most + 1 if capacity.is_enough else most
    if at < 1:
        return None
    return Flip(name="the requests", now=now, at=at, text=f"{at:,} requests (now {now:,})")


def _flip(
    name: str,
    now: int,
    ends: tuple[int, int],
    ask: Callable[[int], CapacityQuestion],
    holds: bool,
    text: Callable[[int], str],
) -> Flip | None:
    """The value nearest to the present one, from `ends[0]` to `ends[1]`, that turns the verdict."""

    def turns(value: int) -> bool:
        try:
            return capacity_of(ask(value)).is_enough != holds
        except InputError:
            return False

    near, far = ends
    step = 1 if far >= near else -1
    if (far - now) * step < 1 or not turns(far):
        return None
    while near != far:
        middle = (near + far) // 2 if step > 0 else -(-(near + far) // 2)
        if turns(middle):
            far = middle
        else:
            near = middle + step
    return Flip(name=name, now=now, at=near, text=text(near))
