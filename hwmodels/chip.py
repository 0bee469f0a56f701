"""A chip as facts: memory, caches, cores, peak rates, links, each number with its origin.

`find_chip("h200")` reads a file that ships here; a path to an edited copy works as well, and the
chip is then named after the file too: `h200 (my-chip.yaml)`.
Properties are in SI units with the unit in the name; the YAML keeps the units of the sources.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from hwmodels.chip_sections import (
    Cache,
    Cores,
    Launch,
    Matrix,
    Memory,
    NearCache,
    Noc,
    Power,
    ScaleUp,
    Vector,
)
from hwmodels.dram.memory_preset import memory_preset
from simulator.basis.data_files import (
    find_data_file,
    is_path,
    list_data_names,
    named_after,
    path_beside,
)
from simulator.basis.errors import InputError, unknown_name
from simulator.basis.sourced import Count, Sourced
from simulator.basis.yaml_loader import (
    KeyFaultError,
    LineMap,
    StrictModel,
    compose_yaml,
    dotted,
    validate_data,
)

_CHIPS = Path(__file__).parent / "chips"
# What is taken where a chip's file does not say; each stands in the property that reads it.
_CORE_PORT = 64.0
_THREADS = 2048
_BLOCKS = 32
_REGISTER_BYTES = 256 * 1024
_MATRIX_CLOCKS = 32
MatrixDtype = Literal["bf16", "fp16", "fp8", "fp4", "int8", "tf32", "fp32"]


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
    noc: Noc = Noc()
    cores: Cores
    matrix: Matrix
    vector: Vector
    launch: Launch
    scale_up: ScaleUp
    power: Power

    @property
    def plain_name(self) -> str:
        """What the chip's file calls it, without the name of the file or of edits."""
        return self.name.partition(" (")[0]

    @property
    def is_own(self) -> bool:
        """Whether it is from a file of the user's, or has edits: both stand in its name."""
        return self.name != self.plain_name

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
    def llc_slices(self) -> int:
        """Parts of the last-level cache that serve requests side by side.

        Assumes: one slice a memory channel where the chip's file gives no number.
        """
        return self.llc.slices.whole if self.llc.slices else self.hbm_channels

    @property
    def core_port_bytes_per_clock(self) -> float:
        """Bytes a clock that one core takes from the on-chip network.

        Assumes: 64 where the chip's file gives no number, two sectors of 32 bytes.
        """
        return self.noc.core_port.si if self.noc.core_port else _CORE_PORT

    @property
    def partition_link_bytes_per_s(self) -> float | None:
        """Rate between two partitions of the last-level cache, one way; None where it has one.

        Assumes: half of the cache's read bandwidth where the chip's file gives no number: what the
            cores beside one of two partitions take if all of it lies in the other.
        """
        if self.llc.partitions is None or self.llc.partitions.whole == 1:
            return None
        link = self.noc.partition_link
        return link.si if link else self.llc_bandwidth_bytes_per_s / 2

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

    @property
    def is_cube(self) -> bool:
        """True where the cores are cube cores with L0 buffers, which run one program each."""
        return any((self.cores.l0a, self.cores.l0b, self.cores.l0c))

    @property
    def threads_per_core(self) -> int:
        """Threads resident on one core at most.

        Assumes: 2048 where the chip's file gives no number, or 1 on a cube core.
        """
        given = self.cores.threads
        return given.whole if given else 1 if self.is_cube else _THREADS

    @property
    def blocks_per_core(self) -> int:
        """Blocks of threads resident on one core at most.

        Assumes: 32 where the chip's file gives no number, or 1 on a cube core.
        """
        given = self.cores.blocks
        return given.whole if given else 1 if self.is_cube else _BLOCKS

    @property
    def copy_bytes_per_core(self) -> int:
        """Bytes that the asynchronous copies of one core keep in flight at most.

        Assumes: as many as its scratchpad takes where the chip's file gives no number.
        """
        given = self.cores.copy_bytes
        return given.whole if given else self.smem_bytes_per_core

    @property
    def register_bytes_per_core(self) -> int:
        """What holds the operands and sums of one core's matrix unit: registers, or L0 buffers.

        Assumes: 256 KiB where the chip's file gives neither.
        """
        cores = self.cores
        if cores.register_file:
            return cores.register_file.whole
        buffers = (cores.l0a, cores.l0b, cores.l0c)
        return sum(buffer.whole for buffer in buffers if buffer) or _REGISTER_BYTES

    @property
    def matrix_fill_clocks(self) -> int:
        """Clocks from a matrix instruction's issue to its result.

        Assumes: 32 where the chip's file gives no number.
        """
        return self.cores.matrix_fill.whole if self.cores.matrix_fill else _MATRIX_CLOCKS

    @property
    def matrix_issue_clocks(self) -> int:
        """Clocks between dependent matrix instructions of a block.

        Assumes: 32 where the chip's file gives no number.
        """
        return self.cores.matrix_issue.whole if self.cores.matrix_issue else _MATRIX_CLOCKS

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
    data, lines = compose_yaml(path)
    spec = validate_data(data, lines, ChipSpec)
    if own:
        changes = {"name": named_after(spec.name, path), "node": path_beside(path, spec.node)}
        spec = spec.model_copy(update=changes)
    if spec.memory.preset is not None:
        preset = path_beside(path, spec.memory.preset)
        memory = spec.memory.model_copy(update={"preset": preset})
        spec = spec.model_copy(update={"memory": memory})
    _check_preset(spec, lines)
    return spec


def _check_preset(spec: ChipSpec, lines: LineMap) -> None:
    """Refuse a preset that is not there, and numbers of it that contradict each other.

    A memory that names none and replaces nothing is asked for its preset where it is simulated.
    """
    if spec.memory.preset is None and not spec.memory.replaced:
        return
    try:
        memory_preset(spec.memory)
    except KeyFaultError as fault:
        keys = ("memory", *fault.keys)
        raise lines.error(keys, f"{dotted(keys)!r}: {fault.sentence}", fault.kind) from None
    except InputError as error:
        keys = ("memory", "preset")
        raise lines.error(keys, f"{dotted(keys)!r}: {error.message}", type(error)) from None
