"""Reads what a user asks of a deployment's capacity into a checked question with its facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import find_node
from simulator.basis.errors import InputError, UndividedError, UnsupportedError, unknown_name
from simulator.layout.cache_layout import CacheLayout
from simulator.layout.sizing_rules import WindowSizing
from simulator.lower.default_engine import default_engine
from simulator.lower.profile import find_profile, layout_of
from workloads.deepseek_v4.config import ModelConfig, find_model
from workloads.deepseek_v4.precision import EXPERT_DTYPES
from workloads.parallel import ParallelLayout

MOST_CHIPS = 2**14
MOST_TOKENS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShare:
    """Requests of one context length, as a share of all."""

    context_tokens: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuestion:
    """A deployment and what it is to hold.

    `ranks` = tensor x data x stages chips. `in_flight_tokens`: most tokens of a step;
    `wanted_requests`: concurrent requests asked for, or None for as many as fit.
    """

    config: ModelConfig
    chip: ChipSpec
    engine: str
    layout: CacheLayout
    parallel: ParallelLayout
    stages: int
    context_parallel: int
    kv: str
    index: str
    expert: str
    contexts: tuple[ContextShare, ...]
    in_flight_tokens: int
    draft_tokens: int
    mtp: bool
    memory_share: float
    wanted_requests: int | None
    notes: tuple[str, ...] = field(default=())

    @property
    def chips(self) -> int:
        """Chips in all."""
        return self.parallel.ranks * self.stages

    @property
    def longest_context(self) -> int:
        """Longest context of the mix."""
        return max(part.context_tokens for part in self.contexts)

    @property
    def pool_bytes_allowed(self) -> int:
        """Device memory that the engine may use on one chip."""
        return int(self.chip.hbm_capacity_bytes * self.memory_share)


def ask_capacity(
    *,
    model: str,
    chip: str,
    count: int = 1,
    tp: int | None = None,
    dp: int = 1,
    ep: int | None = None,
    pp: int = 1,
    cp: int = 1,
    engine: str | None = None,
    contexts: str = "131072",
    requests: int | None = None,
    in_flight_tokens: int = 8192,
    draft_tokens: int = 0,
    kv_dtype: str | None = None,
    index_dtype: str | None = None,
    expert_dtype: str | None = None,
    memory_share: float | None = None,
    max_requests: int | None = None,
) -> CapacityQuestion:
    """Check and complete a question; every fault is one sentence.

    `contexts`: tokens, or a mix such as `8192:0.7,131072:0.3`. Raises UnsupportedError for what
    the engine or the model cannot do.
    """
    config, spec = find_model(model), find_chip(chip)
    profile = find_profile(default_engine(spec) if engine is None else engine)
    layout = _limited(layout_of(profile), max_requests, profile.name)
    find_node(chip, _whole("count", count, 1, MOST_CHIPS))
    parallel = _parallel(config, count, tp, dp, ep, _whole("pp", pp, 1, config.num_hidden_layers))
    _check_context_parallel(_whole("cp", cp, 1, MOST_CHIPS), parallel, layout, profile.name)
    question = CapacityQuestion(
        config=config,
        chip=spec,
        engine=profile.name,
        layout=layout,
        parallel=parallel,
        stages=pp,
        context_parallel=cp,
        kv=_stored(kv_dtype, layout.formats.kv),
        index=_stored(index_dtype, layout.formats.index),
        expert=_expert(expert_dtype, config, spec),
        contexts=read_contexts(contexts, config),
        in_flight_tokens=_whole("in-flight tokens", in_flight_tokens, 1, MOST_TOKENS),
        draft_tokens=_whole("draft tokens", draft_tokens, 0, 64),
        mtp=draft_tokens > 0 and config.mtp_layers > 0,
        memory_share=_share(memory_share, layout.memory.share),
        wanted_requests=None if requests is None else _whole("requests", requests, 1, MOST_TOKENS),
    )
    _check_slots(question)
    return question


def read_contexts(text: str, config: ModelConfig) -> tuple[ContextShare, ...]:
    """Context lengths with their shares, which need not add up to 1."""
    parts = []
    for item in text.split(","):
        tokens, _, weight = item.strip().partition(":")
        try:
            part = ContextShare(context_tokens=int(tokens), share=float(weight or 1))
        except ValueError:
            raise InputError(
                f"context {item.strip()!r} cannot be read; give tokens, such as 131072, or a mix, "
                "such as 8192:0.7,131072:0.3"
            ) from None
        _whole("context", part.context_tokens, 1, MOST_TOKENS)
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


def _stored(given: str | None, known: dict[str, str]) -> str:
    return next(iter(known)) if given is None else given


def _whole(what: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        gap = f"{least - value:,} too few" if value < least else f"{value - most:,} too many"
        raise InputError(f"{what} is {value:,}, expected {least:,} to {most:,} ({gap})")
    return value


def _share(given: float | None, default: float) -> float:
    if given is None:
        return default
    if not 0 < given <= 1:
        raise InputError(
            f"memory share is {given:g}, expected more than 0 and at most 1; the engine's own "
            f"is {default:g}"
        )
    return given


def _expert(given: str | None, config: ModelConfig, chip: ChipSpec) -> str:
    if given is not None and given not in EXPERT_DTYPES:
        raise InputError(unknown_name("expert dtype", given, EXPERT_DTYPES))
    if given is None and config.expert_dtype == "fp4" and chip.matrix_flops_per_s("fp4") is None:
        return "fp8"
    return given or config.expert_dtype


def _parallel(
    config: ModelConfig, count: int, tp: int | None, dp: int, ep: int | None, pp: int
) -> ParallelLayout:
    _whole("dp", dp, 1, MOST_CHIPS)
    if tp is None:
        if count % (dp * pp):
            raise InputError(
                f"dp {dp} x pp {pp} does not divide the {count} chips; count = tp x dp x pp"
            )
        tp = count // (dp * pp)
    if _whole("tp", tp, 1, MOST_CHIPS) * dp * pp != count:
        raise InputError(
            f"tp {tp} x dp {dp} x pp {pp} is {tp * dp * pp} chips, but --count is {count}; "
            "count = tp x dp x pp"
        )
    both = gcd(config.num_attention_heads, config.o_groups)
    for what, size in (("heads", config.num_attention_heads), ("output groups", config.o_groups)):
        if size % tp:
            ranks = tp * dp
            near = max(d for d in range(1, min(tp, both) + 1) if both % d == 0 == ranks % d)
            raise UndividedError(
                f"tp {tp} does not divide the {size} {what} of {config.name} "
                f"({size % tp} left over); try tp {near} with dp {ranks // near}"
            )
    if ep is None:
        # Attention replicas have the experts spread over all ranks, or as many as divide them:
        # every rank would hold them all else.
        ep = gcd(tp * dp, config.n_routed_experts) if dp > 1 else 1
    return ParallelLayout(tp, dp, ep)


def _check_context_parallel(
    cp: int, parallel: ParallelLayout, layout: CacheLayout, engine: str
) -> None:
    if cp == 1:
        return
    if parallel.tensor == 1:
        raise InputError(
            f"cp {cp} shares a request's entries among a tensor group, but with tp 1 each rank is "
            f"a group of its own; try tp {cp}"
        )
    if parallel.tensor % cp:
        raise InputError(
            f"cp {cp} does not divide the {parallel.tensor} ranks of a tensor group, which share "
            f"the entries of a request; try cp {parallel.tensor}"
        )
    if not layout.context_parallel:
        raise UnsupportedError(
            f"{engine} keeps a request's compressed entries whole on every rank, so cp {cp} is not "
            f"supported; nearest: dp {parallel.tensor} with tp 1, which keeps a request on one rank"
        )


def _limited(layout: CacheLayout, max_requests: int | None, engine: str) -> CacheLayout:
    if max_requests is None:
        return layout
    _whole("max requests", max_requests, 1, 2**20)
    if not isinstance(layout.sizing, WindowSizing):
        raise InputError(
            f"--max-requests is given, but {engine} sets no state aside for a number of requests; "
            "leave it out"
        )
    sizing = layout.sizing.model_copy(update={"max_requests": max_requests})
    return layout.model_copy(update={"sizing": sizing})


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
