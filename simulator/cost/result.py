"""What a costed step leaves behind: flat, frozen records. Reports are functions of these.

Times are integer picoseconds; bytes and FLOP are those of one rank (the busiest one).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.cost.machine_view import MachineView
from simulator.kernels.causes import binding_resource
from simulator.kernels.standing import Standing
from workloads.parallel import ParallelLayout

if TYPE_CHECKING:
    from simulator.count.count import StepCount

RESOURCES = ("matrix", "vector", "special", "memory", "llc", "link", "latency", "launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One launch on the modelled rank.

    `path` is scope/name; `kind` the kind of layer (embed, swa, csa, hca, mtp, head); `nodes` the
    graph nodes fused into it. `flops` by math class. `dram_*` count bytes after the LLC. `busy_ps`
    is the time each resource alone would need; `causes_ps` divides the duration by what it waits
    for, exactly, and `bound` is the resource of most of it. `low_ps` to `high_ps` is where silicon
    is expected (p10 to p90); `priced_by` names the kernel family or model, which was `calibrated`
    on such cores and kernels or not; `program` and `shapes` say how and on what, `cut` into which
    tiles and parts; `work` is what the time is for: `macs` in all, and by cause what no node asks
    for. `stretches` are (start, end, share of the work) where the launch went at one speed; none:
    evenly throughout. `machine` is what a simulated machine saw, its states adding up to the
    launch; None for what no machine ran.
    """

    path: str
    name: str
    family: str
    scope: str
    kind: str
    stream: int
    start_ps: int
    end_ps: int
    nodes: tuple[str, ...]
    flops: Mapping[str, int]
    vector_ops: int
    special_ops: int
    weight_bytes: int
    activation_bytes: int
    cache_read_bytes: int
    cache_write_bytes: int
    dram_read_bytes: int
    dram_write_bytes: int
    link_bytes: int
    busy_ps: Mapping[str, int]
    causes_ps: Mapping[str, int]
    low_ps: int
    high_ps: int
    calibrated: bool
    priced_by: str
    program: str
    shapes: str
    stretches: tuple[tuple[int, int, float], ...] = ()
    cut: str = ""
    work: Mapping[str, float] = field(default_factory=dict)
    machine: MachineView | None = None

    @property
    def duration_ps(self) -> int:
        """End minus start."""
        return self.end_ps - self.start_ps

    @property
    def bound(self) -> str:
        """Resource that most of the duration waits for."""
        return binding_resource(self.causes_ps)

    @property
    def total_flops(self) -> int:
        """Matrix FLOP of every class."""
        return sum(self.flops.values())

    @property
    def dram_bytes(self) -> int:
        """Bytes read and written after the LLC."""
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuestion:
    """What was asked: everything that decides the result, by name.

    `page_tokens`: tokens of a logical page of the cache, None for the engine's own. A decode step
    with `draft_tokens` verifies so many for each request, and drafts the next.
    """

    model: str
    chip: str
    count: int
    layout: ParallelLayout
    phase: str
    batch: int
    context: int
    new_tokens: int
    fidelity: str
    engine: str
    index_dtype: str
    expert_dtype: str
    kv_dtype: str
    page_tokens: int | None = None
    draft_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes that the step holds on one rank, against the chip's memory."""

    weight_bytes: int
    state_bytes_by_pool: Mapping[str, int]
    workspace_bytes: int
    capacity_bytes: int

    @property
    def state_bytes(self) -> int:
        """Resident cache state of the rank's requests."""
        return sum(self.state_bytes_by_pool.values())

    @property
    def used_bytes(self) -> int:
        """Weights, state and workspace."""
        return self.weight_bytes + self.state_bytes + self.workspace_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipPeaks:
    """Peaks of the chip that a roofline is drawn with; per second, SI units."""

    name: str
    matrix_flops_per_s: Mapping[str, float]
    vector_ops_per_s: float
    dram_bytes_per_s: float
    link_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPeriod:
    """Steps over which a decode step is the mean: how many, and the shortest and longest of them.

    They differ by the compressed entries that their last tokens complete.
    """

    tokens: int
    shortest_ps: int
    longest_ps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One costed step; silicon is expected between `low_ps` and `high_ps` (p10 to p90).

    `abouts` say in a few words what the kernels do, by name. `stored_expert_dtype` is that of the
    checkpoint, which the question's may differ from; empty where it is not known. `priced_as` are
    sentences on formats that were asked for and whose kernels are priced as those of another.
    `standing` says what times on the chip rest on; `period`: the steps that this is the mean of,
    None for one step.
    """

    question: StepQuestion
    kernels: tuple[KernelRecord, ...]
    total_ps: int
    low_ps: int
    high_ps: int
    tokens: int
    memory: MemoryUse
    peaks: ChipPeaks
    standing: Standing
    assumptions: tuple[str, ...] = ()
    priced_as: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    abouts: Mapping[str, str] = field(default_factory=dict)
    stored_expert_dtype: str = ""

    counts: StepCount | None = None
    period: StepPeriod | None = None

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return self.total_ps * 1e-12

    @property
    def calibrated(self) -> bool:
        """Whether every launch is priced by a family that was fitted on this very chip."""
        return self.standing.calibrated and all(kernel.calibrated for kernel in self.kernels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofLine:
    """Outcome of running the shipped golden file through both executions.

    Logits compare absolutely, stored activations relative to the largest of each; `layers` is the
    depth of the golden file's small model.
    """

    golden_name: str
    layers: int
    logits_difference: float
    logits_tolerance: float
    activations_difference: float
    activations_tolerance: float
    checks: int

    @property
    def holds(self) -> bool:
        """Whether every difference is within its tolerance."""
        return (
            self.logits_difference <= self.logits_tolerance
            and self.activations_difference <= self.activations_tolerance
        )
