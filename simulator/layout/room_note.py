"""Whether an engine's pools hold what a step or a replay prices, in a sentence."""

from __future__ import annotations

from simulator.basis.errors import InputError
from simulator.cost.question import AskedStep
from simulator.layout.capacity import capacity_of
from simulator.layout.capacity_question import CapacityQuestion, ContextShare

STEP_TOKENS = 8192


def room_note(asked: AskedStep) -> str | None:
    """What is wrong with the room for the requests of a question; None where they fit.

    As `v4sim capacity` counts it, with 8,192 tokens in flight.
    """
    question = asked.question
    try:
        capacity = capacity_of(
            CapacityQuestion(
                deployment=asked.deployment,
                contexts=(ContextShare(context_tokens=question.context, share=1.0),),
                in_flight_tokens=STEP_TOKENS,
            )
        )
    except InputError:
        return None
    if capacity.budget_bytes < 0:
        over = -capacity.budget_bytes / 2**30
        return (
            f"{question.model} with experts in {question.expert_dtype} does not fit "
            f"{question.count} x {question.chip} as {question.layout}: weights and workspace "
            f"exceed what {question.engine} may use of a chip by {over:,.2f} GiB, and times are "
            "as if they did fit (v4sim capacity says what would)"
        )
    if capacity.requests < question.batch:
        return (
            f"pools of {question.engine} hold {capacity.requests:,.2f} requests of "
            f"{question.context:,} tokens, not the {question.batch:,} of this step (v4sim capacity "
            "says why)"
        )
    return None
