"""What a chip's memory makes of an engine's own kernels: their programs run on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hwmodels.chip import ChipSpec
from hwmodels.machine.live import PICOSECONDS
from hwmodels.machine.program import KernelProgram
from hwmodels.machine.spec import MachineSpec, machine_of
from hwmodels.machine.steady import LaunchTime, launch_time
from simulator.cost.family_call import FamilyCall
from simulator.cost.machine_calls import call_program
from simulator.cost.price import Target
from simulator.cost.programs import CoreForm, program_calls
from simulator.cost.question import AskedStep
from simulator.cost.step import rank_graph
from simulator.engine.entry_bytes import find_row_format
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from simulator.kernels.family import Family
from simulator.kernels.gemm import GemmFamily
from simulator.kernels.hyper_connection import HyperConnectionPost, HyperConnectionPre
from simulator.kernels.index_logits import IndexLogits
from simulator.kernels.moe_layer import MoeFamily
from workloads.run_stats import RunStats

# Format of a packed row of the cache, at which a gather is shown beside the engine's own.
PACKED_ROWS = "kv_fp8"
_Call = tuple[Kernel, FamilyCall]


@dataclass(frozen=True, kw_only=True)
class KernelPattern:
    """One kernel of an engine as memory sees it: its longest launch, without the gap before it.

    `page_tokens` of the cache, where the bytes lie in its pages. `cached`: data are in cache as far
    as the kernel's price takes them to be; else nothing is at the start. `run_bytes` lie side by
    side in the largest region (0: all of it). `bytes_per_s` and `loaded_bytes_per_s` (what cores
    load, cached or not) are of the whole chip, `peak_share` is the first of them over the chip's
    peak. `latency_s`: from a request at its channel to the answer, mean. `channel_balance`: mean
    channel over the fullest.
    """

    pattern: str
    kernel: str
    family: str
    page_tokens: int | None
    cached: bool
    run_bytes: int
    seconds: float
    bytes_per_s: float
    peak_share: float
    loaded_bytes_per_s: float
    row_hit_rate: float
    llc_hit_rate: float
    latency_s: float
    channel_balance: float
    extrapolated: float


def kernel_patterns(steps: Sequence[AskedStep]) -> Iterator[KernelPattern]:
    """Patterns of the kernels of steps, which differ by the page of their cache.

    Kernels whose bytes do not lie in pages are those of the first step. Patterns that no program
    of the engine has are left out.

    Assumes: beside what a kernel's price takes to be cached, a run finds nothing in cache at its
        start; the other one that is given finds nothing at all.
    """
    for number, asked in enumerate(steps):
        target = Target(asked.chip, asked.node, asked.deployment.profile)
        machine = machine_of(asked.chip)
        found = _calls_of(asked, target)
        for pattern, (fits, weight, paged) in _PATTERNS.items():
            own = [one for one in found if fits(*one)]
            if not own or (number and not paged):
                continue
            kernel, call = max(own, key=lambda one: weight(one, target.chip))
            program = call_program(call, target.chip)
            page = asked.deployment.layout.page_tokens if paged else None
            config = asked.config
            packed = find_row_format(PACKED_ROWS).nbytes(config.head_dim, config.qk_rope_head_dim)
            for label, variant in _variants(pattern, program, packed):
                for cached in (True, False):
                    run = variant if cached else _uncached(variant)
                    yield _measured(label, kernel, call, run, machine, page, cached)


def _calls_of(asked: AskedStep, target: Target) -> list[_Call]:
    """Kernels of the step with their calls, equal ones once."""
    graph = rank_graph(asked.question, asked.config, asked.deployment.formats.precision)
    kernels: dict[Demand, Kernel] = {}
    for kernel in lower(graph, target.profile, RunStats()):
        kernels.setdefault(kernel.demand, kernel)
    return [
        (kernel, call)
        for demand, kernel in kernels.items()
        for call in program_calls(demand, target) or ()
    ]


def _of_family(*kinds: type) -> Callable[[Kernel, FamilyCall], bool]:
    def fits(kernel: Kernel, call: FamilyCall) -> bool:
        family = getattr(call.form, "__self__", None)
        return isinstance(family, Family) and isinstance(family, kinds)

    return fits


def _gathers(kernel: Kernel, call: FamilyCall) -> bool:
    return isinstance(call.form, CoreForm) and bool(dict(call.row).get("top_k"))


def _appends(kernel: Kernel, call: FamilyCall) -> bool:
    return kernel.demand.cache_write_bytes > 0


def _region_bytes(one: _Call, chip: ChipSpec) -> float:
    return float(max(region.nbytes for region in call_program(one[1], chip).regions))


def _written_bytes(one: _Call, chip: ChipSpec) -> float:
    return float(one[0].demand.cache_write_bytes)


# Of each pattern: whose calls have it, which of them is shown, whether its bytes lie in pages.
_PATTERNS: Mapping[str, tuple[Callable[..., bool], Callable[..., float], bool]] = {
    "index scan": (_of_family(IndexLogits), _region_bytes, True),
    "sparse gather": (_gathers, _region_bytes, True),
    "cache append": (_appends, _written_bytes, True),
    "expert weights": (_of_family(MoeFamily), _region_bytes, False),
    "GEMM weights": (_of_family(GemmFamily), _region_bytes, False),
    "hyper-connection streams in": (_of_family(HyperConnectionPre), _region_bytes, False),
    "hyper-connection streams out": (_of_family(HyperConnectionPost), _region_bytes, False),
}


def _variants(
    pattern: str, program: KernelProgram, packed_bytes: int
) -> Iterator[tuple[str, KernelProgram]]:
    """The pattern's program; a gather also at packed rows, where the engine's are others."""
    yield pattern, program
    rows, *others = program.regions
    if pattern == "sparse gather" and rows.run_bytes != packed_bytes:
        packed = replace(rows, run_bytes=packed_bytes)
        yield f"{pattern}, packed rows", replace(program, regions=(packed, *others))


def _uncached(program: KernelProgram) -> KernelProgram:
    """The program with nothing cached at its start, and lines kept as the cache itself does."""
    regions = tuple(replace(region, warm=0.0, kept=1.0) for region in program.regions)
    return replace(program, regions=regions)


def _measured(
    label: str,
    kernel: Kernel,
    call: FamilyCall,
    program: KernelProgram,
    machine: MachineSpec,
    page_tokens: int | None,
    cached: bool,
) -> KernelPattern:
    launches = [launch_time(program, i, machine) for i in range(len(program.launches))]
    longest = max(range(len(launches)), key=lambda i: launches[i].duration_ps)
    launch = program.launches[longest]
    largest = max(
        (program.regions[a.region] for kind in launch.kinds for a in _accesses(kind)),
        key=lambda region: region.nbytes,
    )
    around_s = launch.gap_s + launch.end_s
    return KernelPattern(
        pattern=label,
        kernel=f"{kernel.scope}/{kernel.name}",
        family=call.constants.family,
        page_tokens=page_tokens,
        cached=cached,
        run_bytes=largest.run_bytes,
        seconds=launches[longest].duration_ps / PICOSECONDS - around_s,
        **rates_of(launches[longest], around_s, machine),
    )


def _accesses(kind: Any) -> tuple[Any, ...]:
    return (*kind.accesses, *kind.first_accesses, *kind.last_accesses)


def rates_of(launch: LaunchTime, around_s: float, machine: MachineSpec) -> dict[str, float]:
    """Rates of the longest run of a launch, as of the whole chip; `around_s` before and after it.

    A run on one stack of memory stands for all of them.
    """
    result = launch.result
    part = machine if len(result.channel_bytes) == machine.channels else machine.slice_of_stack()
    scale = machine.peak_bytes_per_s / part.peak_bytes_per_s
    seconds = max(result.duration_ps / PICOSECONDS - around_s, 1e-12)
    moved = (result.read_bytes + result.written_bytes) / seconds * scale
    loaded = result.hit_bytes + result.missed_bytes + result.merged_bytes
    latency_ps = result.memory_wait_ps / result.chunks if result.chunks else 0.0
    return {
        "bytes_per_s": moved,
        "peak_share": moved / machine.peak_bytes_per_s,
        "loaded_bytes_per_s": loaded / seconds * scale,
        "row_hit_rate": result.row_hit_rate,
        "llc_hit_rate": result.hit_rate,
        "latency_s": latency_ps / PICOSECONDS,
        "channel_balance": result.channel_balance,
        "extrapolated": launch.extrapolated,
    }
