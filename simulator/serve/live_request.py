"""A request on its way through a replica."""

from __future__ import annotations

from dataclasses import dataclass

UNSET = -1


@dataclass(slots=True, eq=False)
class LiveRequest:
    """`index`: its row in the results. Times are on the simulated clock, -1 where not yet known.

    `hit_tokens` need no computing; `prompt_tokens` (input, and after a preemption what was already
    answered) are computed from there on in chunks, `computed_tokens` of them so far. `ready_ns`:
    when what is restored has been loaded. `prefilled_tokens`: tokens that prompt steps computed for
    it in all, after preemptions again. `shared_tokens`: of its context, those in pages of the
    prefix cache, which it does not hold itself. `received`: its state came from a prefill replica.
    `prefix_tokens`: of its input, those hit when it was first taken, before it ever gave way.
    `swapped_tokens`: of its state, those that wait in host memory. `sent_ns`: when its client sent
    it; HTTP and the tokenizer lie between that and `arrival_ns`.
    `joined`: decode steps of the replica when it began to decode; it has finished after
    `finish_step`.
    """

    index: int
    arrival_ns: int
    input_tokens: int
    output_tokens: int
    prompt_tokens: int = 0
    hit_tokens: int = 0
    prefix_tokens: int = 0
    computed_tokens: int = 0
    answered_tokens: int = 0
    ready_ns: int = 0
    admitted_ns: int = UNSET
    first_token_ns: int = UNSET
    finish_ns: int = UNSET
    preemptions: int = 0
    recomputed_tokens: int = 0
    prefilled_tokens: int = 0
    joined: int = 0
    context_at_join: float = 0.0
    finish_step: int = 0
    order: int = 0
    shared_tokens: int = 0
    received: bool = False
    swapped_tokens: int = 0
    sent_ns: int = UNSET

    def __post_init__(self) -> None:
        self.prompt_tokens = self.prompt_tokens or self.input_tokens
        if self.sent_ns == UNSET:
            self.sent_ns = self.arrival_ns

    @property
    def waiting_tokens(self) -> int:
        """Tokens of the prompt that are still to be computed."""
        return self.prompt_tokens - self.hit_tokens - self.computed_tokens

    @property
    def held_tokens(self) -> int:
        """Tokens of the prompt, and of the first answer, in pages of its own."""
        return self.prompt_tokens + 1 - self.shared_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt whose state exists."""
        return self.hit_tokens + self.computed_tokens
