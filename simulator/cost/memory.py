"""Memory of a step: the account of `v4sim capacity` for the requests of the step."""

from __future__ import annotations

from simulator.basis.errors import DoesNotFitError, InputError
from simulator.basis.whole import ceil_div
from simulator.capacity.capacity import Capacity, capacity_of
from simulator.capacity.capacity_question import CapacityQuestion, ContextShare
from simulator.capacity.verdict import judge
from simulator.cost.question import AskedStep
from simulator.cost.result import MemoryUse


def step_capacity(asked: AskedStep) -> Capacity:
    """What the deployment holds of the step's requests."""
    question, data = asked.question, asked.deployment.parallel.data
    new = 1 if question.phase == "decode" else question.new_tokens
    return capacity_of(
        CapacityQuestion(
            deployment=asked.deployment,
            contexts=(ContextShare(context_tokens=question.context, share=1.0),),
            in_flight_tokens=new,
            workspace_tokens=max(
                asked.deployment.step_tokens, new * ceil_div(question.batch, data)
            ),
            wanted_requests=question.batch,
            draft_tokens=question.draft_tokens,
            mtp=question.draft_tokens > 0,
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
    # What an engine leaves beside its share holds the workspace, as far as it goes.
    workspace = capacity.activation_bytes
    beside = workspace - capacity.question.workspace_taken(workspace)
    return MemoryUse(
        weight_bytes=capacity.weight_bytes,
        state_bytes_by_pool={charge.name: requests * charge.nbytes for charge in fit.charges},
        workspace_bytes=workspace,
        capacity_bytes=capacity.question.pool_bytes_allowed + beside,
    )


def room_note(asked: AskedStep) -> str | None:
    """What is wrong with the room for the requests of a question; None where they fit.

    As `v4sim capacity` counts it, with the engine's own tokens in flight.
    """
    question = asked.question
    try:
        capacity = capacity_of(
            CapacityQuestion(
                deployment=asked.deployment,
                contexts=(ContextShare(context_tokens=question.context, share=1.0),),
                in_flight_tokens=asked.deployment.step_tokens,
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
