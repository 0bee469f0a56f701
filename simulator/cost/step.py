"""One step of a model on a node: from the question to the costed result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hwmodels.bandwidth.curve import rate_curve
from hwmodels.bandwidth.efficiency import memory_efficiency
from hwmodels.bandwidth.reuse import matrix_again_bytes
from hwmodels.bandwidth.window import missed_runs, window_runs
from hwmodels.chip import ChipSpec
from hwmodels.doubts import contradictions, guessed_facts
from hwmodels.dram.chip_memory import ChipController, chip_memory
from hwmodels.llc.spec import chip_cache
from hwmodels.machine.shared_pipes import SharedPipes
from hwmodels.node import NodeSpec
from simulator.basis.assumptions import assumptions_of
from simulator.capacity.rank_memory import activation_bytes, weight_bytes, workspace_bytes
from simulator.cost.collectives import link_seconds
from simulator.cost.cycle import ASSUMED_BY_CYCLE, cycle_price, cycle_prices
from simulator.cost.cycle_engine import calibrated_price
from simulator.cost.draft_pass import draft_passes
from simulator.cost.engine_assumptions import always_assumed, cores_assumed, engine_assumed
from simulator.cost.engine_notes import engine_notes, priced_as, unmeasured_formats
from simulator.cost.engine_price import kernel_prices
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.machine_price import machine_assumed
from simulator.cost.math_rate import math_rate
from simulator.cost.memory import step_memory
from simulator.cost.memory_mix import memory_mix
from simulator.cost.memory_rate import MemoryRates
from simulator.cost.price import Price, Target
from simulator.cost.question import AskedStep, step_of
from simulator.cost.records import records_of, step_interval
from simulator.cost.result import ChipPeaks, MemoryUse, StepQuestion, StepResult
from simulator.cost.roofline import roofline_price
from simulator.cost.tile import TileBatch
from simulator.cost.tile_ways import TileWays
from simulator.cost.timeline import Progress, timeline
from simulator.cost.traffic import traffic
from simulator.count.count import count_graph
from simulator.engine.cache_runs import append_runs, read_runs
from simulator.engine.demand import DemandBuilder
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.physical_layout import check_pages
from simulator.engine.profile import EngineProfile
from simulator.kernels.constants_file import standing_with
from simulator.kernels.registry import FAMILIES
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.graph import Graph
from workloads.layout_check import check_layout
from workloads.run_stats import RunStats
from workloads.sharding import shard

_ALWAYS = (RunStats, DemandBuilder, traffic, math_rate, SharedPipes, timeline)
_OF_TILES = (TileBatch, TileWays, memory_mix, read_runs, append_runs)
_OF_FIDELITY: dict[str, tuple[object, ...]] = {
    "roofline": (roofline_price,),
    "tile": (*_OF_TILES, MemoryRates, memory_efficiency),
    "cycle": (
        *_OF_TILES,
        cycle_price,
        *ASSUMED_BY_CYCLE,
        rate_curve,
        window_runs,
        missed_runs,
        chip_memory,
        ChipController,
        chip_cache,
        fetch_factor,
        matrix_again_bytes,
    ),
}


def cost_step(
    asked: AskedStep,
    stats: RunStats | None = None,
    progress: Progress | None = None,
    *,
    must_fit: bool = True,
    memory: MemoryUse | None = None,
) -> StepResult:
    """Cost of one step on the busiest rank; total time is the end of its last kernel.

    `progress` is called with (layers done, layers in all). Raises `UnsupportedError` for a layout
    or engine that cannot serve the model, `DoesNotFitError` where memory is short, unless it need
    not fit, or its `memory` is known.
    """
    question, deployment = asked.question, asked.deployment
    config, chip, node = asked.config, asked.chip, asked.node
    precision, profile = deployment.formats.precision, deployment.profile
    check_layout(config, precision, question.layout)
    check_pages(deployment.layout, model_state(config, precision).regions, config.name)
    graph = rank_graph(question, config, precision)
    memory = memory or step_memory(asked, must_fit=must_fit)
    target = Target(chip, node, profile)
    kernels = list(lower(graph, target.profile, stats or RunStats()))
    prices = _prices(question, kernels, target, graph, stats or RunStats())
    counts, graphs = count_graph(graph, stats), [graph]
    if question.draft_tokens:
        requests, drafts = step_of(question), question.draft_tokens
        for one in draft_passes(config, precision, question.layout, requests, drafts):
            own = one.kernels(profile, stats or RunStats())
            prices += _prices(question, own, target, one.graph, stats or RunStats())
            kernels += own
            graphs.append(one.graph)
            counts = counts.with_scopes(count_graph(one.graph, stats), one.scopes, one.name)
    timed = timeline(kernels, prices, chip, progress)
    records = records_of(timed)
    total_ps = max((record.end_ps for record in records), default=0)
    families = dict.fromkeys(p.priced_by for p in prices if p.priced_by in FAMILIES)
    standing = standing_with(chip, families)
    low_ps, high_ps = step_interval(records, total_ps, standing)
    return StepResult(
        question=question,
        kernels=records,
        total_ps=total_ps,
        low_ps=low_ps,
        high_ps=high_ps,
        # Of a step with drafts, one token a request is sure.
        tokens=question.batch if question.draft_tokens else step_of(question).tokens,
        memory=memory,
        peaks=chip_peaks(chip, node, {p.math for k in kernels for p in k.demand.products}),
        assumptions=_assumptions(question, chip, graphs, kernels, prices)
        + guessed_facts(chip, node if question.count > 1 else None),
        priced_as=priced_as(asked) + unmeasured_formats(asked, kernels, prices),
        notes=config.notes
        + _notes(question, chip, node, kernels)
        + engine_notes(_by_programs(question), target.profile, chip),
        abouts=_abouts(target.profile, kernels),
        stored_expert_dtype=config.expert_dtype,
        standing=standing,
        counts=counts,
    )


def _by_programs(question: StepQuestion) -> StepQuestion:
    """The question as the programs of an engine see it: the cycle rung builds on them too."""
    return replace(question, fidelity="tile") if question.fidelity == "cycle" else question


def rank_graph(question: StepQuestion, config: ModelConfig, precision: Precision) -> Graph:
    """Graph of the busiest data rank's requests, cut for one of its tensor ranks."""
    step = step_of(question)
    seeds = question.draft_tokens > 0 and config.drafts_blocks
    graph = build_graph(config, step.split(question.layout.data), precision, mtp=seeds)
    return shard(graph, question.layout, step.tokens)


def _prices(
    question: StepQuestion, kernels: Sequence[Kernel], target: Target, graph: Graph, stats: RunStats
) -> list[Price]:
    """Price of each launch at the question's fidelity."""
    if question.fidelity == "cycle":
        return list(cycle_prices(kernels, target, graph, stats))
    known = kernel_prices((k.demand for k in kernels), target, question.fidelity)
    return [known[kernel.demand] for kernel in kernels]


def chip_peaks(chip: ChipSpec, node: NodeSpec | None, used: Iterable[str] = ()) -> ChipPeaks:
    """Peaks by math class, as the roofline uses them; of the usual classes and those `used`."""
    classes = dict.fromkeys(("bf16", "fp8", "fp8xfp4", "fp4_index", "fp32", *sorted(used)))
    return ChipPeaks(
        name=chip.name,
        matrix_flops_per_s={math: math_rate(chip, math).flops_per_s for math in classes},
        vector_ops_per_s=chip.vector_flops_per_s,
        dram_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
        link_bytes_per_s=node.link_bytes_per_s if node else chip.scale_up_bytes_per_s,
    )


def _assumptions(
    question: StepQuestion,
    chip: ChipSpec,
    graphs: Sequence[Graph],
    kernels: Sequence[Kernel],
    prices: Sequence[Price],
) -> tuple[str, ...]:
    """Every approximation that this result rests on."""
    operations = dict.fromkeys(type(node.op) for graph in graphs for node in graph.nodes)
    drafting = (draft_passes,) if question.draft_tokens else ()
    linked = (link_seconds,) if question.count > 1 else ()
    pairs = zip(kernels, prices, strict=True)
    priced = [(k.demand, price) for k, price in pairs if price.priced_by != "cycle"]
    if question.fidelity == "roofline":
        priced = []
    stretched: tuple[object, ...] = ()
    if priced and question.fidelity == "cycle":
        stretched = (calibrated_price, *machine_assumed())
    return assumptions_of(
        (
            *operations,
            *drafting,
            *_ALWAYS,
            *_OF_FIDELITY[question.fidelity],
            *(() if question.fidelity == "roofline" else cores_assumed(chip)),
            *always_assumed(),
            *engine_assumed(priced),
            *stretched,
            *linked,
            weight_bytes,
            activation_bytes,
            workspace_bytes,
        )
    )


def _abouts(profile: EngineProfile, kernels: Iterable[Kernel]) -> dict[str, str]:
    """What the step's kernels do, in the order of the profile."""
    names = {kernel.name for kernel in kernels}
    return {k.name: k.about for k in profile.kernels if k.name in names and k.about}


def _notes(
    question: StepQuestion, chip: ChipSpec, node: NodeSpec | None, kernels: Iterable[Kernel]
) -> tuple[str, ...]:
    """What the chip does otherwise than asked, and what the busiest rank stands for."""
    classes = dict.fromkeys(p.math for kernel in kernels for p in kernel.demand.products)
    notes = [*contradictions(chip), *(math_rate(chip, math).note for math in classes)]
    data = question.layout.data
    if node is not None and question.count > node.chip_count:
        notes.append(
            f"{question.count} chips take {node.nodes_for(question.count)} nodes of "
            f"{node.chip_count}: what spans nodes runs on the {node.scale_out.kind} links"
        )
    if question.batch % data:
        notes.append(
            f"a batch of {question.batch} does not divide over {data} data ranks: "
            f"the busiest, with {-(-question.batch // data)}, is costed"
        )
    return tuple(dict.fromkeys(note for note in notes if note))
