"""Tracks, bars and counters as packets of a Perfetto trace.

Its clock counts nanoseconds, so every picosecond is rounded down: what ends before another starts
still does, and bars of one track stay in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SEQUENCE = 1
_PS_PER_NS = 1000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One bar: exact times and arguments by name."""

    name: str
    category: str
    start_ps: int
    end_ps: int
    arguments: dict[str, int | str]


class Trace:
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

    def add_slices(self, parent: int, name: str, slices: Iterable[Slice]) -> None:
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
