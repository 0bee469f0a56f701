"""The page of a chip's memory: bandwidth and latency by access pattern, as figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hwmodels.bandwidth.measurement import Measurement
from hwmodels.bandwidth.sweep import SweepPoint
from hwmodels.dram.chip_memory import ChipMemory
from reports.figure_style import axis, layout
from reports.memory_rows import sweep_row
from reports.memory_text import PART_MEANINGS, TextTable, percent, sweep_tables
from reports.palette import INK, POOL_COLORS
from reports.report import Figure, Report, Section
from reports.report_page import write_report_page
from reports.report_tables import of_text

_Value = Callable[[Measurement], float]
_NO_BOX = "<extra></extra>"
_PART_COLORS = dict(zip(PART_MEANINGS, (*POOL_COLORS, "#c3cad3"), strict=True))


def write_memory_page(
    path: Path,
    memory: ChipMemory,
    points: Sequence[SweepPoint],
    answer: str,
    assumptions: Sequence[str],
    files: Mapping[str, Path],
    command: str,
    more: Sequence[TextTable] = (),
) -> None:
    """Write the page whole or not at all; `more` tables follow those of the sweep."""
    links = {label: file.name for label, file in files.items()}
    report = memory_report(memory, points, answer, assumptions, links, more)
    write_report_page(path, report, command)


def memory_report(
    memory: ChipMemory,
    points: Sequence[SweepPoint],
    answer: str,
    assumptions: Sequence[str],
    files: Mapping[str, str],
    more: Sequence[TextTable] = (),
) -> Report:
    """The report of a chip's memory by access pattern."""
    figures = tuple(
        Figure(id=name, title=_CAPTIONS[name], drawing=drawing)
        for name, drawing in memory_figures(points).items()
    )
    tables = [*sweep_tables(points), *more]
    return Report(
        kind="bandwidth",
        title=f"Memory of {memory.chip}",
        kicker=f"device memory of {memory.chip}",
        answer=answer,
        data={"points": [sweep_row(point) for point in points]},
        sections=(
            Section(id="charts", title="By access pattern", parts=figures, pair=True),
            Section(
                id="tables",
                title="Tables",
                parts=tuple(of_text(f"table-{n}", one) for n, one in enumerate(tables, 1)),
            ),
        ),
        assumptions=tuple(assumptions),
        units="1 GB = 10⁹ bytes, 1 MiB = 2²⁰ bytes.",
        files=files,
    )


_CAPTIONS = {
    "by-size": "Useful bandwidth by size of a run: shares of the peak, bytes asked for only.",
    "by-load": "Bandwidth by bytes in flight over the whole chip.",
    "latency": "Latency of a run by bandwidth, from a core's request to its last byte: median, and "
    "99th percentile dashed.",
    "padding": "Cache entries packed and padded: useful bandwidth of scattered entries.",
    "parts": "Where the time of the data buses goes, by pattern.",
}


def memory_figures(points: Sequence[SweepPoint]) -> dict[str, dict[str, Any]]:
    """Figures by name."""
    groups: dict[str, list[SweepPoint]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point)
    share = axis("useful share of the peak", range=[0, 1.02], tickformat=".0%")
    size = _doubling_axis("size of a run", [32 << n for n in range(8)])
    flight = _doubling_axis("bytes in flight", [1 << n for n in range(16, 25)])
    return {
        "by-size": _lines(groups["granule"], _granule, _useful, size, share),
        "by-load": _lines(groups["outstanding"], _in_flight, _useful, flight, share),
        "latency": _latency(groups["outstanding"]),
        "padding": _padding(groups["padding"]),
        "parts": _parts(groups),
    }


def _doubling_axis(title: str, sizes: Sequence[int]) -> dict[str, Any]:
    """A logarithmic axis of bytes with a tick at each of the sizes."""
    texts = [
        f"{size} B"
        if size < 2**10
        else f"{size >> 10} KiB"
        if size < 2**20
        else f"{size >> 20} MiB"
        for size in sizes
    ]
    return axis(title, type="log", tickvals=list(sizes), ticktext=texts)


def _granule(found: Measurement) -> float:
    return found.access.granule_bytes


def _in_flight(found: Measurement) -> float:
    return found.bytes_in_flight


def _useful(found: Measurement) -> float:
    return round(found.useful_fraction, 4)


def _series(points: Sequence[SweepPoint]) -> dict[str, list[Measurement]]:
    series: dict[str, list[Measurement]] = {}
    for point in points:
        series.setdefault(point.label, []).append(point.measurement)
    return series


def _lines(
    points: Sequence[SweepPoint],
    across: _Value,
    up: _Value,
    x: dict[str, Any],
    y: dict[str, Any],
) -> dict[str, Any]:
    """A line a label."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": _name(label),
            "x": [across(one) for one in found],
            "y": [up(one) for one in found],
            "line": {"color": color, "width": 2},
            "hovertemplate": f"{escape(_name(label))}<br>%{{x:,}} B: <b>%{{y:.1%}}</b>{_NO_BOX}",
        }
        for (label, found), color in zip(_series(points).items(), (INK, *POOL_COLORS), strict=False)
    ]
    return {"data": data, "layout": layout(height=360, x=x, y=y)}


def _name(label: str) -> str:
    return (
        f"gather at multiples of {label}"
        if label[0].isdigit()
        else label.replace("own size", "gather at multiples of own size")
    )


def _latency(points: Sequence[SweepPoint]) -> dict[str, Any]:
    data = []
    for (label, found), color in zip(_series(points).items(), POOL_COLORS, strict=False):
        for name, dash, value in (
            (f"{label}, median", "solid", "latency_p50_ns"),
            (f"{label}, p99", "dash", "latency_p99_ns"),
        ):
            line = {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": [_useful(one) for one in found],
                "y": [round(getattr(one, value)) * 1e-9 for one in found],
                "line": {"color": color, "width": 2, "dash": dash},
                "hovertemplate": f"{name}<br>%{{x:.1%}} of peak: <b>%{{y:.3s}}s</b>{_NO_BOX}",
            }
            data.append(line)
    share = axis("useful share of the peak", range=[0, 1.02], tickformat=".0%")
    y = axis("latency of a run", ticksuffix="s", rangemode="tozero")
    return {"data": data, "layout": layout(height=360, x=share, y=y)}


def _padding(points: Sequence[SweepPoint]) -> dict[str, Any]:
    """Groups of bars, one a way to pad."""
    bars: dict[str, list[SweepPoint]] = {}
    for point in points:
        way = (
            "packed" if point.label.endswith("packed") else point.label[point.label.rindex("to ") :]
        )
        bars.setdefault(way, []).append(point)
    data = [
        {
            "type": "bar",
            "name": way if way == "packed" else f"padded {way}",
            "x": [f"{p.label.removesuffix(way).strip()} ({_granule(p.measurement)} B)" for p in of],
            "y": [_useful(p.measurement) for p in of],
            "text": [f"slot {p.slot_bytes} B" for p in of],
            "textposition": "none",
            "marker": {"color": color},
            "hovertemplate": "%{x}, %{text}: <b>%{y:.1%}</b><extra></extra>",
        }
        for (way, of), color in zip(bars.items(), POOL_COLORS, strict=False)
    ]
    y = axis("useful share of the peak", range=[0, 1.02], tickformat=".0%")
    return {
        "data": data,
        "layout": {
            **layout(height=340, x=axis("cache entry, with the bytes of a row"), y=y),
            "barmode": "group",
        },
    }


def _parts(groups: Mapping[str, Sequence[SweepPoint]]) -> dict[str, Any]:
    shown = {
        "stream": next(p for p in groups["granule"] if p.label == "stream").measurement,
        **{
            f"{p.measurement.access.granule_bytes:,} B": p.measurement
            for p in groups["granule"]
            if p.label == "own size"
        },
    }
    data = [
        {
            "type": "bar",
            "name": part.replace("_", " "),
            "x": list(shown),
            "y": [round(one.parts[part], 4) for one in shown.values()],
            "marker": {"color": color},
            "hovertemplate": f"%{{x}}: {escape(PART_MEANINGS[part])} <b>%{{y:.1%}}</b>{_NO_BOX}",
        }
        for part, color in _PART_COLORS.items()
    ]
    x = axis("stream, and gathers by size of a run", type="category")
    y = axis("share of time", range=[0, 1], tickformat=".0%")
    return {"data": data, "layout": {**layout(height=360, x=x, y=y), "barmode": "stack"}}


def sweep_answer(memory: ChipMemory, points: Sequence[SweepPoint]) -> str:
    """What matters most, in a sentence."""
    stream = next(p.measurement for p in points if p.label == "stream")
    packed = next(p.measurement for p in points if p.label == "FP8 key-value packed")
    padded = next(p.measurement for p in points if p.label == "FP8 key-value to 64 B")
    return (
        f"{memory.chip} streams at {stream.useful_bytes_per_s / 1e9:,.0f} GB/s, "
        f"{percent(stream.useful_fraction)} of its peak; scattered cache entries of 584 bytes "
        f"reach {packed.useful_bytes_per_s / 1e9:,.0f} GB/s packed "
        f"({percent(packed.useful_fraction)}) and {padded.useful_bytes_per_s / 1e9:,.0f} GB/s "
        "padded to 640."
    )
