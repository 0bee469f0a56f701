"""The page of an indexer study: recall and output by context, latency by chip, tables, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from reports.figure_style import axis, layout
from reports.indexer_rows import study_to_json
from reports.indexer_text import SYNTHETIC, study_sentence, study_tables
from reports.palette import INK
from reports.report import Figure, Report, Said, Section
from reports.report_page import write_report_page
from reports.report_tables import of_text
from simulator.indexer.accuracy import AccuracyPoint
from simulator.indexer.cost import CostPoint
from simulator.indexer.scores import Variant
from simulator.indexer.study import IndexerStudy

_COLORS = {"fp4": "#d55e00", "fp8": "#0072b2", "bf16": "#009e73", "fp32": INK}
_DASHES = {"fp4": "solid", "fp8": "dash", "bf16": "dot"}
_CHIP_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8a100", "#56b4e9")
_Value = Callable[[AccuracyPoint], float]


def write_indexer_page(
    path: Path, study: IndexerStudy, files: Mapping[str, Path], command: str
) -> None:
    """Write the page whole or not at all."""
    links = {label: file.name for label, file in files.items()}
    write_report_page(path, indexer_report(study, links), command)


def indexer_report(study: IndexerStudy, files: Mapping[str, str]) -> Report:
    """The report of a study of index keys."""
    figures = indexer_figures(study)

    def drawn(name: str, title: str) -> Figure:
        return Figure(id=name, title=title[:1].upper() + title[1:], drawing=figures[name])

    cases = tuple(
        Section(
            id=f"case-{n}",
            title=name[:1].upper() + name[1:],
            texts=(
                f"{about[:1].upper()}{about[1:]}. Solid: rotated before rounding; dashed: not "
                "rotated.",
            ),
            parts=(
                drawn(f"recall-{n}", f"share of float32's top {study.top_k:,} that is picked"),
                drawn(f"output-{n}", "change of the layer's attention output"),
            ),
            pair=True,
        )
        for n, (name, about) in enumerate(study.cases.items())
    )
    costs = Section(
        id="costs",
        title="What scans cost",
        texts=(
            "Chips by colour; FP4 keys solid, FP8 dashed, BF16 dotted. A chip without units for a "
            "format unpacks the keys inside the scan.",
        ),
        parts=(
            drawn("latency", "Time of one layer's scan, by context"),
            drawn("share", "Share of the decode step that waits for scans"),
        ),
        pair=True,
    )
    tables = tuple(of_text(f"table-{n}", one) for n, one in enumerate(study_tables(study), 1))
    return Report(
        kind="indexer",
        title=f"Index keys of {study.model}",
        kicker=f"index keys of {study.model}",
        answer=study_sentence(study),
        said=(Said(text=SYNTHETIC),) if study.synthetic else (),
        data=study_to_json(study),
        sections=(*cases, costs, Section(id="tables", title="Tables", parts=tables)),
        assumptions=study.assumptions,
        units="1 GB = 10⁹ bytes. One index key stands for four tokens.",
        files=files,
    )


def indexer_figures(study: IndexerStudy) -> dict[str, dict[str, Any]]:
    """Figures by name."""
    figures = {}
    for number, name in enumerate(study.cases):
        points = [point for point in study.accuracy if point.distribution == name]
        figures[f"recall-{number}"] = _by_entries(points, lambda p: p.recall, "recall", None)
        figures[f"output-{number}"] = _by_entries(
            points, lambda p: p.output_change, "relative change", "tozero"
        )
    figures["latency"] = _latency(study.costs)
    figures["share"] = _share(study.costs)
    return figures


def _by_entries(
    points: Sequence[AccuracyPoint], value: _Value, title: str, start: str | None
) -> dict[str, Any]:
    """A line a variant; those that are float32 throughout are exact and left out."""
    series: dict[Variant, list[AccuracyPoint]] = {}
    for point in points:
        if point.variant.precision != "fp32" or point.variant.bf16_scores:
            series.setdefault(point.variant, []).append(point)
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": variant.name,
            "x": [p.entries for p in found],
            "y": [round(value(p), 5) for p in found],
            "line": {
                "color": _COLORS[variant.precision],
                "width": 2,
                "dash": "solid" if variant.hadamard else "dash",
            },
            "marker": {"size": 6},
            "hovertemplate": f"{escape(variant.name)}<br>%{{x:,}} entries: <b>%{{y:.2%}}</b>"
            "<extra></extra>",
        }
        for variant, found in series.items()
    ]
    sizes = sorted({point.entries for point in points})
    x = _log_axis("index entries in the context", sizes)
    y = axis(title, tickformat=".0%", **({"rangemode": start} if start else {}))
    return {"data": data, "layout": _with_dashes(layout(height=340, x=x, y=y))}


def _with_dashes(plain: dict[str, Any]) -> dict[str, Any]:
    """A layout whose legend shows how lines are dashed."""
    return {**plain, "legend": {**plain["legend"], "itemsizing": "trace", "itemwidth": 44}}


def _log_axis(title: str, sizes: Sequence[int]) -> dict[str, Any]:
    return axis(title, type="log", tickvals=list(sizes), ticktext=[_short(s) for s in sizes])


def _short(size: int) -> str:
    """65536 as 64K, 1048576 as 1M; other numbers in full."""
    for unit, letter in ((2**20, "M"), (2**10, "K")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size:,}"


def _latency(points: Sequence[CostPoint]) -> dict[str, Any]:
    data = _by_context(points, lambda p: p.scan_ps * 1e-12, "%{y:.3s}s")
    y = axis("time of one scan", type="log", ticksuffix="s", dtick="D2")
    return {"data": data, "layout": _with_dashes(layout(height=380, x=_contexts(points), y=y))}


def _share(points: Sequence[CostPoint]) -> dict[str, Any]:
    fitting = [p for p in points if p.scan_share is not None]
    data = _by_context(fitting, lambda p: p.scan_share or 0.0, "%{y:.1%}")
    y = axis("share of the step", tickformat=".0%", rangemode="tozero")
    return {"data": data, "layout": _with_dashes(layout(height=380, x=_contexts(points), y=y))}


def _contexts(points: Sequence[CostPoint]) -> dict[str, Any]:
    return _log_axis("tokens of a request", sorted({p.context for p in points}))


def _by_context(
    points: Sequence[CostPoint], value: Callable[[CostPoint], float], shown: str
) -> list[dict[str, Any]]:
    """A line a chip and precision."""
    chips = list(dict.fromkeys(p.chip for p in points))
    series: dict[tuple[str, str], list[CostPoint]] = {}
    for point in sorted(points, key=lambda p: p.context):
        series.setdefault((point.chip, point.precision), []).append(point)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{chip}, {precision.upper()}",
            "x": [p.context for p in found],
            "y": [value(p) for p in found],
            "line": {
                "color": _CHIP_COLORS[chips.index(chip) % len(_CHIP_COLORS)],
                "width": 2,
                "dash": _DASHES[precision],
            },
            "hovertemplate": f"{escape(chip)}, {precision.upper()} on {escape(found[0].math)}<br>"
            f"%{{x:,}} tokens: <b>{shown}</b><extra></extra>",
        }
        for (chip, precision), found in series.items()
    ]
