"""Weights and workspace of one chip of a deployment, stage by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from simulator.capacity.capacity_question import CapacityQuestion
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph, model_parameters
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_name, mtp_name
from workloads.graph import Graph
from workloads.layout_check import (
    check_layout,
    distinct_parameters,
    fits_layout,
    reduced_config,
)
from workloads.parallel import ParallelLayout
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType

SCORE_CHUNK_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Layers of one pipeline stage: numbers of the first and the one after the last.

    `last` stages hold the head, and the MTP layers where they are used.
    """

    first: int
    stop: int
    last: bool


def stages_of(layers: int, stages: int) -> tuple[Stage, ...]:
    """Contiguous shares of the layers, as even as can be; the first stages have one more."""
    bounds = [layers * i // stages for i in range(stages)] + [layers]
    return tuple(
        Stage(first=first, stop=stop, last=i == stages - 1)
        for i, (first, stop) in enumerate(pairwise(bounds))
    )


def precision_of(question: CapacityQuestion) -> Precision:
    """Formats that decide weights and dense values; cache rows are the layout's business."""
    return Precision(expert=question.formats.expert)


def cuts_weights(question: CapacityQuestion) -> bool:
    """Whether the parallel layout cuts all weights evenly and between scales."""
    local = _local_parameters(question.config, precision_of(question))
    return fits_layout(local, question.parallel)


def weight_bytes(question: CapacityQuestion) -> tuple[int, ...]:
    """Bytes of weights of one chip, by stage. Raises UnsupportedError where they cannot be cut.

    Assumes: the embedding lies on the first stage, the head on the last.
    """
    precision, config = precision_of(question), question.config
    if not cuts_weights(question):
        check_layout(config, precision, question.parallel)
    divisors = question.parallel.divisors()
    owner = _owners(question)
    totals = [0] * question.stages
    for param, scopes in _parameters(config, precision, question.mtp).items():
        nbytes = param.divided(divisors).nbytes
        for scope, count in scopes:
            totals[owner[scope]] += count * nbytes
    return tuple(totals)


@lru_cache(maxsize=16)
def _local_parameters(config: ModelConfig, precision: Precision) -> dict[str, TensorType]:
    return distinct_parameters(config, precision)


@lru_cache(maxsize=16)
def _parameters(
    config: ModelConfig, precision: Precision, mtp: bool
) -> dict[TensorType, tuple[tuple[str, int], ...]]:
    """Distinct parameter types, unsharded, with how many each layer has."""
    counts: dict[TensorType, Counter[str]] = {}
    for name, param in model_parameters(config, precision, mtp=mtp).items():
        counts.setdefault(param, Counter())[name.partition("/")[0]] += 1
    return {param: tuple(scopes.items()) for param, scopes in counts.items()}


def _owners(question: CapacityQuestion) -> dict[str, int]:
    """Stage of every scope of the graph."""
    last = question.stages - 1
    owners = {"embed": 0, "head": last}
    owners.update({mtp_name(n): last for n in range(question.config.mtp_layers)})
    for i, stage in enumerate(stages_of(question.config.num_hidden_layers, question.stages)):
        owners.update({layer_name(n): i for n in range(stage.first, stage.stop)})
    return owners


def activation_bytes(question: CapacityQuestion) -> int:
    """Most bytes of values alive at once in the largest step.

    Assumes: the largest step is one prompt's chunk of the tokens in flight, at the end of the
        longest context, and index scores are made in chunks of 512 MiB (guessed: engines chunk
        them, the size is a setting).
    """
    tokens = max(question.in_flight_tokens, question.workspace_tokens)
    new = min(tokens, question.longest_context)
    step = StepShape.uniform(1, new, question.longest_context - new)
    return _activation_bytes(question.config, precision_of(question), question.parallel, step)


@lru_cache(maxsize=256)
def _activation_bytes(
    config: ModelConfig, precision: Precision, parallel: ParallelLayout, step: StepShape
) -> int:
    graph = build_graph(reduced_config(config), step, precision)
    local = shard(graph, parallel, step.tokens * parallel.data)
    scores = [name for name in local.values if name.endswith("indexer/score")]
    return workspace_bytes(local, dict.fromkeys(scores, SCORE_CHUNK_BYTES))


def workspace_bytes(graph: Graph, most: Mapping[str, int] | None = None) -> int:
    """Most bytes of values that are alive at once; `most` caps values that are made in chunks.

    Assumes: every value of the graph is stored from its node to its last reader's.
    """
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    last_use.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    sizes = {name: value.nbytes for name, value in graph.values.items()}
    for name, limit in (most or {}).items():
        sizes[name] = min(sizes[name], limit)
    produced = {name for node in graph.nodes for name in node.outputs}
    live = sum(size for name, size in sizes.items() if name not in produced)
    peak = live
    for i, node in enumerate(graph.nodes):
        live += sum(sizes[name] for name in node.outputs)
        peak = max(peak, live)
        for name in {*node.inputs, *node.outputs}:
            if last_use.get(name, i) == i:
                live -= sizes[name]
    return peak
