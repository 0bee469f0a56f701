"""Picks of decode steps of a small model run with random weights, and how a buffer serves them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.basis.errors import InputError, unknown_name
from simulator.evaluate.choices import ChoiceRecord, load_choices, write_choices
from simulator.evaluate.evaluator import Evaluator, StepOutput
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from simulator.offload.misses import RecordedMisses, StatedMisses, implied_returns
from workloads.deepseek_v4.config import ModelConfig
from workloads.run_stats import RecordedChoices

NEXT_TOKENS = {
    "random": "every next token drawn at random",
    "greedy": "every next token the likeliest",
    "constant": "the same token again and again",
}
BUFFERS_OF_TOP_K = (1.0, 1.5, 2.0, 3.0, 4.0)
PROMPT_TOKENS, STEPS = 512, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferPoint:
    """One buffer: the shares of picks that miss, replayed and in closed form.

    `stated` is the closed form at the recorded overlap with no pick returning sooner than by
    chance; `returns` the share of returning picks that would explain the replayed misses.
    """

    buffer_entries: int
    missed: float
    stated: float
    returns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Recorded picks of one run: what consecutive queries share, and misses by buffer."""

    source: str
    model: str
    top_k: int
    entries: int
    queries: int
    overlap: float
    points: tuple[BufferPoint, ...]


def record_picks(
    config: ModelConfig,
    next_tokens: str = "random",
    *,
    prompt_tokens: int = PROMPT_TOKENS,
    steps: int = STEPS,
    seed: int = 0,
) -> ChoiceRecord:
    """Picks of `steps` decode steps of one request after a random prompt.

    Assumes: random weights, which have no trained locality: the recorded overlap is that of this
        model and these tokens, not of V4's.
    """
    if next_tokens not in NEXT_TOKENS:
        raise InputError(unknown_name("kind of next tokens", next_tokens, NEXT_TOKENS))
    rng = np.random.default_rng(seed)
    evaluator = Evaluator(
        config,
        random_weights(config.model_dump(), seed),
        RequestTable(1, prompt_tokens + steps),
        dtype=np.float32,
    )
    row, record = evaluator.table.admit(), ChoiceRecord()
    out = evaluator.step([(row, rng.integers(0, config.vocab_size, prompt_tokens))])
    drawn = rng.integers(0, config.vocab_size, steps)
    for step in range(steps):
        token = _next_token(next_tokens, out, drawn, step)
        out = evaluator.step([(row, np.array([token]))], choices=record)
    return record


def _next_token(kind: str, out: StepOutput, drawn: np.ndarray, step: int) -> int:
    if kind == "greedy":
        return int(out.logits[-1].argmax())
    return int(drawn[step if kind == "random" else 0])


def choices_of(record: ChoiceRecord) -> RecordedChoices:
    """A record of one request's steps as recorded choices."""
    picks = {
        path: np.concatenate(taken)
        for (path, kind), taken in record.taken.items()
        if kind == "top-k"
    }
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in picks.values()))
    rows = len(next(iter(picks.values())))
    return RecordedChoices(
        digest=digest.hexdigest()[:16], picks=picks, experts={}, requests=np.zeros(rows, dtype=int)
    )


def save_record(path: Path, config: ModelConfig, record: ChoiceRecord) -> None:
    """Write a record of one request's steps as a file of choices."""
    rows = len(next(iter(record.taken.values())))
    write_choices(path, config.name, record, [np.zeros(1, dtype=int)] * rows)


def read_picks(path: Path, config: ModelConfig, context_tokens: int) -> RecordedMisses:
    """Recorded picks of a user's file; a file without queries to compare is refused."""
    choices = load_choices(path, config, context_tokens)
    if not choices.picks:
        raise InputError(
            f"{path}: it has no picks, only experts; expected keys top-k/PATH, as "
            "simulator.evaluate.choices.write_choices writes them"
        )
    least = min(np.unique(choices.requests, return_counts=True)[1])
    if least < 4:
        raise InputError(
            f"{path}: a request has {least} queries, but at least 4 of each are needed, the first "
            "half of which warms the buffer; record more decode steps"
        )
    return RecordedMisses(choices=choices, context_tokens=context_tokens)


def reuse_of(
    recorded: RecordedMisses, source: str, model: str, buffers: Sequence[int] = ()
) -> Reuse:
    """Overlap and misses at several buffers: multiples of top-k, and those given."""
    choices = recorded.choices
    first = next(iter(choices.picks.values()))
    top_k, queries = first.shape[1], len(first)
    entries = recorded.context_tokens // recorded.ratio
    overlap = recorded.counted_overlap
    sizes = sorted({round(top_k * times) for times in BUFFERS_OF_TOP_K} | set(buffers))
    points = []
    for size in sizes:
        missed = recorded.share(size)
        points.append(
            BufferPoint(
                buffer_entries=size,
                missed=missed,
                stated=StatedMisses(overlap=overlap).a_query(entries, top_k, size) / top_k,
                returns=implied_returns(
                    missed, overlap, entries=entries, top_k=top_k, buffer_entries=size
                ),
            )
        )
    return Reuse(
        source=source,
        model=model,
        top_k=top_k,
        entries=entries,
        queries=queries,
        overlap=overlap,
        points=tuple(points),
    )
