"""Memory of a step: the account of `v4sim capacity` for the requests of the step."""

from __future__ import annotations

from simulator.basis.errors import DoesNotFitError
from simulator.basis.whole import ceil_div
from simulator.cost.question import AskedStep
from simulator.cost.result import MemoryUse
from simulator.layout.capacity import Capacity, capacity_of
from simulator.layout.capacity_question import CapacityQuestion, ContextShare
from simulator.layout.verdict import judge

# Tokens in flight that engines set workspace aside for, whatever a step has.
USUAL_STEP_TOKENS = 8192


def step_capacity(asked: AskedStep) -> Capacity:
    """What the deployment holds of the step's requests."""
    question, data = asked.question, asked.deployment.parallel.data
    new = 1 if question.phase == "decode" else question.new_tokens
    return capacity_of(
        CapacityQuestion(
            deployment=asked.deployment,
            contexts=(ContextShare(context_tokens=question.context, share=1.0),),
            in_flight_tokens=new,
            workspace_tokens=max(USUAL_STEP_TOKENS, new * ceil_div(question.batch, data)),
            wanted_requests=question.batch,
        )
    )


def step_memory(asked: AskedStep, *, must_fit: bool = True) -> MemoryUse:
    """Memory of the busiest rank. Raises `DoesNotFitError` with what would fit."""
    capacity = step_capacity(asked)
    use = memory_of(asked, capacity)
    if capacity.is_enough or not must_fit:
        return use
    question = asked.question
    raise DoesNotFitError(
        f"{question.model} on {question.count} x {question.chip} as {question.layout} under "
        f"{asked.deployment.profile.name} {judge(capacity).sentence}".replace(
            "--requests", "--batch"
        ).replace("--in-flight-tokens", "--new-tokens"),
        demand_bytes=use.used_bytes,
        capacity_bytes=use.capacity_bytes,
    )


def memory_of(asked: AskedStep, capacity: Capacity) -> MemoryUse:
    """Terms of the account, with the pages that the requests hold by pool.

    Assumes: what an engine sets aside for requests that the step has not is left free.
    """
    requests = ceil_div(asked.question.batch, asked.deployment.parallel.data)
    (fit,) = capacity.fits
    return MemoryUse(
        weight_bytes=capacity.weight_bytes,
        state_bytes_by_pool={charge.name: requests * charge.nbytes for charge in fit.charges},
        workspace_bytes=capacity.activation_bytes,
        capacity_bytes=capacity.question.pool_bytes_allowed,
    )
