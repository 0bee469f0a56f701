"""Decode with and without the offload, each at the largest batch that it has room for."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.offload.decode import DecodePoint, DecodeTimer
from simulator.offload.misses import Misses, StatedMisses
from simulator.offload.question import OffloadQuestion
from simulator.offload.room import Room, room


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Requests of one length, without the offload (`plain`) and with it.

    `plain`, `offloaded` are None where no request fits; `same_batch` is the offload with no more
    requests than fit without. `even_misses`: misses a query at which the offload's throughput
    equals that without, None where it is lower even with none; `even_requests`: fewest requests in
    flight with which it is not lower, None where it always is.
    """

    context_tokens: int
    plain_room: Room
    offload_room: Room
    plain: DecodePoint | None
    offloaded: DecodePoint | None
    same_batch: DecodePoint | None
    even_misses: float | None
    even_overlap: float | None
    even_requests: int | None

    @property
    def gain(self) -> float | None:
        """Tokens a second with the offload against without; None where either has no request."""
        if self.plain is None or self.offloaded is None:
            return None
        return self.offloaded.tokens_per_s / self.plain.tokens_per_s

    @property
    def same_batch_gain(self) -> float | None:
        """The same where demand is no larger than what fits without it: a loss."""
        if self.plain is None or self.same_batch is None:
            return None
        return self.same_batch.tokens_per_s / self.plain.tokens_per_s


def compare(timer: DecodeTimer, question: OffloadQuestion) -> Comparison:
    """Both at their largest batch.

    Assumes: there are always as many requests as there is room for, their outputs at all stages,
        so that a step is that of requests halfway through their output.
    Assumes: a prompt's entries come from the prefill side straight into host memory, not over the
        chip's link; the misses of a request's first query, which are all of its picks, are left
        out.
    """
    rooms = room(question, False), room(question, True)
    context = question.mean_context
    batches = rooms[0].requests, rooms[1].requests
    plain = timer.plain(batches[0], context) if batches[0] else None
    offloaded = timer.offloaded(batches[1], context) if batches[1] else None
    shared = min(batches)
    even_misses = even_overlap = even_requests = None
    if plain is not None and offloaded is not None:
        even_misses = _even_misses(timer, plain, offloaded)
        even_overlap = _even_overlap(timer.misses, even_misses, question)
        even_requests = _even_requests(timer, plain, batches[1], context)
    return Comparison(
        context_tokens=question.last_context,
        plain_room=rooms[0],
        offload_room=rooms[1],
        plain=plain,
        offloaded=offloaded,
        same_batch=timer.offloaded(shared, context) if shared == batches[0] and shared else None,
        even_misses=even_misses,
        even_overlap=even_overlap,
        even_requests=even_requests,
    )


def gain_of(
    timer: DecodeTimer, question: OffloadQuestion, requests: int, plain: DecodePoint, misses: Misses
) -> float:
    """Gain of so many requests with the question's buffer and other misses."""
    point = timer.offloaded(
        requests,
        question.mean_context,
        buffer_entries=question.buffer_entries,
        misses_of=misses,
    )
    return point.tokens_per_s / plain.tokens_per_s


def _even_misses(timer: DecodeTimer, plain: DecodePoint, offloaded: DecodePoint) -> float | None:
    """From the copy's time that makes both equally fast."""
    question, gather = timer.question, timer.gather
    allowed = offloaded.requests / plain.tokens_per_s - offloaded.compute_s - offloaded.test_s
    reading = allowed / question.c4_layers - gather.latency_s
    if reading <= 0:
        return None
    on_chip = ceil_div(offloaded.requests, question.capacity.parallel.data)
    return reading * gather.useful_bytes_per_s / gather.row_bytes / on_chip


def _even_overlap(
    misses: Misses, even_misses: float | None, question: OffloadQuestion
) -> float | None:
    """Overlap with so many misses, below 0 where any overlap gains; None where none does."""
    if even_misses is None or not isinstance(misses, StatedMisses):
        return None
    at_none = StatedMisses(
        overlap=0.0, returns=misses.returns, return_entries=misses.return_entries
    ).a_query(question.mean_context // 4, question.top_k, question.buffer_entries)
    return 1 - even_misses / at_none if at_none else None


def _even_requests(timer: DecodeTimer, plain: DecodePoint, most: int, context: int) -> int | None:
    """By halving: throughput grows with the batch."""
    replicas = timer.question.capacity.parallel.data
    low, high = 1, most // replicas
    if timer.offloaded(most, context).tokens_per_s < plain.tokens_per_s:
        return None
    while low < high:
        middle = (low + high) // 2
        if timer.offloaded(middle * replicas, context).tokens_per_s < plain.tokens_per_s:
            low = middle + 1
        else:
            high = middle
    return low * replicas
