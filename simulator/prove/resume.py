"""A request resumed behind a cached prefix by a policy's rule, against the uncached run.

The hit boundary is the end of the last whole page before the cut. From the last stored window the
tokens up to the boundary run again; a policy that replays runs fewer of them, with no window at
all. Where the overlap rows of ratio-4 compressors come from follows: a stored window brings them
along, a replay makes them anew. Everything that is neither loaded nor run again holds NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.evaluate.evaluator import Evaluator
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import WindowPolicy
from simulator.prove.cached_state import CachedState
from simulator.prove.difference import Difference, compare
from simulator.prove.replay_count import count_whole_window
from simulator.prove.replay_pass import (
    LayerSpan,
    ReplayPass,
    ReplayWorkDone,
    trimmed_spans,
    whole_spans,
)
from simulator.prove.stored_prefix import Checkpoint, FoundPages, StoredPrefix
from simulator.prove.uncached import UncachedRun
from workloads.op import Array

ROW = 1
"""Request row of resumed runs; row 0 is that of the runs before them."""

DECODED_TOKENS = 2
"""Last new tokens that come one a step, as generated ones do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """How one request resumed and how far it is from the uncached run.

    `logits` from the boundary on (`first_token`: of the first one; `same_choices`: share of rows
    whose likeliest token is that of the uncached run), `window` slots of every layer at the
    boundary, `state` that is cached at the end (windows, entries, overlap rows). `checkpoint` is
    where a stored window ended that was used, None where none was.
    """

    cut: int
    boundary: int
    checkpoint: int | None
    how: str
    work: ReplayWorkDone
    logits: Difference
    first_token: Difference
    same_choices: float
    window: Difference
    state: Difference

    @property
    def equal(self) -> bool:
        """Everything finite and equal; at a boundary of 0 there is no window to compare."""
        window = self.window.equal or self.boundary == 0
        return self.logits.equal and window and self.state.equal


@dataclass(frozen=True, slots=True)
class Rule:
    """What runs again before the boundary, and what it starts from."""

    how: str
    checkpoint: Checkpoint | None
    spans: list[LayerSpan]
    first_seen: int = 0


class Resumption:
    """Resumes requests of one model in a row whose every pool slot was wiped before."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.state = CachedState(evaluator)
        self.geometry = WindowGeometry.of_model(evaluator.config)

    def by_policy(self, stored: StoredPrefix, run: UncachedRun) -> Resumed:
        """Resume behind what a policy stored of the run's prefix."""
        tokens = run.tokens[: run.cut]
        pages = stored.pages(tokens)
        checkpoint = stored.checkpoint(tokens, pages.tokens)
        rule = self.rule(stored.policy, pages.tokens, checkpoint)
        return self.by_rule(rule, pages, run)

    def rule(self, policy: WindowPolicy, boundary: int, checkpoint: Checkpoint | None) -> Rule:
        """Replay where it is shorter than the way from the last window, as a hit is counted."""
        layers = self.geometry.layers
        start = checkpoint.boundary if checkpoint else 0
        offers = [
            (work, part)
            for part in policy.parts
            if (work := part.replay(boundary - start, self.geometry)) is not None
        ]
        if offers:
            work, part = min(offers, key=lambda o: (o[0].tokens, o[0].token_layers))
            shorter = work.tokens < boundary - start
            if part.trimmed and (shorter or not start):
                return Rule("trimmed replay", None, self.trimmed(boundary))
            if shorter:
                first = boundary - work.tokens
                how, seen = ("replay", 0) if part.exact else ("bounded replay", first)
                return Rule(how, None, whole_spans(layers, first), seen)
        how = "restored" if start == boundary else "run from checkpoint"
        if checkpoint is None:
            how = "run from start"
        return Rule(how, checkpoint, whole_spans(layers, start))

    def check(self, policy: WindowPolicy) -> None:
        """Refuse a bounded replay that would leave rows of the windows without any content."""
        window = self.geometry.n_win
        for part in policy.parts:
            work = part.replay(self.geometry.replay_tokens, self.geometry)
            if work is not None and work.tokens < window:
                raise InputError(
                    f"policy {policy.name} runs {work.tokens} tokens again, but the windows of "
                    f"{self.evaluator.config.name} hold {window}: {window - work.tokens} of their "
                    f"rows would hold nothing; give bounded:{window} or more"
                )

    def trimmed(self, boundary: int) -> list[LayerSpan]:
        """The triangle of layers and tokens that rebuilds every slot of the windows."""
        config = self.evaluator.config
        count = count_whole_window(config.sliding_window, config.layer_ratios, boundary)
        return trimmed_spans(count, boundary)

    def by_rule(self, rule: Rule, pages: FoundPages, run: UncachedRun) -> Resumed:
        """Restore, run again, continue, compare."""
        boundary = pages.tokens
        table = self.evaluator.table
        table.admit(ROW)
        self.state.wipe()
        try:
            if boundary:
                table.extend(ROW, boundary)
            self._restore(pages, rule.checkpoint)
            replay = ReplayPass(self.evaluator, ROW, run.tokens, boundary, rule.first_seen)
            work = replay.run(rule.spans)
            window = compare(
                self.state.values("window", ROW, *run.window_span(boundary)),
                run.window_rows(boundary),
            )
            logits = self._continue(run.tokens, boundary)
            state = compare(run.state_of(self.state, ROW), run.final_state)
        finally:
            table.release(ROW)
        wanted = run.logits[boundary:]
        return Resumed(
            cut=run.cut,
            boundary=boundary,
            checkpoint=None if rule.checkpoint is None else rule.checkpoint.boundary,
            how=rule.how,
            work=work,
            logits=compare({"logits": logits}, {"logits": wanted}),
            first_token=compare({"logits": logits[:1]}, {"logits": wanted[:1]}),
            same_choices=float((logits.argmax(axis=1) == wanted.argmax(axis=1)).mean()),
            window=window,
            state=state,
        )

    def _restore(self, pages: FoundPages, checkpoint: Checkpoint | None) -> None:
        for index, rows in enumerate(pages.pages):
            size = pages.tokens // len(pages.pages)
            self.state.write("compressed", ROW, index * size, (index + 1) * size, rows)
        if checkpoint is not None:
            at = checkpoint.boundary
            self.state.write("window", ROW, checkpoint.first, at, checkpoint.window)
            overlap_rows = len(next(iter(checkpoint.overlap.values()), ()))
            self.state.write("overlap", ROW, at - overlap_rows, at, checkpoint.overlap)

    def _continue(self, tokens: NDArray[np.int64], boundary: int) -> Array:
        """Tail and new tokens in one step, the last ones decoded one by one."""
        chunks = [tokens[boundary : len(tokens) - DECODED_TOKENS]]
        chunks += [tokens[at : at + 1] for at in range(len(tokens) - DECODED_TOKENS, len(tokens))]
        with np.errstate(all="ignore"):  # NaN is what a wrong rule ends in
            return np.concatenate([self.evaluator.step([(ROW, chunk)]).logits for chunk in chunks])
