"""A costed step as a Perfetto trace: one process a step, one track a stream, layers and counters.

Open the file in ui.perfetto.dev. Its clock counts nanoseconds, so every picosecond is rounded
down: what ends before another starts still does, and slices of one track stay in order. The exact
`start_ps`, `end_ps` and `duration_ps` are arguments of each slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.answer import answer_sentence, machine_text
from reports.breakdown import SUMMED_FIELDS, StepBreakdown
from reports.perfetto import Slice, Trace, lanes_of
from reports.rates import rate_series
from simulator.basis.atomic import write_bytes
from simulator.cost.result import KernelRecord, StepResult

if TYPE_CHECKING:
    from simulator.cost.machine_lanes import ShownKernel


def write_timeline(
    steps: StepResult | Sequence[StepResult | tuple[str, StepResult]],
    path: Path | str,
    shown: Sequence[ShownKernel] = (),
) -> None:
    """Write one or several steps, each a process that starts at 0; titles name the processes.

    Kernels whose lanes are `shown` have a process each after them.
    """
    write_bytes(path, timeline_bytes(steps, shown))


def timeline_bytes(
    steps: StepResult | Sequence[StepResult | tuple[str, StepResult]],
    shown: Sequence[ShownKernel] = (),
) -> bytes:
    """The trace as serialized protobuf."""
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    if isinstance(steps, StepResult):
        steps = [steps]
    trace = Trace(TraceProtoBuilder())
    for step in steps:
        title, result = step if isinstance(step, tuple) else (step.question.phase, step)
        _add_step(trace, title, result)
    if shown:
        from reports.machine_tracks import add_kernels

        add_kernels(trace, shown)
    data: bytes = trace.builder.serialize()
    return data


def _add_step(trace: Trace, title: str, result: StepResult) -> None:
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
) -> Iterator[tuple[str, Sequence[Slice]]]:
    yield "layers", _layers(result)
    streams: dict[int, list[Slice]] = {}
    for kernel, decided_ps in zip(result.kernels, critical_ps, strict=True):
        about = result.abouts.get(kernel.name, "")
        streams.setdefault(kernel.stream, []).append(_launch(kernel, decided_ps, about))
    for stream in sorted(streams):
        yield f"stream {stream}", streams[stream]


def _layers(result: StepResult) -> list[Slice]:
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
            Slice(
                name=f"{scope} ({kind})" if kind != scope else scope,
                category=kind,
                start_ps=start,
                end_ps=end,
                arguments=arguments,
            )
        )
    return slices


def _launch(kernel: KernelRecord, critical_ps: int, about: str) -> Slice:
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
    return Slice(
        name=kernel.name,
        category=kernel.family,
        start_ps=kernel.start_ps,
        end_ps=kernel.end_ps,
        arguments=arguments,
    )
