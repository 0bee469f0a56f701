"""Reads what a user asks of a deployment's capacity into a checked question with its facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError, UndividedError
from simulator.basis.sizes import read_tokens
from simulator.basis.whole import within
from simulator.deployment import Deployment, Formats, ask_deployment
from simulator.engine.cache_layout import CacheLayout, OutsideCache
from simulator.engine.sizing_rules import WindowSizing
from workloads.deepseek_v4.config import ModelConfig
from workloads.parallel import ParallelLayout

MOST_TOKENS = 2**40
# Tokens in flight that engines set workspace aside for, whatever a step has.
USUAL_STEP_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShare:
    """Requests of one context length, as a share of all."""

    context_tokens: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuestion:
    """A deployment and what it is to hold.

    `in_flight_tokens`: most tokens of a step, which a request holds before older ones are freed;
    `follows_engine` says that they are those of the engine's steps, whatever its layout;
    `workspace_tokens`: those that workspace is set aside for, where it is for more.
    `wanted_requests`: concurrent requests asked for, or None for as many as fit;
    `running_requests`: most that a replica lets run, where that is not for want of memory.
    """

    deployment: Deployment
    contexts: tuple[ContextShare, ...]
    in_flight_tokens: int
    draft_tokens: int = 0
    mtp: bool = False
    wanted_requests: int | None = None
    workspace_tokens: int = 0
    running_requests: int | None = None
    follows_engine: bool = False

    def changed(self, **changes: Any) -> CapacityQuestion:
        """The question of a deployment that differs in some fields or formats."""
        deployment = self.deployment.changed(**changes)
        tokens = deployment.step_tokens if self.follows_engine else self.in_flight_tokens
        return replace(self, deployment=deployment, in_flight_tokens=tokens)

    @property
    def config(self) -> ModelConfig:
        """The model."""
        return self.deployment.config

    @property
    def chip(self) -> ChipSpec:
        """The chip."""
        return self.deployment.chip

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.deployment.profile.name

    @property
    def layout(self) -> CacheLayout:
        """How the engine stores the cache."""
        return self.deployment.layout

    @property
    def parallel(self) -> ParallelLayout:
        """Degrees of a pipeline stage."""
        return self.deployment.parallel

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return self.deployment.stages

    @property
    def formats(self) -> Formats:
        """Stored formats."""
        return self.deployment.formats

    @property
    def chips(self) -> int:
        """Chips in all."""
        return self.deployment.chips

    @property
    def longest_context(self) -> int:
        """Longest context of the mix."""
        return max(part.context_tokens for part in self.contexts)

    @property
    def outside(self) -> dict[str, OutsideCache]:
        """Memory of a chip that is neither weights, activations nor cache, by term."""
        memory, chip = self.layout.memory, self.chip
        repacks = self.formats.expert == "fp4" and chip.matrix_flops_per_s("fp4") is None
        terms = {
            "runtime": memory.runtime,
            "repacked experts": memory.repacked if repacks else None,
        }
        return {name: term for name, term in terms.items() if term is not None}

    @property
    def pool_bytes_allowed(self) -> int:
        """Device memory for weights and pools (and workspace, by engine) on one chip."""
        own = {name: term.nbytes for name, term in self.outside.items()}
        own.pop("runtime", 0)
        return int(self._there * self.deployment.memory_share) - sum(own.values())

    def workspace_taken(self, activation_bytes: int) -> int:
        """What a step's activations take of that: all, or what does not fit beside the share."""
        if self.layout.memory.workspace_inside:
            return activation_bytes
        beside = self._there - int(self._there * self.deployment.memory_share)
        return max(0, activation_bytes - beside)

    @property
    def _there(self) -> int:
        """Device memory before weights are loaded."""
        runtime = self.layout.memory.runtime
        return self.chip.hbm_capacity_bytes - (runtime.nbytes if runtime else 0)


def ask_capacity(
    *,
    contexts: str = "131072",
    requests: int | None = None,
    in_flight_tokens: int | None = None,
    draft_tokens: int = 0,
    running_requests: int | None = None,
    **deployment: Any,
) -> CapacityQuestion:
    """Check and complete a question; every fault is one sentence.

    `contexts`: tokens, or a mix such as `8192:0.7,131072:0.3`; `deployment` as of `ask_deployment`,
    whose tokens a step are in flight where no others are given.
    Raises UnsupportedError for what the engine or the model cannot do.
    """
    asked = ask_deployment(**deployment)
    _check_divides(asked)
    drafts = within("draft tokens", draft_tokens, 0, 64)
    question = CapacityQuestion(
        deployment=asked,
        contexts=read_contexts(contexts, asked.config),
        in_flight_tokens=asked.step_tokens
        if in_flight_tokens is None
        else within("in-flight tokens", in_flight_tokens, 1, MOST_TOKENS),
        follows_engine=in_flight_tokens is None,
        running_requests=running_requests,
        draft_tokens=drafts,
        mtp=drafts > 0 and asked.config.mtp_layers > 0,
        wanted_requests=None if requests is None else within("requests", requests, 1, MOST_TOKENS),
    )
    _check_slots(question)
    return question


def read_contexts(text: str, config: ModelConfig) -> tuple[ContextShare, ...]:
    """Context lengths with their shares, which need not add up to 1."""
    parts = []
    for item in text.split(","):
        tokens, _, weight = item.strip().partition(":")
        try:
            share = float(weight or 1)
            part = ContextShare(context_tokens=read_tokens(tokens), share=share)
        except (ValueError, InputError):
            raise InputError(
                f"context {item.strip()!r} cannot be read; give tokens, such as 131072 or 128K, or "
                "a mix, such as 8192:0.7,131072:0.3"
            ) from None
        within("context", part.context_tokens, 1, MOST_TOKENS)
        longest = config.max_position_embeddings
        if part.context_tokens > longest:
            raise InputError(
                f"context is {part.context_tokens:,} tokens, but {config.name} takes at most "
                f"{longest:,} ({part.context_tokens - longest:,} too many); try --context {longest}"
            )
        if not 0 < part.share <= MOST_TOKENS:
            raise InputError(
                f"share of context {tokens} is {weight}, expected more than 0 and at most "
                f"{MOST_TOKENS:,}"
            )
        parts.append(part)
    total = sum(part.share for part in parts)
    return tuple(
        ContextShare(context_tokens=p.context_tokens, share=p.share / total) for p in parts
    )


def _check_divides(asked: Deployment) -> None:
    config, tp, dp = asked.config, asked.parallel.tensor, asked.parallel.data
    both = gcd(config.num_attention_heads, config.o_groups)
    for what, size in (("heads", config.num_attention_heads), ("output groups", config.o_groups)):
        if size % tp:
            ranks = tp * dp
            near = max(d for d in range(1, min(tp, both) + 1) if both % d == 0 == ranks % d)
            raise UndividedError(
                f"tp {tp} does not divide the {size} {what} of {config.name} "
                f"({size % tp} left over); try tp {near} with dp {ranks // near}"
            )


def _check_slots(question: CapacityQuestion) -> None:
    sizing = question.layout.sizing
    if not isinstance(sizing, WindowSizing) or question.wanted_requests is None:
        return
    slots = sizing.max_requests * question.parallel.data
    if question.wanted_requests > slots:
        raise InputError(
            f"{question.wanted_requests:,} requests are asked for, but {question.engine} has slots "
            f"for {slots:,} ({sizing.max_requests:,} a replica, "
            f"{question.wanted_requests - slots:,} too many); try --max-requests "
            f"{-(-question.wanted_requests // question.parallel.data)}"
        )
