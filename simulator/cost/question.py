"""Reads what a user asks of one step into a checked question with its model, chip and node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.basis.errors import InputError, UnsupportedError, unknown_name
from simulator.cost.draft_pass import check_drafts
from simulator.cost.result import StepQuestion
from simulator.deployment import Deployment, ask_deployment
from workloads.deepseek_v4.config import ModelConfig
from workloads.step_shape import StepShape

PHASES = ("decode", "prefill")
# Beyond these a question is a slip of the hand; a step lists every request and chip.
MOST_REQUESTS = 2**20
FIDELITIES = ("roofline", "tile", "cycle")
_SHAPE = ("phase", "batch", "context", "new_tokens", "fidelity", "draft_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStep:
    """A step of a deployment; `question` says the same by names."""

    deployment: Deployment
    question: StepQuestion

    def changed(self, **changes: Any) -> AskedStep:
        """The step with another shape or fidelity, or of a deployment that differs."""
        question = self.question
        shape = {name: changes.pop(name, getattr(question, name)) for name in _SHAPE}
        return step_of_deployment(self.deployment.changed(**changes), **shape)

    @property
    def config(self) -> ModelConfig:
        """The model."""
        return self.deployment.config

    @property
    def chip(self) -> ChipSpec:
        """The chip."""
        return self.deployment.chip

    @property
    def node(self) -> NodeSpec:
        """What joins the chips."""
        return self.deployment.node


def ask(
    *,
    phase: str = "decode",
    batch: int = 1,
    context: int = 8192,
    new_tokens: int | None = None,
    fidelity: str = "tile",
    draft_tokens: int = 0,
    **deployment: Any,
) -> AskedStep:
    """Check and complete a question; every fault is one `InputError` sentence.

    `deployment` as of `ask_deployment`; steps of pipeline stages and of ranks that share entries
    are not timed.
    """
    if phase not in PHASES:
        raise InputError(unknown_name("phase", phase, PHASES))
    asked = ask_deployment(**deployment)
    _limited("batch", batch, MOST_REQUESTS)
    new = _new_tokens(phase, _checked_context(asked.config, context), new_tokens)
    check_drafts(asked, draft_tokens, phase)
    if context <= draft_tokens:
        raise InputError(
            f"context is {context:,} tokens, but a request has {draft_tokens:,} drafts and the "
            f"token before them in the step ({draft_tokens + 1 - context:,} too few); raise "
            "--context, which counts them"
        )
    return step_of_deployment(asked, phase, batch, context, new, fidelity, draft_tokens)


def step_of_deployment(
    asked: Deployment, phase: str, batch: int, context: int, new_tokens: int, fidelity: str,
    draft_tokens: int = 0,
) -> AskedStep:  # fmt: skip
    """A step of a checked deployment. Raises UnsupportedError for one that is not timed."""
    if fidelity not in FIDELITIES:
        raise InputError(unknown_name("fidelity", fidelity, FIDELITIES))
    if asked.stages > 1 or asked.context_parallel > 1:
        what = f"pp {asked.stages}" if asked.stages > 1 else f"cp {asked.context_parallel}"
        raise UnsupportedError(
            f"a step with {what} is not timed; v4sim capacity counts its memory, and v4sim serve "
            "times whole pipelines; nearest: pp 1 with cp 1"
        )
    question = StepQuestion(
        model=asked.config.name,
        chip=asked.chip.name,
        count=asked.chips,
        layout=asked.parallel,
        phase=phase,
        batch=batch,
        context=context,
        new_tokens=new_tokens,
        fidelity=fidelity,
        engine=asked.engine,
        index_dtype=asked.formats.index,
        expert_dtype=asked.formats.expert,
        kv_dtype=asked.formats.kv,
        page_tokens=asked.layout.page_tokens,
        draft_tokens=draft_tokens,
    )
    return AskedStep(deployment=asked, question=question)


def step_of(question: StepQuestion) -> StepShape:
    """New and past tokens of all requests of a question."""
    new = 1 + question.draft_tokens if question.phase == "decode" else question.new_tokens
    return StepShape.uniform(question.batch, new, question.context - new)


def _at_least_one(what: str, value: int) -> int:
    if value < 1:
        raise InputError(f"{what} must be at least 1, but {value} was given ({1 - value} too few)")
    return value


def _limited(what: str, value: int, most: int) -> int:
    _at_least_one(what, value)
    if value > most:
        raise InputError(
            f"{what} is {value:,}, but at most {most:,} can be costed in one step "
            f"({value - most:,} too many)"
        )
    return value


def _checked_context(config: ModelConfig, context: int) -> int:
    _at_least_one("context", context)
    longest = config.max_position_embeddings
    if context > longest:
        raise InputError(
            f"context is {context:,} tokens, but {config.name} takes at most {longest:,} "
            f"({context - longest:,} too many); try --context {longest}"
        )
    return context


def _new_tokens(phase: str, context: int, new_tokens: int | None) -> int:
    if phase == "decode":
        if new_tokens not in (None, 1):
            raise InputError(
                f"a decode step adds 1 token a request, but --new-tokens {new_tokens} was given; "
                "leave it out or use --phase prefill"
            )
        return 1
    new = context if new_tokens is None else _at_least_one("new-tokens", new_tokens)
    if new > context:
        raise InputError(
            f"new-tokens is {new:,}, but a request has only {context:,} tokens after the step "
            f"({new - context:,} too many); raise --context, which counts past and new tokens"
        )
    return new
