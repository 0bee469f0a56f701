"""What a deployment holds: memory by term, requests by limit, and the term that binds."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.errors import UnsupportedError
from simulator.capacity.capacity_question import CapacityQuestion
from simulator.capacity.fit import Fit, Limit
from simulator.capacity.rank_memory import Stage, activation_bytes, stages_of, weight_bytes
from simulator.capacity.request_pages import Load
from simulator.capacity.sizing import fit_requests
from simulator.engine.physical_layout import CacheGeometry, bind_layout
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A named part of a chip's memory."""

    name: str
    nbytes: int
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Answer for the chip that binds (every data replica is alike; of stages the tightest).

    `fits`: one for each context of the mix, at the cache's budget. `limits`: bounds on concurrent
    requests of the whole deployment at the mix. Byte figures are those of one chip.
    """

    question: CapacityQuestion
    stage: int
    weight_bytes: int
    activation_bytes: int
    reserve_bytes: int
    budget_bytes: int
    fits: tuple[Fit, ...]
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit:
        """The limit that binds."""
        return min(self.limits, key=lambda limit: limit.requests)

    @property
    def requests(self) -> float:
        """Concurrent requests of the mix on all replicas."""
        return max(0.0, self.binding.requests)

    @property
    def whole_requests(self) -> int:
        """Requests that do run at once: whole ones on each replica, none if one never starts."""
        if self.too_long:
            return 0
        replicas = self.question.parallel.data
        return replicas * int(self.requests / replicas + 1e-9)

    @property
    def too_long(self) -> tuple[int, ...]:
        """Contexts of the mix, in tokens, of which not even one request fits a replica alone."""
        pairs = zip(self.question.contexts, self.fits, strict=True)
        return tuple(part.context_tokens for part, fit in pairs if fit.requests < 1)

    @property
    def tokens(self) -> int:
        """Tokens of context that these requests have."""
        mean = sum(p.share * p.context_tokens for p in self.question.contexts)
        return int(self.requests * mean)

    @property
    def wanted(self) -> int:
        """Requests that must run for the deployment to fit: those asked for, or one."""
        return self.question.wanted_requests or 1

    @property
    def is_enough(self) -> bool:
        """Whether what was asked for fits."""
        return self.whole_requests >= self.wanted

    @property
    def _not_of_the_share(self) -> int:
        """Bytes outside what weights and pools may take that have a term of their own."""
        own = sum(term.nbytes for term in self.question.outside.values())
        return own + self.activation_bytes - self.question.workspace_taken(self.activation_bytes)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Memory of the chip, term by term; they add up to its capacity."""
        share = self.question.deployment.memory_share
        tokens = max(self.question.in_flight_tokens, self.question.workspace_tokens)
        missing = Term(name="missing", nbytes=self.budget_bytes, about="before any cache")
        return (
            Term(name="weights", nbytes=self.weight_bytes, about="this chip's share"),
            Term(
                name="activations and workspace",
                nbytes=self.activation_bytes,
                about=f"a step of {tokens:,} tokens",
            ),
            Term(
                name="cache",
                nbytes=max(0, self.budget_bytes),
                about="what is left for the pools",
            ),
            *(
                Term(name=name, nbytes=term.nbytes, about=term.origin)
                for name, term in self.question.outside.items()
            ),
            Term(
                name="left to the runtime",
                nbytes=self.reserve_bytes - self._not_of_the_share,
                about=f"the engine takes {100 * share:g}% of memory",
            ),
            *([missing] if self.budget_bytes < 0 else []),
        )


def capacity_of(question: CapacityQuestion) -> Capacity:
    """Capacity of the stage that holds the fewest requests, or is short of most bytes.

    Raises UnsupportedError for a number of draft tokens that the engine does not take.
    """
    _check_drafts(question)
    weights = weight_bytes(question)
    activations = activation_bytes(question)
    stages = stages_of(question.config.num_hidden_layers, question.stages)
    answers = [
        _stage_capacity(question, i, stage, weights[i], activations)
        for i, stage in enumerate(stages)
    ]
    return min(answers, key=lambda answer: (answer.requests, answer.budget_bytes))


def _stage_capacity(
    question: CapacityQuestion, index: int, stage: Stage, weights: int, activations: int
) -> Capacity:
    budget = question.pool_bytes_allowed - weights - question.workspace_taken(activations)
    geometry = stage_geometry(question, stage)
    fits = tuple(
        fit_requests(geometry, max(0, budget), load_of(question, part.context_tokens))
        for part in question.contexts
    )
    return Capacity(
        question=question,
        stage=index,
        weight_bytes=weights,
        activation_bytes=activations,
        reserve_bytes=question.chip.hbm_capacity_bytes - question.pool_bytes_allowed,
        budget_bytes=budget,
        fits=fits,
        limits=(*_mixed_limits(question, fits), *_running_limit(question)),
    )


def _running_limit(question: CapacityQuestion) -> tuple[Limit, ...]:
    """Requests that a scheduler lets run, whatever memory holds."""
    most = question.running_requests
    if most is None:
        return ()
    about = "the engine's own limit on requests that run"
    return (Limit(name="running requests", requests=most * question.parallel.data, about=about),)


def stage_geometry(question: CapacityQuestion, stage: Stage) -> CacheGeometry:
    """Pools of the stage's layers."""
    layers = question.config.layers[stage.first : stage.stop]
    if question.mtp and stage.last and not _counts_drafts(question):
        layers += question.config.mtp_stages
    return bind_layout(
        question.layout,
        question.config,
        kv=question.formats.kv,
        index=question.formats.index,
        speculative=question.draft_tokens > 0,
        layers=layers,
    )


def _counts_drafts(question: CapacityQuestion) -> bool:
    """Whether the sizing itself adds the draft layers."""
    return question.layout.sizing.kind in ("ratio", "cap")


def load_of(question: CapacityQuestion, context_tokens: int) -> Load:
    """One request of the mix."""
    return Load(
        context_tokens=context_tokens,
        in_flight_tokens=question.in_flight_tokens,
        draft_tokens=question.draft_tokens,
        draft_layers=max(1, question.config.mtp_layers),
        context_parallel=question.deployment.context_parallel,
    )


def _mixed_limits(question: CapacityQuestion, fits: tuple[Fit, ...]) -> tuple[Limit, ...]:
    """Limits at the mix: of each resource, requests take their own share; replicas add up.

    Assumes: requests are spread over the replicas as evenly as their sizes allow.
    """
    replicas = question.parallel.data
    limits = []
    for i, first in enumerate(fits[0].limits):
        taken = [
            part.share / fit.limits[i].requests if fit.limits[i].requests > 0 else float("inf")
            for part, fit in zip(question.contexts, fits, strict=True)
        ]
        about = first.about if len(fits) == 1 else f"mean of {len(fits)} context lengths"
        limits.append(Limit(name=first.name, requests=replicas / sum(taken), about=about))
    return tuple(limits)


def _check_drafts(question: CapacityQuestion) -> None:
    """Raise UnsupportedError for more drafts than rings hold beside what is in reach.

    Source: SGLang 0.5.23: draft tokens of a step are at most ring - window + 2.
    """
    for region in model_state(question.config, Precision()).regions:
        rule = question.layout.pools[region.kind]  # type: ignore[index]
        if rule.draft_reaches is None:
            continue
        reach = region.growth.tokens
        most = (rule.draft_reaches - 1) * reach + 2
        if question.draft_tokens > most:
            raise UnsupportedError(
                f"{question.draft_tokens} draft tokens are asked for, but {question.engine} keeps "
                f"{rule.draft_reaches * reach} rows of pool {region.pool}, enough for {most} "
                f"({question.draft_tokens - most} too many); nearest: --draft-tokens {most}"
            )
