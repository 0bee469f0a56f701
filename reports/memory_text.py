"""What a chip's memory makes of access patterns, as tables of text for terminal and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwmodels.bandwidth.measurement import Measurement
from hwmodels.bandwidth.sweep import ALIGNMENTS, SweepPoint
from hwmodels.dram.result import PART_NAMES

PART_MEANINGS = {
    "data": "bursts on the bus",
    "column": "column commands: spacing within a bank group, order of requests",
    "turnaround": "switching between reads and writes",
    "activate": "waiting for a row to open",
    "activate_rate": "waiting for the turn to open a row (tRRD, tFAW, row bus)",
    "conflict": "closing another row first (tRAS, tRTP, tWR, tRP)",
    "refresh": "banks that refresh",
    "idle": "nothing waited",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A title, a sentence below it, headings, and rows of cells; the first column is a name."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sweep_tables(points: Sequence[SweepPoint]) -> list[TextTable]:
    """All tables of a sweep."""
    groups: dict[str, list[SweepPoint]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point)
    return [
        _granules(groups["granule"]),
        _padding(groups["padding"]),
        _loads(groups["outstanding"]),
        _writes(groups["writes"]),
        _controllers(groups["controller"]),
        parts_table(_shown_parts(groups)),
    ]


def percent(share: float) -> str:
    """A share in per cent with one decimal."""
    return f"{100 * share:.1f} %"


def gigabytes(bytes_per_s: float) -> str:
    """A rate in GB/s, whole."""
    return f"{bytes_per_s / 1e9:,.0f}"


def latency(found: Measurement) -> tuple[str, str]:
    """Median and 99th percentile in ns."""
    return f"{found.latency_p50_ns:,.0f}", f"{found.latency_p99_ns:,.0f}"


def _granules(points: Sequence[SweepPoint]) -> TextTable:
    rows: dict[int, dict[str, Measurement]] = {}
    for point in points:
        found = point.measurement
        rows.setdefault(found.access.granule_bytes, {})[point.label] = found
    labels = ("stream", "own size", *(f"{align} B" for align in ALIGNMENTS))
    cells = []
    for granule, by_label in rows.items():
        own = by_label["own size"]
        shares = (percent(by_label[label].useful_fraction) for label in labels)
        rate = gigabytes(own.useful_bytes_per_s)
        hits = percent(own.row_hit_rate)
        cells.append((f"{granule:,} B", *shares, rate, *latency(own), hits))
    return TextTable(
        title="Runs of each size",
        note="Useful bytes as a share of the peak, by where runs begin; the rest is of runs at "
        "multiples of their own size.",
        headings=(
            "run", "stream", "gather at\nown size", *(f"at\n{a} B" for a in ALIGNMENTS),
            "GB/s", "p50\nns", "p99\nns", "row\nhits",
        ),
        rows=tuple(cells),
    )  # fmt: skip


def _padding(points: Sequence[SweepPoint]) -> TextTable:
    packed: dict[int, float] = {}
    cells = []
    for point in points:
        found, entry = point.measurement, point.measurement.access.granule_bytes
        base = packed.setdefault(entry, found.useful_bytes_per_s)
        cells.append(
            (
                f"{point.label}, {entry} B",
                f"{point.slot_bytes:,}",
                f"+{100 * (point.slot_bytes / entry - 1):.1f} %",
                percent(found.useful_fraction),
                gigabytes(found.useful_bytes_per_s),
                f"{100 * (found.useful_bytes_per_s / base - 1):+.1f} %",
                percent(found.achieved_fraction),
                *latency(found),
            )
        )
    return TextTable(
        title="Cache entries, packed and padded",
        note="Scattered entries, one run each; only the entry's own bytes are read and count. "
        "FlashMLA pads pages, not entries, to 576 B: 0.2 % more memory for 64 entries, and entries "
        "that lie as packed ones.",
        headings=(
            "entry", "slot\nB", "memory", "useful", "GB/s", "against\npacked", "bursts",
            "p50\nns", "p99\nns",
        ),
        rows=tuple(cells),
    )  # fmt: skip


def _loads(points: Sequence[SweepPoint]) -> TextTable:
    cells = [
        (
            f"{p.measurement.access.granule_bytes:,} B x {p.measurement.outstanding:,}",
            f"{p.measurement.bytes_in_flight / 2**20:.2f}",
            percent(p.measurement.useful_fraction),
            gigabytes(p.measurement.useful_bytes_per_s),
            *latency(p.measurement),
        )
        for p in points
    ]
    return TextTable(
        title="Runs in flight over the whole chip",
        note="Scattered runs at multiples of their own size, in a closed loop.",
        headings=("runs", "MiB in\nflight", "useful", "GB/s", "p50\nns", "p99\nns"),
        rows=tuple(cells),
    )


def _writes(points: Sequence[SweepPoint]) -> TextTable:
    cells = [
        (
            f"{p.label}, {percent(p.measurement.access.write_fraction)} writes",
            percent(p.measurement.useful_fraction),
            gigabytes(p.measurement.useful_bytes_per_s),
            percent(p.measurement.parts["turnaround"]),
        )
        for p in points
    ]
    return TextTable(
        title="Reads and writes mixed",
        note="",
        headings=("pattern", "useful", "GB/s", "time turning\nthe bus"),
        rows=tuple(cells),
    )


def _controllers(points: Sequence[SweepPoint]) -> TextTable:
    rows: dict[str, list[str]] = {}
    for point in points:
        rows.setdefault(point.label, []).append(percent(point.measurement.useful_fraction))
    return TextTable(
        title="What the memory controller is not known to do",
        note="Address hash and queues of shipped chips are not published: the first line is what "
        "measured streams agree with, the others show how much hangs on it.",
        headings=("controller", "stream\n4 KiB", "gather\n584 B", "gather\n4 KiB"),
        rows=tuple((name, *cells) for name, cells in rows.items()),
    )


def _shown_parts(groups: Mapping[str, Sequence[SweepPoint]]) -> dict[str, Measurement]:
    """Patterns whose time is divided: streams, gathers of each size, the heaviest mix."""
    own = {
        f"gather {p.measurement.access.granule_bytes:,} B": p.measurement
        for p in groups["granule"]
        if p.label == "own size"
    }
    writes = {
        f"{p.label}, {percent(p.measurement.access.write_fraction)} writes": p.measurement
        for p in groups["writes"]
        if p.label.startswith("stream")
    }
    return {**writes, **own}


def parts_table(found: Mapping[str, Measurement]) -> TextTable:
    """Where the time of the data buses went, by pattern."""
    return TextTable(
        title="Where the time of the data buses went",
        note="; ".join(f"{name}: {PART_MEANINGS[name]}" for name in PART_NAMES) + ".",
        headings=("pattern", *(name.replace("_", "\n") for name in PART_NAMES)),
        rows=tuple(
            (name, *(percent(one.parts[part]) for part in PART_NAMES))
            for name, one in found.items()
        ),
    )


def time_table(found: Measurement) -> TextTable:
    """Where the time of the data buses went, a line a part."""
    return TextTable(
        title="Where the time of the data buses went",
        note="",
        headings=("part", "time", "what it is"),
        rows=tuple(
            (name.replace("_", " "), percent(found.parts[name]), PART_MEANINGS[name])
            for name in PART_NAMES
        ),
    )
