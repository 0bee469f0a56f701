"""Time of a prompt served alone, in chunks as a scheduler would cut it."""

from __future__ import annotations

from collections.abc import Callable

from simulator.cost.step_clock import DecodeGroup, PromptChunk, StepClock
from workloads.step_shape import StepShape


class PrefillClock:
    """Prefill and decode times of one request, in ns.

    `total_ps`: a step's cost. `knee_tokens`: see StepClock. `chunk_tokens`: largest step.

    Assumes: a prompt served alone runs in steps of `chunk_tokens`, one after the other.
    """

    def __init__(
        self, total_ps: Callable[[StepShape], int], knee_tokens: int, chunk_tokens: int = 8192
    ) -> None:
        self._clock = StepClock(total_ps, knee_tokens)
        self.chunk_tokens = chunk_tokens
        self._known: dict[tuple[int, int], int] = {}
        self._from_start = [0]  # of whole chunks from the first token on

    def prefill_ns(self, new: int, past: int) -> int:
        """Time to compute `new` tokens after `past`; 0 for none."""
        total = 0
        if past == 0 and new > self.chunk_tokens:
            whole, known, chunk = new // self.chunk_tokens, self._from_start, self.chunk_tokens
            while len(known) <= whole:
                known.append(known[-1] + self._step(chunk, (len(known) - 1) * chunk))
            total, past = known[whole], whole * chunk
            new -= past
        while new > 0:
            chunk = min(new, self.chunk_tokens)
            total += self._step(chunk, past)
            past += chunk
            new -= chunk
        return total

    def token_ns(self, context: int) -> int:
        """Time of one reply token at a context."""
        return round(self._clock.decode_ns([DecodeGroup(requests=1, context_sum=context)]))

    def _step(self, new: int, past: int) -> int:
        key = (new, past)
        if key not in self._known:
            self._known[key] = round(self._clock.step_ns([], [PromptChunk(new, past)]))
        return self._known[key]
