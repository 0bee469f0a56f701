"""From a scenario to what a replica runs on: a clock for its steps and its cache memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from hwmodels.node import NodeSpec
from simulator.basis.errors import DoesNotFitError, InputError, UnsupportedError
from simulator.basis.whole import ceil_div
from simulator.capacity.capacity import Capacity, capacity_of, load_of, stage_geometry
from simulator.capacity.capacity_question import CapacityQuestion, ask_capacity
from simulator.capacity.rank_memory import stages_of
from simulator.cost.draft_pass import BlockDraftedStep, check_drafts
from simulator.cost.question import AskedStep, step_of_deployment
from simulator.cost.step_clock import PromptChunk, StepClock
from simulator.cost.step_timer import StepTimer
from simulator.deployment import Deployment
from simulator.engine.physical_layout import CacheGeometry
from simulator.serve.decode_batch import Clock
from simulator.serve.expert_load import DEFAULT_ZIPF, ExpertLoad
from simulator.serve.host import NO_HOST, HostTime, host_time
from simulator.serve.rank_clock import BesideClock, Padding, RankClock, unpadded
from simulator.serve.resources import Resource, resources_of
from simulator.serve.scenario import Parallel, Scenario
from simulator.serve.scheduler_rule import SchedulerRule
from workloads.step_shape import StepShape

Duration = Callable[[StepShape], int]


class DraftedStep:
    """Adds to the time of a backbone's step that of the drafts for the next one, in ps.

    `pass_ps` times a pass of an MTP layer, which sees only a window of `window_tokens`; `passes`
    of them make the `draft_tokens` of a step, each by the next of `layers` MTP layers and all
    further ones by the last.

    Assumes: drafts are made by passes of MTP layers and the head after the backbone's step: a
        layer's first pass is over all tokens of the step (those of prompts too), further ones of
        the last over one token of each decoding request. A drafter of whole blocks (DSpark) costs
        one pass of that layer.
    """

    def __init__(
        self,
        verify_ps: Duration,
        pass_ps: Duration,
        draft_tokens: int,
        window_tokens: int,
        passes: int | None = None,
        layers: int = 1,
    ) -> None:
        self._verify_ps = verify_ps
        self._pass_ps = pass_ps
        self._drafts = draft_tokens
        self._window = window_tokens
        self._passes = passes or draft_tokens
        self._whole_passes = min(layers, self._passes)

    def launches(self, timer: StepTimer, drafter: StepTimer, step: StepShape) -> int:
        """Kernels of a step with prompts: the backbone's, and those of each pass over all of it."""
        return timer.launches(step) + self._whole_passes * drafter.launches(step)

    def total_ps(self, step: StepShape) -> int:
        """A step of decoding requests (1 + drafts tokens each), of prompts, or of both."""
        window, new_of_decode = self._window, self._drafts + 1
        near = tuple((new, min(past, window)) for new, past in step.requests)
        total = self._verify_ps(step) + self._whole_passes * self._pass_ps(StepShape(near))
        # As where kernels are chosen: few tokens after at least as many are drafts to be verified.
        decoding = sum(1 for new, past in step.requests if new == new_of_decode and past >= new)
        further = self._passes - self._whole_passes
        if decoding and further:
            total += further * self._pass_ps(StepShape.uniform(decoding, 1, window))
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedReplica:
    """One replica of a scenario.

    `lanes`: batches that are under way at once (pipeline stages); each has `resources` and steps by
    `clock`. `geometry`: the pools of all layers. `asked`: a step of it, as v4sim step costs it.
    `ranks`: data ranks that step together, each with `resources` of its own; 1 where one
    representative rank stands for all. `padded` and `beside`: what decode batches are padded to,
    and what other ranks' tokens add to a step; `skew`: expert rows of the busiest rank over the
    mean.
    """

    clock: StepClock
    resources: tuple[Resource, ...]
    rule: SchedulerRule
    lanes: int
    capacity: Capacity
    geometry: CacheGeometry
    asked: AskedStep
    ranks: int = 1
    padded: Padding = unpadded
    beside: BesideClock | None = None
    delayer_passes: int = 0
    skew: float = 1.0

    @property
    def cache_tokens(self) -> float:
        """Tokens of context that the empty pools of all lanes and ranks hold."""
        grown = [r for r in self.resources if r.units_per_token]
        return self.lanes * self.ranks * min(r.capacity / r.units_per_token for r in grown)

    def rank_clock(self) -> Clock:
        """A clock for one data rank, or for all where one stands for them."""
        if self.ranks == 1 and self.padded is unpadded:
            return self.clock
        return RankClock(
            self.clock,
            self.ranks,
            self.padded,
            self.beside,
            self.rule.new_per_request,
            self.skew,
        )

    def prefill_ns(self, new: int, past: int) -> int:
        """Time to compute new tokens of a prompt alone, in chunks."""
        total, end = 0.0, past + new
        while past < end:
            taken = min(self.rule.step_tokens, end - past)
            kernels = self.clock.step_ns([], [PromptChunk(taken, past)])
            total += self.rule.host.prompt_step_ns(kernels, 1, 0)
            total += self.rule.step_overhead_ns
            past += taken
        return round(total)


def deploy(scenario: Scenario, parallel: Parallel | None = None) -> DeployedReplica:
    """Clock and memory of a replica; raises InputError where weights leave no room for a cache.

    Assumes: pipeline stages are balanced, so that as many batches as there are stages advance side
        by side, each at the pace of the whole model; requests are spread evenly over data ranks.
    Assumes: data ranks of a replica with pipeline stages, and those that `without: [lockstep]` asks
        for, are taken as one representative rank.
    """
    parallel = parallel or scenario.parallel
    question = _capacity_question(scenario, parallel)
    capacity = capacity_of(question)
    if capacity.budget_bytes <= 0:
        raise DoesNotFitError(
            f"{question.config.name} on {question.chips} x {question.chip.name} as "
            f"{question.parallel} does "
            f"not fit: weights and workspace exceed what {question.engine} may use of a chip's "
            f"memory by {-capacity.budget_bytes:,} B; v4sim capacity says what would",
            demand_bytes=capacity.weight_bytes + capacity.activation_bytes,
            capacity_bytes=question.pool_bytes_allowed,
        )
    layers = question.config.num_hidden_layers
    timed = _clock(scenario, parallel, question)
    asked = timed.asked
    geometry = stage_geometry(question, stages_of(layers, 1)[0])
    ranks = simulated_ranks(scenario, parallel)
    drafted = scenario.speculation is not None
    profile = question.deployment.profile
    batching = profile.batching
    rule = replace(
        scheduler_rule(scenario, parallel),
        swap_ns_per_token=_swap_ns_per_token(question, geometry, asked.node),
        model_positions=question.config.max_position_embeddings,
        data_ranks=parallel.dp // ranks,
        host=_host(scenario, timed, drafted, parallel.dp),
        waits_beside_prompts=batching is not None
        and batching.beside_prompts == "wait_with_drafts"
        and drafted,
    )
    sizes = batching.graph_sizes if batching and "padding" not in scenario.without else None
    gathers = batching is not None and scenario.scheduler.gathers_prompts
    return DeployedReplica(
        clock=timed.clock,
        asked=asked,
        resources=_resources(question, capacity, scenario, parallel, ranks),
        rule=rule,
        lanes=parallel.pp,
        capacity=capacity,
        geometry=geometry,
        ranks=ranks,
        padded=partial(sizes.padded, drafted=drafted) if sizes else unpadded,
        beside=timed.beside if ranks > 1 else None,
        delayer_passes=batching.delayer_passes if batching and gathers else 0,
        skew=_skew(scenario, question),
    )


def _skew(scenario: Scenario, question: CapacityQuestion) -> float:
    """Expert rows of the busiest group over the mean; 1 where tokens are not exchanged."""
    layout = question.parallel
    if "skew" in scenario.without or layout.data == 1 or layout.expert == 1:
        return 1.0
    load = scenario.expert_load or ExpertLoad(zipf=DEFAULT_ZIPF)
    return load.factor(question.config.n_routed_experts, layout.expert)


def simulated_ranks(scenario: Scenario, parallel: Parallel) -> int:
    """Data ranks that are simulated one by one."""
    alone = parallel.pp > 1 or "lockstep" in scenario.without
    return 1 if alone else parallel.dp


def _host(scenario: Scenario, timed: _Timed, drafted: bool, ranks: int) -> HostTime:
    section = timed.asked.deployment.profile.host
    if "host" in scenario.without or section is None:
        return NO_HOST
    launches = 0 if section.prompts_in_graphs else timed.launches()
    factor = timed.asked.node.host_factor
    return host_time(section, factor, launches, drafted=drafted, ranks=ranks)


def scheduler_rule(scenario: Scenario, parallel: Parallel) -> SchedulerRule:
    """Limits of a replica's steps."""
    given, drafts = scenario.scheduler, scenario.speculation
    return SchedulerRule(
        max_requests=given.max_requests,
        step_tokens=given.step_tokens,
        data_ranks=parallel.dp,
        order=given.order,
        tokens_per_step=drafts.tokens_per_step if drafts else 1.0,
        new_per_request=1 + drafts.draft_tokens if drafts else 1,
        step_overhead_ns=round(given.step_overhead_us * 1000),
        preempt=given.preempt,
    )


def _swap_ns_per_token(
    question: CapacityQuestion, geometry: CacheGeometry, node: NodeSpec
) -> float:
    """Time to read a token's state over each chip's own link to its host."""
    per_token = geometry.rank_bytes_per_token(question.deployment.context_parallel)
    return 1e9 * per_token / question.stages / node.host_bytes_per_s


def _capacity_question(scenario: Scenario, parallel: Parallel) -> CapacityQuestion:
    drafts = scenario.speculation.draft_tokens if scenario.speculation else 0
    return ask_capacity(
        model=scenario.model,
        chip=scenario.chip,
        count=parallel.tp * parallel.dp * parallel.pp,
        tp=parallel.tp,
        dp=parallel.dp,
        ep=parallel.ep,
        pp=parallel.pp,
        cp=parallel.cp,
        engine=scenario.engine,
        contexts="8192",
        step_tokens=scenario.scheduler.step_tokens,
        draft_tokens=drafts,
        kv_dtype=scenario.kv_dtype,
        index_dtype=scenario.index_dtype,
        expert_dtype=scenario.expert_dtype,
        memory_share=scenario.memory_share,
        page_tokens=scenario.page_tokens,
        packed_keys=scenario.packed_keys,
        exchange=None if "exchange" in scenario.without else scenario.exchange,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """What times the steps of a deployment. `launches`: kernels of a step with prompts."""

    clock: StepClock
    asked: AskedStep
    beside: BesideClock
    launches: Callable[[], int]


def _clock(scenario: Scenario, parallel: Parallel, question: CapacityQuestion) -> _Timed:
    if parallel.cp > 1:
        raise UnsupportedError(
            f"steps of ranks that share a request's entries (cp {parallel.cp}) are not timed, only "
            "their capacity is known; nearest: cp 1"
        )
    drafts = scenario.speculation
    new = 1 + (drafts.draft_tokens if drafts else 0)
    named = (scenario.model, scenario.chip, scenario.engine)
    deployment = replace(question.deployment, stages=1)
    sizes = (
        deployment.layout.page_tokens,
        deployment.parallel,
        deployment.formats,
        deployment.exchange,
    )
    key = _ClockKey((*named, *sizes), deployment)
    return _clock_of(key, scenario.fidelity, new, drafts.passes if drafts else None)


@dataclass(frozen=True, slots=True)
class _ClockKey:
    """A deployment, equal to those whose steps take as long, by what names them."""

    named: tuple[object, ...]
    deployment: Deployment = field(compare=False)


@lru_cache(maxsize=64)
def _clock_of(key: _ClockKey, fidelity: str, new: int, passes: int | None) -> _Timed:
    """Clock and a step of a deployment; those that differ in the rest share what it has costed."""
    parallel = key.deployment.parallel
    drafts = new - 1
    check_drafts(key.deployment, drafts, "decode")
    asked = step_of_deployment(key.deployment, "decode", parallel.data, 1024, 1, fidelity, drafts)
    timer = StepTimer(asked)
    total_ps, launches = timed_with_drafts(asked, timer, drafts, passes)
    knee = 4 * asked.config.index_topk
    clock = StepClock(total_ps, knee, new_per_request=new, data_ranks=parallel.data)

    def rank_ps(own: int, everyone: int) -> int:
        return timer.rank_ps(StepShape(((own, 0),)), everyone)

    return _Timed(clock=clock, asked=asked, beside=BesideClock(rank_ps), launches=launches)


def timed_with_drafts(
    asked: AskedStep, timer: StepTimer, drafts: int, passes: int | None = None
) -> tuple[Duration, Callable[[], int]]:
    """Duration of steps with the drafts for the next one, and how many kernels a prompt launches.

    Raises InputError for several passes of a head that drafts a block in one.
    """
    if not drafts:
        return timer.total_ps, partial(timer.launches, _PROMPT)
    config = asked.config
    drafter, window = StepTimer(asked, drafting=True), config.sliding_window
    if not config.drafts_blocks:
        drafted = DraftedStep(
            timer.total_ps, drafter.total_ps, drafts, window, passes, config.mtp_layers
        )
        return drafted.total_ps, partial(drafted.launches, timer, drafter, _PROMPT)
    if passes not in (None, 1):
        raise InputError(
            f"speculation.passes is {passes}, but the DSpark head of {config.name} drafts a block "
            "in 1 pass; leave passes out"
        )
    seeder = StepTimer(asked, seeding=True)
    blocks = BlockDraftedStep(
        timer.total_ps,
        seeder.total_ps,
        drafter.total_ps,
        drafts,
        window,
        config.dspark_block_size or drafts,
    )
    return blocks.total_ps, partial(_prompt_launches, (timer, seeder, drafter))


def _prompt_launches(timers: Sequence[StepTimer]) -> int:
    """Kernels of a step with prompts, of the backbone and of what drafts."""
    return sum(timer.launches(_PROMPT) for timer in timers)


# A prompt of any length launches the same kernels.
_PROMPT = StepShape.uniform(1, 1024, 0)


def _resources(
    question: CapacityQuestion,
    capacity: Capacity,
    scenario: Scenario,
    parallel: Parallel,
    ranks: int = 1,
) -> tuple[Resource, ...]:
    """Pools of the data ranks that one of `ranks` stands for; a lane has its share of a stage's."""
    stage = stages_of(question.config.num_hidden_layers, question.stages)[capacity.stage]
    geometry = stage_geometry(question, stage)
    load = load_of(question, question.longest_context)
    most = ceil_div(scenario.scheduler.max_requests, parallel.dp)
    found = resources_of(geometry, capacity.budget_bytes, load, most)
    factor = parallel.dp / ranks / parallel.pp
    return tuple(
        r
        if r.name == "requests" and parallel.dp == ranks
        else replace(r, capacity=r.capacity * factor)
        for r in found
    )
