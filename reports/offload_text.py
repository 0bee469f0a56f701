"""Terminal text of C4 entries on the host: the answer, where it turns, tables, assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.offload_tables import offload_tables, small_percent
from reports.text_table import print_table, wrapped
from simulator.engine.default_engine import engine_text
from simulator.offload.published import HISPARSE, WHY
from simulator.offload.study import OffloadStudy

if TYPE_CHECKING:
    from rich.console import Console


def offload_answer(study: OffloadStudy) -> str:
    """What the offload does, in a sentence or two."""
    question, one = study.question, study.asked
    where = (
        f"{question.capacity.config.name} on {question.step.question.count} x "
        f"{question.step.question.chip} with {engine_text(question.step.question.engine)}, "
        f"{question.prompt_tokens:,} tokens in and "
        f"{question.output_tokens:,} out"
    )
    held = (
        f"C4 entries on the host make room for {one.offload_room.requests:,} requests "
        f"instead of {one.plain_room.requests:,}"
    )
    if one.plain is None or one.offloaded is None or one.gain is None:
        return f"{where}: {held}."
    turn = "gain" if one.gain >= 1 else "loss"
    return (
        f"{where}: {held}, and decode {one.offloaded.tokens_per_s:,.0f} tokens/s instead of "
        f"{one.plain.tokens_per_s:,.0f}: a {turn}, {one.gain:.2f} times."
    )


def picks_sentence(study: OffloadStudy) -> str:
    """How picks move, and what of them misses."""
    question, point = study.question, study.asked.offloaded
    buffer = (
        f"A buffer of {question.buffer_entries:,} entries a request and C4 layer "
        f"({question.buffer_entries / question.top_k:g} x top-k)"
    )
    if point is None:
        return f"{buffer}."
    share = point.misses / question.top_k
    return (
        f"{buffer} misses {point.misses:,.1f} of {question.top_k:,} picks a query ({share:.1%}): "
        f"{point.miss_bytes / 1e6:,.1f} MB a step and chip over "
        f"{study.question.step.node.host_link.kind} at {study.gather.useful_bytes_per_s / 1e9:.1f} "
        f"of {study.gather.bytes_per_s / 1e9:.0f} GB/s. New entries written back take "
        f"{small_percent(point.backup_share)} of the other direction."
    )


def turning_sentences(study: OffloadStudy) -> list[str]:
    """Where the gain turns into a loss."""
    one, found = study.asked, []
    if one.same_batch is not None and one.same_batch_gain is not None:
        found.append(
            f"With no more than the {one.same_batch.requests:,} requests that fit anyway, "
            f"throughput falls to {one.same_batch_gain:.1%}: nothing is gained, and every layer "
            "waits for its misses."
        )
    if one.even_requests is not None:
        found.append(f"It breaks even from {one.even_requests:,} requests in flight on.")
    if one.plain is not None and one.offloaded is not None:
        found.append(_even_overlap(study))
    losing = [c for c in study.contexts if c.gain is not None and c.gain < 1]
    if losing:
        lengths = ", ".join(f"{c.context_tokens:,}" for c in losing)
        binds = {c.plain_room.binds for c in losing}
        limits = f"limit{'s' * (len(binds) > 1)} without it: {', '.join(sorted(binds))}"
        found.append(f"It loses at {lengths} tokens a request ({limits}).")
    return found


def _even_overlap(study: OffloadStudy) -> str:
    one = study.asked
    if one.even_misses is None:
        return "At its largest batch it is slower even if no pick misses."
    if one.even_misses >= study.question.top_k:
        return "At its largest batch it gains even if every pick misses."
    text = f"At its largest batch it loses from {one.even_misses:,.0f} misses a query on"
    if one.even_overlap is None or one.even_overlap < 0:
        return f"{text}."
    return f"{text}: where consecutive queries share less than {one.even_overlap:.0%} of picks."


def print_offload(console: Console, study: OffloadStudy) -> None:
    """The whole answer."""
    width = console.width
    console.print(wrapped(offload_answer(study), width), style="bold")
    priced = [f"{sentence}." for sentence in study.priced_as]
    for text in (*priced, picks_sentence(study), *turning_sentences(study)):
        console.print(wrapped(text, width))
    for title, columns in offload_tables(study):
        console.print(f"\n{title}", style="bold")
        print_table(console, columns)
    if study.published:
        console.print()
        console.print(wrapped(f"Published: {HISPARSE.source}. {WHY}", width))
    console.print()
    for text in study.assumptions:
        console.print(wrapped(f"Assumes: {text}", width, indent=2))
