"""A chip as facts: memory, caches, cores, peak rates, links, each number with its origin.

`find_chip("h200")` reads a file that ships here; a path to an edited copy works as well, and the
chip is then named after the file too: `h200 (my-chip.yaml)`.
Properties are in SI units with the unit in the name; the YAML keeps the units of the sources.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from simulator.basis.data_files import (
    find_data_file,
    is_path,
    list_data_names,
    named_after,
    path_beside,
)
from simulator.basis.errors import InputError, unknown_name
from simulator.basis.sourced import (
    Bits,
    BitsPerSecond,
    Bytes,
    BytesPerClock,
    BytesPerSecond,
    Count,
    FlopsPerClock,
    FlopsPerSecond,
    Hertz,
    Seconds,
    Sourced,
    Watts,
)
from simulator.basis.yaml_loader import StrictModel, load_yaml

_CHIPS = Path(__file__).parent / "chips"
MatrixDtype = Literal["bf16", "fp16", "fp8", "fp4", "int8", "tf32", "fp32"]


class Memory(StrictModel):
    """Device memory. `bandwidth` is the peak that streams approach; `pin_rate` as shipped."""

    type: str
    capacity: Bytes
    bandwidth: BytesPerSecond
    stacks: Count
    channels_per_stack: Count
    channel_width: Bits
    pin_rate: BitsPerSecond
    latency: Seconds


class Cache(StrictModel):
    """A cache between the cores and memory; a sector is the unit that a miss fetches.

    `latency` is that of the partition beside a core, `far_latency` of the others.
    """

    name: str
    capacity: Bytes
    read_bandwidth: BytesPerSecond
    latency: Seconds
    line: Bytes
    sector: Bytes
    ways: Count | None = None
    partitions: Count | None = None
    far_latency: Seconds | None = None


class NearCache(StrictModel):
    """Cache that one group of cores has to itself, where the last level is further away."""

    name: str
    capacity: Bytes
    read_bandwidth: BytesPerSecond


class Cores(StrictModel):
    """Compute cores and their own SRAM, a size for one core.

    `clock` is what kernels run at unthrottled, `peak_clock` what the datasheet's matrix peak
    assumes; `scratchpad` is the memory that software fills for the matrix unit. L0 buffers make
    the cores cube cores; `cube_to_vector` is the way between them and the vector cores.
    """

    kind: str
    count: Count
    clock: Hertz
    peak_clock: Hertz
    matrix_flops_per_clock: FlopsPerClock
    scratchpad: Bytes
    l1_and_scratchpad: Bytes | None = None
    l1_cache: Bytes | None = None
    register_file: Bytes | None = None
    vector_core_count: Count | None = None
    unified_buffer: Bytes | None = None
    l0a: Bytes | None = None
    l0b: Bytes | None = None
    l0c: Bytes | None = None
    l1_to_l0a: BytesPerClock | None = None
    l1_to_l0b: BytesPerClock | None = None
    cube_to_vector: Literal["llc", "direct"] = "llc"


class Matrix(StrictModel):
    """Peak dense matrix rates by operand type; absent where the chip has no unit for it."""

    bf16: FlopsPerSecond | None = None
    fp16: FlopsPerSecond | None = None
    fp8: FlopsPerSecond | None = None
    fp4: FlopsPerSecond | None = None
    int8: FlopsPerSecond | None = None
    tf32: FlopsPerSecond | None = None
    fp32: FlopsPerSecond | None = None


class Vector(StrictModel):
    """Rates outside the matrix units: FP32 arithmetic, and exponentials and the like."""

    fp32: FlopsPerSecond
    special: FlopsPerSecond


class Launch(StrictModel):
    """Time from one small kernel to the next: replayed from a graph, or launched on a stream."""

    graph_gap: Seconds
    stream_gap: Seconds


class ScaleUp(StrictModel):
    """The chip's share of the links to its neighbours, one way."""

    bandwidth: BytesPerSecond


class Power(StrictModel):
    """Power limit of the package, and of its share of a whole server where known."""

    tdp: Watts
    all_in: Watts | None = None


class ChipSpec(StrictModel):
    """One accelerator package. `node` names the server that it usually sits in."""

    name: str
    vendor: str
    architecture: str
    node: str
    how_counted: str | None = None
    dies_per_package: Count
    memory: Memory
    llc: Cache
    near_cache: NearCache | None = None
    cores: Cores
    matrix: Matrix
    vector: Vector
    launch: Launch
    scale_up: ScaleUp
    power: Power

    @property
    def dies(self) -> int:
        """Compute dies in the package."""
        return self.dies_per_package.whole

    @property
    def hbm_capacity_bytes(self) -> int:
        """Device memory of the package."""
        return self.memory.capacity.whole

    @property
    def hbm_bandwidth_bytes_per_s(self) -> float:
        """Peak device memory bandwidth, reads and writes together."""
        return self.memory.bandwidth.si

    @property
    def hbm_channels(self) -> int:
        """Independent memory channels of the package."""
        return self.memory.stacks.whole * self.memory.channels_per_stack.whole

    @property
    def hbm_channel_bytes_per_s(self) -> float:
        """Peak of one channel: the bandwidth in use, shared evenly."""
        return self.hbm_bandwidth_bytes_per_s / self.hbm_channels

    @property
    def dram_latency_s(self) -> float:
        """Idle time from a core's load to its data out of device memory."""
        return self.memory.latency.si

    @property
    def llc_bytes(self) -> int:
        """Last-level cache of the package."""
        return self.llc.capacity.whole

    @property
    def llc_bandwidth_bytes_per_s(self) -> float:
        """Read bandwidth of the last-level cache."""
        return self.llc.read_bandwidth.si

    @property
    def llc_latency_s(self) -> float:
        """Idle time from a core's load to its data out of the last-level cache."""
        return self.llc.latency.si

    @property
    def llc_line_bytes(self) -> int:
        """Bytes that share one tag of the last-level cache."""
        return self.llc.line.whole

    @property
    def llc_sector_bytes(self) -> int:
        """Bytes that one miss fetches."""
        return self.llc.sector.whole

    @property
    def core_count(self) -> int:
        """Cores with a matrix unit: SMs, CUs or AI cores."""
        return self.cores.count.whole

    @property
    def vector_core_count(self) -> int:
        """Cores with a vector unit; the same cores unless the chip has its own kind for it."""
        own = self.cores.vector_core_count
        return own.whole if own else self.core_count

    @property
    def register_bytes_per_core(self) -> int:
        return self.cores.register_file.whole if self.cores.register_file else 262144

    @property
    def threads_per_core(self) -> int:
        return 2048

    @property
    def blocks_per_core(self) -> int:
        return 32

    @property
    def copy_bytes_per_core(self) -> int:
        return 196608

    @property
    def matrix_fill_clocks(self) -> float:
        return 32.0

    @property
    def matrix_issue_clocks(self) -> float:
        return 0.0

    @property
    def core_port_bytes_per_clock(self) -> float:
        return 128.0

    @property
    def partition_link_bytes_per_s(self) -> float | None:
        return None

    @property
    def llc_slices(self) -> int:
        return self.hbm_channels

    @property
    def clock_hz(self) -> float:
        """Clock at which kernels run when neither power nor heat holds them back."""
        return self.cores.clock.si

    @property
    def peak_clock_hz(self) -> float:
        """Clock that the published matrix peak assumes."""
        return self.cores.peak_clock.si

    @property
    def smem_bytes_per_core(self) -> int:
        """Software-managed memory beside one matrix unit: shared memory, LDS or L1 buffer."""
        return self.cores.scratchpad.whole

    def matrix_flops_per_s(self, dtype: str) -> float | None:
        """Peak dense rate of a multiply-add type, or None where the chip has no unit for it.

        FP32 runs on the vector units unless the chip has a matrix rate for it.
        """
        if dtype not in get_args(MatrixDtype):
            raise InputError(unknown_name("matrix type", dtype, get_args(MatrixDtype)))
        rate: Sourced | None = getattr(self.matrix, dtype)
        if rate is None and dtype == "fp32":
            return self.vector_flops_per_s
        return None if rate is None else float(rate.si)

    @property
    def vector_flops_per_s(self) -> float:
        """FP32 rate outside the matrix units; a fused multiply-add is two."""
        return self.vector.fp32.si

    @property
    def special_ops_per_s(self) -> float:
        """Exponentials, reciprocals and the like a second."""
        return self.vector.special.si

    @property
    def launch_gap_s(self) -> float:
        """Time from one kernel's end to the next one's start in a replayed graph."""
        return self.launch.graph_gap.si

    @property
    def stream_launch_gap_s(self) -> float:
        """The same where kernels are launched one by one on a stream."""
        return self.launch.stream_gap.si

    @property
    def scale_up_bytes_per_s(self) -> float:
        """Links to the neighbours in the node, one way, all of them together."""
        return self.scale_up.bandwidth.si

    @property
    def tdp_w(self) -> float:
        """Power limit of the package."""
        return self.power.tdp.si


def list_chips() -> list[str]:
    """Names of the chips that ship with the package."""
    return list_data_names(_CHIPS)


def find_chip(name_or_path: str | Path) -> ChipSpec:
    """Chip by name (`h200`) or by path to a YAML file of the same form, which its name then tells.

    A node that the file names by a relative path is found beside it.
    """
    path = find_data_file("chip", name_or_path, _CHIPS)
    return _load(path, path.resolve(), path.stat().st_mtime_ns, is_path(name_or_path))


@lru_cache(maxsize=64)
def _load(path: Path, _resolved: Path, _changed_ns: int, own: bool) -> ChipSpec:
    """Chip of a file that has not changed since; errors name the path as the user gave it."""
    spec = load_yaml(path, ChipSpec)
    if not own:
        return spec
    changes = {"name": named_after(spec.name, path), "node": path_beside(path, spec.node)}
    return spec.model_copy(update=changes)
