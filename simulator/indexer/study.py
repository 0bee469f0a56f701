"""One study of the indexer's formats: costs by chip, accuracy by execution, published figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.basis.assumptions import assumptions_of
from simulator.basis.errors import InputError
from simulator.indexer import distributions, layer_output
from simulator.indexer.accuracy import (
    QUERIES,
    AccuracyPoint,
    Say,
    case_accuracy,
    check_entries,
)
from simulator.indexer.cost import CostPoint, costs
from simulator.indexer.distributions import DISTRIBUTIONS
from simulator.indexer.effects import Effect, published_effects
from simulator.indexer.executed import executed_case, given_case, holds_model
from simulator.indexer.index_case import IndexCase, load_case
from simulator.indexer.scores import scores
from workloads import index_entry
from workloads.deepseek_v4.config import ModelConfig, find_model

CHIPS = ("h200", "b200", "ascend-910c")
CONTEXTS = (2**15, 2**17, 2**20)
ENTRIES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyQuestion:
    """What is asked; `entries` None means those of the file, or `ENTRIES` of made-up keys."""

    model: str
    chips: tuple[str, ...] = CHIPS
    edits: tuple[str, ...] = ()
    contexts: tuple[int, ...] = CONTEXTS
    batch: int = 64
    count: int = 8
    engine: str | None = None
    entries: int | None = None
    seed: int = 7
    npz: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerStudy:
    """What was found. `cases` maps the name of each case to a sentence on where it is from."""

    model: str
    top_k: int
    heads: int
    dim: int
    question: StudyQuestion
    queries: int
    synthetic: bool
    cases: dict[str, str]
    costs: tuple[CostPoint, ...]
    accuracy: tuple[AccuracyPoint, ...]
    effects: tuple[Effect, ...]
    assumptions: tuple[str, ...]


def study(question: StudyQuestion, say: Say = lambda text: None) -> IndexerStudy:
    """Costs first, then accuracy; bad input is refused before any of it."""
    config = find_model(question.model)
    if question.seed < 0:
        raise InputError(f"--seed is {question.seed}, expected 0 or more ({-question.seed} short)")
    given = None if question.npz is None else _given(question.npz, config)
    if given is not None and question.entries is not None:
        raise InputError(
            f"--entries {question.entries:,} sizes made-up keys, but {question.npz} brings its own "
            f"{given.entries:,}; leave one of them out"
        )
    entries = check_entries(ENTRIES if question.entries is None else question.entries, config)
    found = costs(
        model=question.model,
        chips=question.chips,
        edits=question.edits,
        contexts=question.contexts,
        batch=question.batch,
        count=question.count,
        engine=question.engine,
        say=say,
    )
    points: list[AccuracyPoint] = []
    cases: dict[str, str] = {}
    queries = QUERIES
    runs = config.name == "tiny" and given is None and question.entries is None
    for case in _cases(config, given, entries, question, runs):
        points += case_accuracy(case, config, question.seed, say)
        cases[case.name] = case.about
        queries = case.queries
    say("published figures")
    return IndexerStudy(
        model=config.name,
        top_k=config.index_topk,
        heads=config.index_n_heads,
        dim=config.index_head_dim,
        question=question,
        queries=queries,
        synthetic=given is None and not runs,
        cases=cases,
        costs=tuple(found),
        accuracy=tuple(points),
        effects=tuple(published_effects(points if given is None and not runs else ())),
        assumptions=_assumptions(given is None and not runs),
    )


def _cases(
    config: ModelConfig,
    given: IndexCase | None,
    entries: int,
    question: StudyQuestion,
    runs: bool,
) -> Iterator[IndexCase]:
    """The file's case; the executed one of the model that runs; else made-up ones."""
    if given is not None:
        yield given
    elif runs:
        yield executed_case()[0]
    else:
        yield from _made_up(config, entries, question.seed)


def _given(path: Path, config: ModelConfig) -> IndexCase:
    return given_case(path, config) if holds_model(path) else load_case(path, config)


def _made_up(config: ModelConfig, entries: int, seed: int) -> Iterator[IndexCase]:
    """One case at a time, so that only one is in memory."""
    for make in DISTRIBUTIONS.values():
        yield make(config, QUERIES, entries, seed)


def _assumptions(synthetic: bool) -> tuple[str, ...]:
    from hwmodels.bandwidth.efficiency import memory_efficiency
    from hwmodels.machine.shared_pipes import SharedPipes
    from simulator.capacity.rank_memory import activation_bytes, weight_bytes, workspace_bytes
    from simulator.cost.math_rate import math_rate
    from simulator.cost.memory_mix import memory_mix
    from simulator.cost.memory_rate import MemoryRates
    from simulator.cost.roofline import roofline_price
    from simulator.cost.tile import TileBatch
    from simulator.cost.tile_ways import TileWays
    from simulator.cost.timeline import timeline
    from simulator.engine.demand import DemandBuilder

    made_up: Sequence[object] = (distributions,) if synthetic else ()
    return assumptions_of(
        (
            *made_up,
            scores,
            index_entry,
            layer_output,
            TileBatch,
            TileWays,
            roofline_price,
            math_rate,
            memory_mix,
            MemoryRates,
            memory_efficiency,
            DemandBuilder,
            SharedPipes,
            timeline,
            weight_bytes,
            activation_bytes,
            workspace_bytes,
        )
    )
