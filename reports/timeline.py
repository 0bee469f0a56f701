"""A costed step as a Perfetto trace: one process a step, one track a stream, layers and counters.

Open the file in ui.perfetto.dev. Its clock counts nanoseconds, so every picosecond is rounded
down: what ends before another starts still does, and slices of one track stay in order. The exact
`start_ps`, `end_ps` and `duration_ps` are arguments of each slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.answer import answer_sentence, machine_text
from reports.breakdown import SUMMED_FIELDS, StepBreakdown
from reports.rates import rate_series
from simulator.basis.atomic import write_bytes
from simulator.cost.result import KernelRecord, StepResult


def lanes_of(intervals: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indexes of (start, end) intervals by lane, on which they never overlap, in order of time.

    The first lane takes all that follow one another; only what overlaps needs another one.
    """
    order = sorted(range(len(intervals)), key=lambda i: intervals[i])
    lanes: list[list[int]] = []
    ends: list[int] = []
    for index in order:
        start, end = intervals[index]
        for lane, busy_until in enumerate(ends):
            if start >= busy_until:
                lanes[lane].append(index)
                ends[lane] = end
                break
        else:
            lanes.append([index])
            ends.append(end)
    return lanes


_SEQUENCE = 1
_PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """One bar: exact times and arguments by name."""

    name: str
    category: str
    start_ps: int
    end_ps: int
    arguments: dict[str, int | str]


def write_timeline(
    steps: StepResult | Sequence[StepResult | tuple[str, StepResult]], path: Path | str
) -> None:
    """Write one or several steps, each a process that starts at 0; titles name the processes."""
    write_bytes(path, timeline_bytes(steps))


def timeline_bytes(
    steps: StepResult | Sequence[StepResult | tuple[str, StepResult]],
) -> bytes:
    """The trace as serialized protobuf."""
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    if isinstance(steps, StepResult):
        steps = [steps]
    trace = _Trace(TraceProtoBuilder())
    for step in steps:
        title, result = step if isinstance(step, tuple) else (step.question.phase, step)
        _add_step(trace, title, result)
    data: bytes = trace.builder.serialize()
    return data


class _Trace:
    """Writes packets; tracks are numbered in the order in which they are made."""

    def __init__(self, builder: Any) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self.builder = builder
        self._protos = protos
        self._tracks = 0
        self._processes = 0

    def add_process(self, name: str, description: str) -> int:
        """A process, which groups tracks; its children keep their order."""
        self._processes += 1
        descriptor = self._descriptor(description)
        descriptor.process.pid = self._processes
        descriptor.process.process_name = name
        descriptor.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        return self._tracks

    def add_slices(self, parent: int, name: str, slices: Iterable[_Slice]) -> None:
        """A track of slices that follow one another."""
        descriptor = self._descriptor("", parent)
        descriptor.name = name
        track, event = self._tracks, self._protos.TrackEvent
        for bar in slices:
            begin = self._event(track, event.TYPE_SLICE_BEGIN, bar.start_ps)
            begin.name = bar.name
            begin.categories.append(bar.category)
            for key, value in bar.arguments.items():
                if isinstance(value, str):
                    begin.debug_annotations.add(name=key, string_value=value)
                else:
                    begin.debug_annotations.add(name=key, int_value=value)
            self._event(track, event.TYPE_SLICE_END, bar.end_ps)

    def add_counter(
        self, parent: int, name: str, unit: str, points: Iterable[tuple[int, float]]
    ) -> None:
        """A counter track: (time in ps, value) at each change."""
        descriptor = self._descriptor("", parent)
        descriptor.name = name
        descriptor.counter.unit_name = unit
        for time_ps, value in points:
            event = self._event(self._tracks, self._protos.TrackEvent.TYPE_COUNTER, time_ps)
            event.double_counter_value = value

    def _packet(self) -> Any:
        packet = self.builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _descriptor(self, description: str, parent: int | None = None) -> Any:
        packet = self._packet()
        if self._tracks == 0:
            packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        self._tracks += 1
        descriptor = packet.track_descriptor
        descriptor.uuid = self._tracks
        descriptor.sibling_order_rank = self._tracks
        if parent is not None:
            descriptor.parent_uuid = parent
        if description:
            descriptor.description = description
        return descriptor

    def _event(self, track: int, event_type: int, time_ps: int) -> Any:
        packet = self._packet()
        packet.timestamp = time_ps // _PS_PER_NS
        packet.track_event.track_uuid = track
        packet.track_event.type = event_type
        return packet.track_event


def _add_step(trace: _Trace, title: str, result: StepResult) -> None:
    breakdown = StepBreakdown(result)
    name = f"{title}: {result.question.model}, one rank of {machine_text(result.question)}"
    process = trace.add_process(name, answer_sentence(result, breakdown))
    for label, slices in _tracks(result, breakdown.critical_ps):
        for lane, members in enumerate(lanes_of([(bar.start_ps, bar.end_ps) for bar in slices])):
            track = label if lane == 0 else f"{label} (overlap {lane})"
            trace.add_slices(process, track, (slices[index] for index in members))
    kernels = result.kernels
    counters = [
        ("DRAM", "GB/s", 1e-9, [kernel.dram_bytes for kernel in kernels]),
        ("matrix", "TFLOP/s", 1e-12, [kernel.total_flops for kernel in kernels]),
        ("link", "GB/s", 1e-9, [kernel.link_bytes for kernel in kernels]),
    ]
    for name, unit, scale, amounts in counters:
        if not any(amounts):
            continue
        series = rate_series(kernels, amounts, result.total_ps)
        values = (rate * scale for rate in series.per_second)
        points = zip(series.start_ps, values, strict=True)
        trace.add_counter(process, f"{name} ({unit})", unit, points)


def _tracks(
    result: StepResult, critical_ps: Sequence[int]
) -> Iterator[tuple[str, Sequence[_Slice]]]:
    yield "layers", _layers(result)
    streams: dict[int, list[_Slice]] = {}
    for kernel, decided_ps in zip(result.kernels, critical_ps, strict=True):
        about = result.abouts.get(kernel.name, "")
        streams.setdefault(kernel.stream, []).append(_launch(kernel, decided_ps, about))
    for stream in sorted(streams):
        yield f"stream {stream}", streams[stream]


def _layers(result: StepResult) -> list[_Slice]:
    """One slice a scope, from its first launch to its last end."""
    members: dict[str, list[KernelRecord]] = {}
    for kernel in result.kernels:
        members.setdefault(kernel.scope, []).append(kernel)
    slices = []
    for scope, kernels in members.items():
        start, end = min(k.start_ps for k in kernels), max(k.end_ps for k in kernels)
        kind = kernels[0].kind
        arguments: dict[str, int | str] = {"kind": kind, "launches": len(kernels)}
        arguments |= {"start_ps": start, "end_ps": end, "duration_ps": end - start}
        slices.append(
            _Slice(
                name=f"{scope} ({kind})" if kind != scope else scope,
                category=kind,
                start_ps=start,
                end_ps=end,
                arguments=arguments,
            )
        )
    return slices


def _launch(kernel: KernelRecord, critical_ps: int, about: str) -> _Slice:
    arguments: dict[str, int | str] = {
        **({"about": about} if about else {}),
        "path": kernel.path,
        "family": kernel.family,
        "kind": kernel.kind,
        "bound": kernel.bound,
        "start_ps": kernel.start_ps,
        "end_ps": kernel.end_ps,
        "duration_ps": kernel.duration_ps,
        "critical_ps": critical_ps,
        "low_ps": kernel.low_ps,
        "high_ps": kernel.high_ps,
        "priced_by": kernel.priced_by,
        "calibrated": "yes" if kernel.calibrated else "no",
        **{f"flops_{name}": count for name, count in kernel.flops.items()},
        **{name: getattr(kernel, name) for name in SUMMED_FIELDS},
        **{f"busy_{name}_ps": busy_ps for name, busy_ps in kernel.busy_ps.items()},
        **{f"cause_{name}_ps": part_ps for name, part_ps in kernel.causes_ps.items()},
        "nodes": ";".join(kernel.nodes),
    }
    return _Slice(
        name=kernel.name,
        category=kernel.family,
        start_ps=kernel.start_ps,
        end_ps=kernel.end_ps,
        arguments=arguments,
    )
