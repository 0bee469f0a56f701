"""Sections of a chip's file: the form of its YAML, every number with unit and origin."""

from __future__ import annotations

from typing import Literal

from hwmodels.dram.edited_preset import PresetNumbers
from simulator.basis.sourced import (
    Bits,
    BitsPerSecond,
    Bytes,
    BytesPerClock,
    BytesPerSecond,
    Clocks,
    Count,
    FlopsPerClock,
    FlopsPerSecond,
    Hertz,
    Seconds,
    Watts,
)
from simulator.basis.yaml_loader import StrictModel


class Memory(PresetNumbers):
    """Device memory. `bandwidth` is the peak that streams approach; `pin_rate` as shipped.

    `preset` is that of the timing and organisation of a channel, by name or path; without one it
    follows from type and pin rate. The numbers of a preset (see `PresetNumbers`) stand beside it.
    """

    type: str
    preset: str | None = None
    capacity: Bytes
    bandwidth: BytesPerSecond
    stacks: Count
    channels_per_stack: Count
    channel_width: Bits
    pin_rate: BitsPerSecond
    latency: Seconds


class Cache(StrictModel):
    """A cache between the cores and memory; a sector is the unit that a miss fetches.

    `latency` is that of the partition beside a core, `far_latency` of the others; `slices` are
    the parts that serve a request each in a clock.
    """

    name: str
    capacity: Bytes
    read_bandwidth: BytesPerSecond
    latency: Seconds
    line: Bytes
    sector: Bytes
    ways: Count | None = None
    partitions: Count | None = None
    slices: Count | None = None
    far_latency: Seconds | None = None


class NearCache(StrictModel):
    """Cache that one group of cores has to itself, where the last level is further away."""

    name: str
    capacity: Bytes
    read_bandwidth: BytesPerSecond


class Noc(StrictModel):
    """The on-chip network between cores and cache.

    `core_port` is what one core takes from it, `partition_link` what passes between the partitions
    of the cache, one way.
    """

    core_port: BytesPerClock | None = None
    partition_link: BytesPerSecond | None = None


class Cores(StrictModel):
    """Compute cores and their own SRAM, a size for one core.

    `clock` is what kernels run at unthrottled, `peak_clock` what the datasheet's matrix peak
    assumes; `scratchpad` is the memory that software fills for the matrix unit. L0 buffers make
    the cores cube cores; `cube_to_vector` is the way between them and the vector cores.

    `threads` and `blocks` are resident at most; `copy_bytes` is what asynchronous copies keep in
    flight at most. A matrix instruction's result is there `matrix_fill` after its issue, and
    dependent ones of a block follow one another every `matrix_issue`.
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
    threads: Count | None = None
    blocks: Count | None = None
    copy_bytes: Bytes | None = None
    matrix_fill: Clocks | None = None
    matrix_issue: Clocks | None = None
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
