"""How a replica fills its steps: limits of a step, and whether prompts or answers go first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.serve.host import NO_HOST, HostTime

Order = Literal["decode-first", "prefill-first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRule:
    """`decode-first`: every step has a token of each decoding request, and prompts in what is left
    of `step_tokens` (chunked prefill; each of `data_ranks` has so many, a prompt is on one rank).
    `prefill-first`: prompts that have been admitted run alone, answers wait. `tokens_per_step`:
    mean tokens that a request gains in a decode step (1 without speculation); `new_per_request`:
    those that the step computes for it (1 + drafts). `step_overhead_ns`: what the host adds to
    every step; `preempt`: what becomes of a request that has to give way, and
    `swap_ns_per_token`: time to read a token of its state back from host memory.
    `model_positions`: longest request that the model can take, None where there is no limit.
    `host`: what the host's work makes of a step. `waits_beside_prompts`: whether data ranks that
    step together wait while one of them computes a prompt.
    """

    max_requests: int = 256
    step_tokens: int = 8192
    data_ranks: int = 1
    order: Order = "decode-first"
    tokens_per_step: float = 1.0
    new_per_request: int = 1
    step_overhead_ns: int = 0
    preempt: Literal["recompute", "swap"] = "recompute"
    swap_ns_per_token: float = 0.0
    model_positions: int | None = None
    host: HostTime = NO_HOST
    waits_beside_prompts: bool = False
