"""Phase of a step as kernels see it: decode or prefill, and whether requests add one token each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workloads.step_shape import StepShape, is_in_prompt


@dataclass(frozen=True, slots=True)
class Phase:
    """`decode`: kernels of a decode step run. `single`: every request adds one token."""

    decode: bool
    single: bool


def phase_of(step: StepShape) -> Phase:
    """Phase of a step by its shapes."""
    return Phase(decode=is_decode(step), single=step.tokens == step.batch)


def is_decode(step: StepShape) -> bool:
    """Whether every request adds one token, or so few that they are drafts to be verified.

    Assumes: drafts are verified by the kernels of a decode step, each draft a row of its own (as in
        SGLang 0.5.23, dsv4/indexer.py); a request that adds up to 9 tokens to as many or more is
        taken for one whose drafts are verified.
    """
    return step.total(_in_prompt) == 0


def _in_prompt(new: int, past: int) -> int:
    return new if is_in_prompt(new, past) else 0


def uniform(step: StepShape) -> tuple[Any, Any, Any]:
    """(requests, new, past) of equal requests with the step's tokens and visible tokens.

    Assumes: a ragged batch takes as long as one of equal requests with the same number of tokens,
        the same sum of visible tokens over its queries, and as many new tokens each as the
        request of a token has on average: decoding requests beside a prompt do not split it up.
    """
    visible = step.total(lambda new, past: new * past + new * (new + 1) // 2)
    new = step.total(lambda new, _: new * new) / step.tokens
    return step.tokens / new, new, visible / step.tokens - (new + 1) / 2
