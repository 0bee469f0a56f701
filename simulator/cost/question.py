"""Reads what a user asks of one step into a checked question with its model, chip and node."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import NodeSpec, find_node
from simulator.basis.errors import InputError, unknown_name
from simulator.cost.result import StepQuestion
from simulator.lower.default_engine import default_engine
from simulator.lower.profile import EngineProfile, find_profile
from workloads.deepseek_v4.config import ModelConfig, find_model
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout

PHASES = ("decode", "prefill")
# Beyond these a question is a slip of the hand; a step lists every request and chip.
MOST_REQUESTS = 2**20
MOST_CHIPS = 2**14
FIDELITIES = ("roofline", "tile", "cycle")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStep:
    """A question with the facts that it names."""

    question: StepQuestion
    config: ModelConfig
    chip: ChipSpec
    node: NodeSpec


def ask(
    *,
    model: str,
    chip: str,
    count: int = 1,
    tp: int | None = None,
    dp: int = 1,
    ep: int = 1,
    phase: str = "decode",
    batch: int = 1,
    context: int = 8192,
    new_tokens: int | None = None,
    fidelity: str = "tile",
    engine: str | None = None,
    index_dtype: str = "fp8",
    expert_dtype: str | None = None,
    kv_dtype: str = "fp8",
    page_tokens: int | None = None,
) -> AskedStep:
    """Check and complete a question; every fault is one `InputError` sentence.

    An engine that is not named is the chip's default.
    """
    config, spec = find_model(model), find_chip(chip)
    node = find_node(chip, _limited("count", count, MOST_CHIPS))
    if phase not in PHASES:
        raise InputError(unknown_name("phase", phase, PHASES))
    if fidelity not in FIDELITIES:
        raise InputError(unknown_name("fidelity", fidelity, FIDELITIES))
    _limited("batch", batch, MOST_REQUESTS)
    new = _new_tokens(phase, _checked_context(config, context), new_tokens)
    expert = default_expert_dtype(config, spec) if expert_dtype is None else expert_dtype
    Precision(expert=expert, index=index_dtype, kv=kv_dtype)
    question = StepQuestion(
        model=config.name,
        chip=spec.name,
        count=count,
        layout=_layout(count, tp, dp, ep),
        phase=phase,
        batch=batch,
        context=context,
        new_tokens=new,
        fidelity=fidelity,
        engine=default_engine(spec) if engine is None else engine,
        index_dtype=index_dtype,
        expert_dtype=expert,
        kv_dtype=kv_dtype,
        page_tokens=page_tokens,
    )
    return AskedStep(question=question, config=config, chip=spec, node=node)


def profile_of(question: StepQuestion) -> EngineProfile:
    """The engine's profile, with the pages that were asked for."""
    return find_profile(question.engine, question.page_tokens)


def default_expert_dtype(config: ModelConfig, chip: ChipSpec) -> str:
    """As in the checkpoint; FP4 is repacked to FP8 (one byte a weight) for chips without FP4."""
    if config.expert_dtype == "fp4" and chip.matrix_flops_per_s("fp4") is None:
        return "fp8"
    return config.expert_dtype


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


def _layout(count: int, tp: int | None, dp: int, ep: int) -> ParallelLayout:
    _at_least_one("dp", dp)
    if tp is None:
        if count % dp:
            raise InputError(f"dp {dp} does not divide the {count} chips; count = tp x dp")
        tp = count // dp
    if _at_least_one("tp", tp) * dp != count:
        raise InputError(
            f"tp {tp} x dp {dp} is {tp * dp} chips, but --count is {count}; count = tp x dp"
        )
    if count % _at_least_one("ep", ep):
        divisors = ", ".join(str(d) for d in range(1, count + 1) if count % d == 0)
        raise InputError(f"ep {ep} does not divide the {count} chips; try one of {divisors}")
    return ParallelLayout(tensor=tp, data=dp, expert=ep)
