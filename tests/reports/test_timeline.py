"""The trace, decoded again, holds the records: whole nanoseconds rounded down, exact arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from reports.timeline import timeline_bytes, write_timeline
from simulator.cost.result import StepResult
from tests.reports.factory import make_kernel, make_result, make_step

EVENT = protos.TrackEvent


def _decode(data: bytes) -> Any:
    trace = protos.Trace()
    trace.ParseFromString(data)
    return trace


def _tracks(trace: Any) -> dict[int, Any]:
    packets = [p for p in trace.packet if p.HasField("track_descriptor")]
    return {p.track_descriptor.uuid: p.track_descriptor for p in packets}


def _slices(trace: Any) -> Iterator[tuple[int, str, int, int, dict[str, Any]]]:
    """Track, name, begin, end and arguments; a track holds at most one open slice."""
    opened: dict[int, Any] = {}
    for packet in trace.packet:
        event = packet.track_event
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in opened
            opened[event.track_uuid] = packet
        elif event.type == EVENT.TYPE_SLICE_END:
            begin = opened.pop(event.track_uuid)
            arguments = {
                note.name: getattr(note, note.WhichOneof("value"))
                for note in begin.track_event.debug_annotations
            }
            name = begin.track_event.name
            yield event.track_uuid, name, begin.timestamp, packet.timestamp, arguments
    assert not opened


@pytest.fixture(scope="module")
def result() -> StepResult:
    return make_step()


def test_launches_come_back(result: StepResult, tmp_path: Path) -> None:
    write_timeline(result, tmp_path / "t.perfetto-trace")
    trace = _decode((tmp_path / "t.perfetto-trace").read_bytes())
    tracks = _tracks(trace)
    found = {
        arguments["path"]: (tracks[track].name, name, begin, end, arguments)
        for track, name, begin, end, arguments in _slices(trace)
        if "path" in arguments
    }
    assert len(found) == len(result.kernels)
    for kernel in result.kernels:
        track, name, begin, end, arguments = found[kernel.path]
        assert track == f"stream {kernel.stream}"
        assert name == kernel.name
        assert (begin, end) == (kernel.start_ps // 1000, kernel.end_ps // 1000)
        for field in ("start_ps", "end_ps", "duration_ps", "dram_read_bytes", "bound", "family"):
            assert arguments[field] == getattr(kernel, field)
        for name, count in kernel.flops.items():
            assert arguments[f"flops_{name}"] == count


def test_slices_of_a_track_follow_one_another() -> None:
    kernels = [make_kernel(f"k{i}", 700 * i, 700 * (i + 1)) for i in range(20)]
    kernels.append(make_kernel("nothing", 700, 700))
    kernels.append(make_kernel("prologue", 350, 2_000))  # overlaps on the same stream
    trace = _decode(timeline_bytes(make_result(*kernels)))
    names = {uuid: track.name for uuid, track in _tracks(trace).items()}
    ends: dict[int, int] = {}
    lanes = set()
    for track, _, begin, end, arguments in _slices(trace):
        assert ends.get(track, 0) <= begin <= end
        ends[track] = end
        if "path" in arguments:
            lanes.add(names[track])
    assert lanes == {"stream 0", "stream 0 (overlap 1)"}


def test_counters_are_the_rates(result: StepResult) -> None:
    trace = _decode(timeline_bytes(result))
    tracks = _tracks(trace)
    series: dict[str, list[tuple[int, float]]] = {}
    for packet in trace.packet:
        event = packet.track_event
        if event.type == EVENT.TYPE_COUNTER:
            track = tracks[event.track_uuid]
            assert track.counter.unit_name in track.name
            point = (packet.timestamp, event.double_counter_value)
            series.setdefault(track.name, []).append(point)
    assert set(series) == {"DRAM (GB/s)", "matrix (TFLOP/s)", "link (GB/s)"}
    for points in series.values():
        assert points == sorted(points, key=lambda point: point[0])
        assert points[-1][1] == 0
    moved = sum(
        rate * (after[0] - now)
        for (now, rate), after in zip(
            series["DRAM (GB/s)"], series["DRAM (GB/s)"][1:], strict=False
        )
    )
    # GB/s times ns is bytes; an edge may be off by a nanosecond.
    assert moved == pytest.approx(sum(k.dram_bytes for k in result.kernels), rel=1e-3)


def test_each_step_is_a_process(result: StepResult) -> None:
    trace = _decode(timeline_bytes([("Decode", result), ("Prefill", make_step(layers=2))]))
    tracks = _tracks(trace)
    processes = [track for track in tracks.values() if track.HasField("process")]
    names = [track.process.process_name for track in processes]
    assert [name.split(":")[0] for name in names] == ["Decode", "Prefill"]
    assert len({track.process.pid for track in processes}) == 2
    children = [track for track in tracks.values() if not track.HasField("process")]
    assert {track.parent_uuid for track in children} == {track.uuid for track in processes}
    labels = [(track.parent_uuid, track.name) for track in children]
    assert len(set(labels)) == len(labels)  # equal names under one parent would be merged


def test_layers_have_a_track(result: StepResult) -> None:
    trace = _decode(timeline_bytes(result))
    layers = {name: args for _, name, _, _, args in _slices(trace) if "launches" in args}
    assert layers["layer02 (csa)"]["launches"] == 28
    assert sum(args["launches"] for args in layers.values()) == len(result.kernels)
