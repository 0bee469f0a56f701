"""Whether a step fits into a chip's memory, and what would if it does not."""

from __future__ import annotations

from hwmodels.chip import ChipSpec
from simulator.basis.errors import DoesNotFitError
from simulator.basis.units import format_bytes
from simulator.cost.memory_advice import what_would_fit
from simulator.cost.memory_use import memory_use
from simulator.cost.result import MemoryUse, StepQuestion
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph


def check_memory(
    graph: Graph,
    question: StepQuestion,
    config: ModelConfig,
    precision: Precision,
    chip: ChipSpec,
) -> MemoryUse:
    """Memory of one rank; `graph` is sharded and holds the busiest rank's requests.

    Raises `DoesNotFitError` with demand, capacity, the gap, the largest terms and what would fit.
    """
    use = memory_use(graph, chip.hbm_capacity_bytes)
    short = use.used_bytes - use.capacity_bytes
    if short <= 0:
        return use
    advice = what_would_fit(question, config, precision, use.capacity_bytes)
    raise DoesNotFitError(
        f"{config.name} at {question.layout} needs {format_bytes(use.used_bytes)} a chip for "
        f"{_requests(graph.step.batch, question.batch)} of {question.context:,} tokens, but "
        f"{chip.name} has {format_bytes(use.capacity_bytes)}: {format_bytes(short)} "
        f"({short:,} B) short; largest are {_largest_terms(use)}; {advice}",
        demand_bytes=use.used_bytes,
        capacity_bytes=use.capacity_bytes,
    )


def _requests(local: int, batch: int) -> str:
    if local < batch:
        return f"{local:,} of {batch:,} requests"
    return "1 request" if batch == 1 else f"{batch:,} requests"


def _largest_terms(use: MemoryUse) -> str:
    terms = {f"cache {pool}": nbytes for pool, nbytes in use.state_bytes_by_pool.items()}
    terms |= {"weights": use.weight_bytes, "workspace": use.workspace_bytes}
    ordered = sorted(terms.items(), key=lambda term: -term[1])[:3]
    return ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in ordered)
