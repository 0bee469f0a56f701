"""Kernels on the machine in a trace: a process each, bounded bars, counters over the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from hwmodels.chip import find_chip
from hwmodels.machine.lanes import kernel_lanes
from hwmodels.machine.spec import machine_of
from reports import machine_tracks
from reports.timeline import timeline_bytes
from simulator.cost.machine_lanes import ShownKernel
from tests.hwmodels.machine.test_lanes import program
from tests.reports.factory import make_step

CHIP = machine_of(find_chip("h200"))


@pytest.fixture(scope="module")
def shown() -> ShownKernel:
    lanes = kernel_lanes(program(40, 4), CHIP)
    record = make_step().kernels[1]
    return ShownKernel(record=record, program="gemm", chip=CHIP, lanes=lanes)


def decoded(shown: ShownKernel) -> tuple[dict[int, Any], dict[int, list[Any]]]:
    trace = protos.Trace()
    trace.ParseFromString(timeline_bytes(make_step(), [shown]))
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    events: dict[int, list[Any]] = {uuid: [] for uuid in tracks}
    for packet in trace.packet:
        if packet.HasField("track_event"):
            events[packet.track_event.track_uuid].append(packet)
    process = next(
        uuid
        for uuid, track in tracks.items()
        if track.process.process_name.startswith(f"machine: {shown.record.path} (")
    )
    own = {uuid: track for uuid, track in tracks.items() if track.parent_uuid == process}
    return {**own, 0: tracks[process]}, events


def test_cores_links_slices_and_channels_have_tracks(shown: ShownKernel) -> None:
    tracks, events = decoded(shown)
    names = {track.name: uuid for uuid, track in tracks.items() if uuid}
    assert {"core 0 matrix", "core 0 vector", "core 0 wait", "links of the chip"} <= names.keys()
    assert "memory channel 0 queue (chunks)" in names
    assert "all cache slices busy (%)" in names
    # The kernel begins on the machine where it does in its step.
    first = min(packet.timestamp for uuid in names.values() for packet in events[uuid])
    assert first == shown.record.start_ps // 1000
    values = [
        p.track_event.double_counter_value for p in events[names["all memory channels (GB/s)"]]
    ]
    assert len(values) == machine_tracks.BINS + 1
    result = shown.lanes.result
    mean = sum(values[:-1]) / machine_tracks.BINS * result.duration_ps / 1e3
    assert mean == pytest.approx(result.read_bytes + result.written_bytes, rel=0.01)
    assert "100 % of its work" in tracks[0].description
    assert "left out" not in tracks[0].description


def test_bars_are_bounded_and_the_rest_is_counted(
    shown: ShownKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_tracks, "MOST_BARS", 7)
    tracks, events = decoded(shown)
    counters = {uuid for uuid, track in tracks.items() if track.HasField("counter")}
    bars = sum(len(events[uuid]) // 2 for uuid in tracks.keys() - counters - {0})
    assert bars == 7
    assert "bars and 0 stretches of counters are left out" in tracks[0].description
    few = replace(shown, lanes=kernel_lanes(program(40, 4), CHIP, most=50))
    assert f"{few.lanes.left_out:,} stretches" in decoded(few)[0][0].description
