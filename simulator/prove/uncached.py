"""The uncached run of a request: all its tokens in one step, nothing cached before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.evaluate.evaluator import Evaluator
from simulator.prove.cached_state import CachedState
from simulator.prove.replay_count import OVERLAP_ROWS
from workloads.op import Array
from workloads.ops import WriteWindow
from workloads.step_shape import StepShape

ROW = 0


class UncachedRun:
    """Logits [tokens, vocab], window rows of every token, and the state that it leaves.

    `tokens` is a prefix of `cut` tokens and new ones behind it.
    """

    def __init__(self, evaluator: Evaluator, tokens: NDArray[np.int64], cut: int) -> None:
        self.tokens = tokens
        self.cut = cut
        self.window = evaluator.config.sliding_window
        state = CachedState(evaluator)
        state.wipe()
        graph = evaluator.graph(StepShape(((len(tokens), 0),)))
        written = {
            node.updates[0]: node.inputs[0]
            for node in graph.nodes
            if isinstance(node.op, WriteWindow)
        }
        evaluator.table.admit(ROW)
        try:
            out = evaluator.step([(ROW, tokens)], keep=written.values())
            self.final_state = self.state_of(state, ROW)
        finally:
            evaluator.table.release(ROW)
        self.logits: Array = out.logits
        self._rows = {region: out.values[name] for region, name in written.items()}
        assert np.isfinite(self.logits).all(), "the uncached run itself is not finite"

    def window_span(self, boundary: int) -> tuple[int, int]:
        """Tokens whose rows the windows hold at a boundary."""
        return max(0, boundary - self.window), boundary

    def window_rows(self, boundary: int) -> dict[str, NDArray[Any]]:
        """Rows [tokens, dim] of the windows at a boundary, by region."""
        first, stop = self.window_span(boundary)
        return {region: rows[first:stop] for region, rows in self._rows.items()}

    def state_of(self, state: CachedState, row: int) -> dict[str, NDArray[Any]]:
        """All that a request of these tokens caches: windows, entries, overlap rows."""
        end = len(self.tokens)
        return {
            **state.values("window", row, *self.window_span(end)),
            **state.values("compressed", row, 0, end),
            **state.values("overlap", row, max(0, end - OVERLAP_ROWS), end),
        }
