"""Everything that `v4sim offload` answers, as flat records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.basis.assumptions import assumptions_of
from simulator.basis.errors import DoesNotFitError, InputError
from simulator.cost.engine_notes import priced_as
from simulator.offload.buffered_geometry import buffered, ceiling, host_bytes
from simulator.offload.comparison import Comparison, compare, gain_of
from simulator.offload.decode import DecodeTimer
from simulator.offload.host_gather import HostGather
from simulator.offload.misses import Misses, RecordedMisses, StatedMisses
from simulator.offload.published import PublishedCase, is_published, published_cases
from simulator.offload.question import OffloadQuestion
from simulator.offload.recording import Reuse, record_picks
from simulator.offload.room import room, whole_geometry

OVERLAPS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 1.0)
BUFFERS_OF_TOP_K = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainPoint:
    """Gain of one buffer and overlap; None where no request fits. `requests` with the offload."""

    buffer_entries: int
    overlap: float
    requests: int
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadStudy:
    """The answer. `contexts`: requests of other lengths, prompt and output in proportion."""

    question: OffloadQuestion
    ceiling: float
    gather: HostGather
    asked: Comparison
    contexts: tuple[Comparison, ...]
    grid: tuple[GainPoint, ...]
    published: tuple[PublishedCase, ...]
    reuse: tuple[Reuse, ...]
    assumptions: tuple[str, ...]

    @property
    def priced_as(self) -> tuple[str, ...]:
        """Sentences on formats whose kernels are priced as another's."""
        return priced_as(self.question.step)


def stated_misses(question: OffloadQuestion) -> StatedMisses:
    """The question's statistics."""
    return StatedMisses(
        overlap=question.overlap, returns=question.returns, return_entries=question.return_entries
    )


def study(
    question: OffloadQuestion,
    contexts: Sequence[int],
    recorded: RecordedMisses | None = None,
    reuse: Sequence[Reuse] = (),
) -> OffloadStudy:
    """Answer a question. `recorded` picks replace the stated ones in all but the grid.

    Raises DoesNotFitError where neither way holds one request of the question's length.
    """
    misses: Misses = recorded or stated_misses(question)
    lengths = [_scaled(question, context) for context in contexts]
    timer = DecodeTimer(question, misses)
    asked = compare(timer, question)
    _check_fits(question, asked)
    return OffloadStudy(
        question=question,
        ceiling=ceiling(whole_geometry(question)),
        gather=timer.gather,
        asked=asked,
        contexts=tuple(compare(timer, one) for one in lengths),
        grid=_grid(timer, question, asked),
        published=published_cases(timer, question) if is_published(question) else (),
        reuse=tuple(reuse),
        assumptions=_assumptions(misses, bool(reuse)),
    )


def _scaled(question: OffloadQuestion, context_tokens: int) -> OffloadQuestion:
    """Requests of another length, with the same share of output."""
    longest = question.capacity.config.max_position_embeddings
    if not 2 <= context_tokens <= longest:
        raise InputError(
            f"one of the contexts is {context_tokens:,} tokens, expected 2 to {longest:,}, which "
            f"{question.capacity.config.name} takes"
        )
    output = round(context_tokens * question.output_tokens / question.last_context)
    output = min(max(1, output), context_tokens - 1)
    return question.at(context_tokens - output, output)


def _check_fits(question: OffloadQuestion, asked: Comparison) -> None:
    if asked.plain_room.requests or asked.offload_room.requests:
        return
    fit = asked.offload_room.fit
    demand = fit.reserved_bytes + fit.request_bytes
    gap = (
        f"; weights leave {fit.budget_bytes / 1e9:,.1f} GB of a chip's memory for the cache, and "
        f"{demand / 1e9:,.1f} GB are needed for one request with what is set aside"
    )
    limit = asked.offload_room.binds
    raise DoesNotFitError(
        f"not one request of {question.last_context:,} tokens runs on "
        f"{question.step.question.count} x {question.step.question.chip}, with C4 entries on the "
        f"host or without ({limit} bind){gap}; try more chips or a shorter --prompt",
        demand_bytes=demand,
        capacity_bytes=fit.budget_bytes,
    )


def _grid(
    timer: DecodeTimer, question: OffloadQuestion, asked: Comparison
) -> tuple[GainPoint, ...]:
    points = []
    sizes = sorted(
        {question.top_k * times for times in BUFFERS_OF_TOP_K} | {question.buffer_entries}
    )
    for size in sizes:
        one = replace(question, buffer_entries=size)
        requests = room(one, True).requests
        for overlap in sorted({*OVERLAPS, question.overlap}):
            gain = None
            if requests and asked.plain is not None:
                misses = replace(stated_misses(question), overlap=overlap)
                gain = gain_of(timer, one, requests, asked.plain, misses)
            points.append(
                GainPoint(buffer_entries=size, overlap=overlap, requests=requests, gain=gain)
            )
    return tuple(points)


def _assumptions(misses: Misses, ran: bool) -> tuple[str, ...]:
    sources: list[object] = [buffered, host_bytes, room, compare, type(misses), HostGather]
    sources += [HostGather.seconds, DecodeTimer, *([record_picks] if ran else [])]
    return assumptions_of(sources)
