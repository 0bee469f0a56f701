"""What index formats cost: bytes, the scan's time on a chip, its share of a step, and capacity.

Kernels and rows are an engine's; formats that its kernels were not measured in are priced by their
bytes, math class and conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError, UnsupportedError
from simulator.capacity.verdict import judge
from simulator.cost.critical_path import critical_ps_of
from simulator.cost.engine_price import engine_price
from simulator.cost.memory import step_capacity
from simulator.cost.price import Price, Target
from simulator.cost.question import AskedStep, ask
from simulator.cost.records import records_of
from simulator.cost.result import StepQuestion
from simulator.cost.step import rank_graph
from simulator.cost.timeline import timeline
from simulator.engine.entry_bytes import find_row_format
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.graph import Graph
from workloads.layout_check import check_layout
from workloads.ops import IndexScore
from workloads.run_stats import RunStats

# Stored precision -> formats that its products may run in, best first.
RUNS_IN = {
    "fp4": ("fp4", "fp8", "bf16", "fp16"),
    "fp8": ("fp8", "bf16", "fp16"),
    "bf16": ("bf16", "fp16"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMath:
    """Format that the products run in, and whether keys are unpacked to it first."""

    stored: str
    runs_in: str

    @property
    def unpacks(self) -> bool:
        """Whether the chip lacks matrix units for the stored format."""
        return self.runs_in != self.stored

    @property
    def text(self) -> str:
        """Words for tables."""
        units = f"{self.runs_in.upper()} units"
        return f"unpacked, {units}" if self.unpacks else units


def index_math(chip: ChipSpec, precision: str) -> IndexMath:
    """The first format of `RUNS_IN` that the chip has matrix units for; each chip has one."""
    held = (f for f in RUNS_IN[precision] if chip.matrix_flops_per_s(f) is not None)
    return IndexMath(stored=precision, runs_in=next(held))


def scans(graph: Graph) -> frozenset[str]:
    """Paths of the nodes that score index keys."""
    return frozenset(node.path for node in graph.nodes if isinstance(node.op, IndexScore))


def is_scan(kernel: Kernel, paths: Iterable[str]) -> bool:
    """Whether a kernel holds one of the scans."""
    return not frozenset(paths).isdisjoint(kernel.nodes)


PRECISIONS = ("fp4", "fp8", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint:
    """One precision on a chip at a context, for a decode step; bytes and times of one chip.

    `query_bytes` are those of one token's index heads, rounded as keys are. `scan_*` are of one
    layer's scan of all the chip's requests. `step_ps` and `scan_share` (of the step, along what
    its end waits for) are None where the step does not fit the chips; `misfit` then says why.
    `capacity_tokens` are the tokens that one chip's pools hold.
    """

    chip: str
    context: int
    precision: str
    math: str
    requests: int
    key_bytes: int
    query_bytes: int
    scan_layers: int
    scan_bytes: int
    scan_ps: int
    scan_bytes_per_s: float
    peak_bytes_per_s: float
    bound: str
    step_ps: int | None
    scan_share: float | None
    cache_bytes_per_token: float
    capacity_tokens: int
    misfit: str = ""


def costs(
    *,
    model: str,
    chips: Sequence[str],
    edits: Sequence[str] = (),
    contexts: Sequence[int],
    batch: int,
    count: int,
    engine: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[CostPoint]:
    """Every chip, context and precision; attention data-parallel, experts split over all chips."""
    steps = [
        asked(model, chip, context, batch, count, precision, engine, edits)
        for chip in chips
        for context in contexts
        for precision in PRECISIONS
    ]
    found, known = [], _Lowered()
    for done, step in enumerate(steps, 1):
        say(f"costing {step.chip.name}: step {done} of {len(steps)}")
        found.append(_cost(step, known))
    return found


def asked(
    model: str,
    chip: str,
    context: int,
    batch: int,
    count: int,
    precision: str,
    engine: str | None = None,
    edits: Sequence[str] = (),
) -> AskedStep:
    """The decode step that is costed, checked."""
    step = ask(
        model=model,
        chip=chip,
        edits=edits,
        count=count,
        tp=1,
        dp=count,
        ep=count,
        batch=batch,
        context=context,
        engine=engine,
        index_dtype=precision,
    )
    least = key_tokens(step.config, step.deployment.formats.precision)
    if context < least:
        raise InputError(
            f"--context {context} holds no index key: one stands for {least} tokens, so give at "
            f"least {least} ({least - context} more)"
        )
    return step


def key_tokens(config: ModelConfig, precision: Precision) -> int:
    """Tokens that one index key stands for; `UnsupportedError` where a model has no indexer."""
    for region in model_state(config, precision).regions:
        if region.kind == "csa_index":
            return region.growth.tokens
    raise UnsupportedError(
        f"{config.name} has no layer with an indexer (no CSA layer by its compress_ratios): "
        "try v4-flash"
    )


def _cost(step: AskedStep, known: _Lowered) -> CostPoint:
    question, chip = step.question, step.chip
    run = _run(step, known)
    capacity = step_capacity(step)
    misfit = "" if capacity.is_enough else judge(capacity).sentence
    step_ps, share = (None, None) if misfit else _in_step(run, chip)
    moved = run.scan.cache_read_bytes
    row = step.deployment.layout.formats.row("index", question.index_dtype)
    key_bytes = find_row_format(row).nbytes(step.config.index_head_dim)
    return CostPoint(
        chip=chip.name,
        context=question.context,
        precision=question.index_dtype,
        math=index_math(chip, question.index_dtype).text,
        requests=run.graph.step.batch,
        key_bytes=key_bytes,
        query_bytes=key_bytes * step.config.index_n_heads,
        scan_layers=len(run.places),
        scan_bytes=moved,
        scan_ps=run.price.alone_ps,
        scan_bytes_per_s=moved / (run.price.alone_ps * 1e-12),
        peak_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
        bound=run.price.bound,
        step_ps=step_ps,
        scan_share=share,
        cache_bytes_per_token=capacity.fits[0].bytes_per_token,
        capacity_tokens=capacity.fits[0].tokens,
        misfit=misfit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A lowered and priced step; `places` are the positions of its scans."""

    graph: Graph
    kernels: Sequence[Kernel]
    prices: Sequence[Price]
    places: tuple[int, ...]

    @property
    def scan(self) -> Demand:
        """Demand of one scan."""
        return self.kernels[self.places[0]].demand

    @property
    def price(self) -> Price:
        """Price of one scan."""
        return self.prices[self.places[0]]


def scan_price(step: AskedStep) -> Price:
    """Price of one layer's scan alone, whether or not the step fits."""
    return _run(step, _Lowered()).price


class _Lowered:
    """Graphs with their kernels, made once for all chips that are asked the same."""

    def __init__(self) -> None:
        self._known: dict[StepQuestion, tuple[Graph, Sequence[Kernel]]] = {}

    def of(self, step: AskedStep) -> tuple[Graph, Sequence[Kernel]]:
        """Graph of the busiest rank, and its kernels in launch order."""
        key = replace(step.question, chip="")
        if key not in self._known:
            precision = step.deployment.formats.precision
            check_layout(step.config, precision, step.question.layout)
            graph = rank_graph(step.question, step.config, precision)
            kernels = lower(graph, step.deployment.profile, RunStats())
            self._known[key] = (graph, kernels)
        return self._known[key]


def _run(step: AskedStep, known: _Lowered) -> _Run:
    """The step's kernels; every distinct demand priced once."""
    graph, kernels = known.of(step)
    target = Target(step.chip, step.node, step.deployment.profile)
    paths = scans(graph)
    priced: dict[Demand, Price] = {}
    for kernel in kernels:
        if kernel.demand not in priced:
            priced[kernel.demand] = engine_price(kernel.demand, target)
    return _Run(
        graph=graph,
        kernels=kernels,
        prices=[priced[kernel.demand] for kernel in kernels],
        places=tuple(i for i, kernel in enumerate(kernels) if is_scan(kernel, paths)),
    )


def _in_step(run: _Run, chip: ChipSpec) -> tuple[int, float]:
    """Duration of the step, and the share of it that waits for scans."""
    records = records_of(timeline(run.kernels, run.prices, chip))
    total_ps = max(record.end_ps for record in records)
    waited_ps, _ = critical_ps_of(records, total_ps)
    return total_ps, sum(waited_ps[place] for place in run.places) / total_ps
