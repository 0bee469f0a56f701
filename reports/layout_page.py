"""The page of a layout sweep: one figure of eight panels, and the tables behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.figure_style import axis, layout
from reports.layout_rows import sweep_json
from reports.layout_text import (
    Cuts,
    cut_table,
    grouping_name,
    layout_answer,
    layout_notes,
    own_tokens,
    pool_table,
    same_pages,
)
from reports.memory_text import TextTable
from reports.palette import INK, MUTED, POOL_COLORS, RESOURCE_COLORS
from reports.report import Figure, Report, Section
from reports.report_page import write_report_page
from reports.report_tables import of_text
from simulator.layout.sweep import OWN, LayoutCost
from simulator.layout.sweep_request import AskedSweep

_Value = Callable[[LayoutCost], float]
_HEIGHT = 300
_TICKS = (64, 128, 256, 512, 1024, 2048, 4096)
_COLORS = (RESOURCE_COLORS["memory"], RESOURCE_COLORS["link"], RESOURCE_COLORS["vector"], "#cc79a7",
           "#e69f00", "#56b4e9", INK)  # fmt: skip
CAPTIONS = {
    "waste": "Waste: share of what a request of the mix holds that is no useful row.",
    "hits": "Tokens that a prefix hit loses on average, by the granule that all pools agree on.",
    "padding": "Padding of a further token, over its useful bytes.",
    "tiles": "Tiles of the index kernel that stay empty: none reaches over a page's end.",
    "dram": "DRAM efficiency of a decode step's reads: useful share of the peak, by pool.",
    "reads": "Time of memory for the reads of one request in a decode step.",
    "step": "Decode step of the mix, with rows and pages stored so.",
    "tables": "Page ids of a request.",
    "requests": "Requests that the budget holds at the stated context.",
}
# Row padding beyond a cache line only shows how much it would cost; the table has it.
_SHOWN_PADDINGS = ("engine", "none", "page:64", "page:576", "row:32", "row:64")


def layout_figures(
    asked: AskedSweep, costs: Sequence[LayoutCost], cuts: Cuts
) -> dict[str, dict[str, Any]]:
    """Figures by name, in the order of the captions."""
    base = asked.base
    swept = [cost for cost in costs if cost.point != OWN]
    by_grouping = _series(
        [c for c in swept if c.point.padding == base.padding],
        lambda cost: grouping_name(cost.point.grouping),
    )
    by_padding = _series(
        [c for c in swept if c.point.grouping == base.grouping and _shown(c)],
        lambda cost: f"padding {cost.point.padding.name}",
    )
    pages = {"": list(cuts.pages)}
    percent = {"tickformat": ".0%"}
    share: dict[str, Any] = {**percent, "range": [0, 1]}
    figures = {
        "waste": _lines(by_grouping, _wasted, axis("waste of what is held", **share)),
        "hits": _lines(pages, _lost, _doubling("tokens lost a hit")),
        "padding": _lines(
            by_padding, _padding, axis("padding", rangemode="tozero", tickformat=".1%")
        ),
        "tiles": _lines(pages, _tiles, axis("empty share of tiles", **share)),
        "dram": _pools(cuts.pages),
        "reads": _lines(by_padding, _reads, axis("reads of one request", ticksuffix="s")),
        "tables": _lines(by_grouping, _tables, _doubling("bytes a request")),
        "requests": _lines(by_grouping, _requests, axis("requests", rangemode="tozero")),
    }
    if cuts.own.step_ps is not None:
        figures["step"] = _lines(by_padding, _step, axis("decode step", ticksuffix="s"))
    for figure in figures.values():
        figure["layout"]["shapes"] = _marks(cuts)
        for line in figure["data"]:
            _open_dots(line, cuts.granule)
    return {name: figures[name] for name in CAPTIONS if name in figures}


def _doubling(title: str) -> dict[str, Any]:
    """A logarithmic axis with a tick at every power of two."""
    ticks = [1 << n for n in range(2, 20)]
    return axis(title, type="log", tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])


def _shown(cost: LayoutCost) -> bool:
    return cost.point.padding.name in _SHOWN_PADDINGS


def _wasted(cost: LayoutCost) -> float:
    return cost.wasted_share


def _lost(cost: LayoutCost) -> float:
    return cost.lost_tokens_uniform


def _padding(cost: LayoutCost) -> float:
    return cost.padding_share


def _tiles(cost: LayoutCost) -> float:
    return cost.index_tiles.share


def _reads(cost: LayoutCost) -> float:
    return cost.read_s


def _step(cost: LayoutCost) -> float:
    return (cost.step_ps or 0) * 1e-12


def _tables(cost: LayoutCost) -> float:
    return cost.table_bytes


def _requests(cost: LayoutCost) -> float:
    return cost.requests


def _series(
    costs: Sequence[LayoutCost], name: Callable[[LayoutCost], str]
) -> dict[str, list[LayoutCost]]:
    found: dict[str, list[LayoutCost]] = {}
    for cost in costs:
        found.setdefault(name(cost), []).append(cost)
    return {label: sorted(of, key=lambda c: c.page_tokens) for label, of in found.items()}


def _lines(series: dict[str, list[LayoutCost]], value: _Value, y: dict[str, Any]) -> dict[str, Any]:
    data = [
        _line(name, [c.page_tokens for c in of], [value(c) for c in of], color, y)
        for (name, of), color in zip(series.items(), _COLORS, strict=False)
    ]
    return _figure(data, y, legend=len(series) > 1)


def _pools(costs: Sequence[LayoutCost]) -> dict[str, Any]:
    y = axis("useful share of the peak", tickformat=".0%")
    pages = [cost.page_tokens for cost in costs]
    names = [run.pool for run in costs[0].runs]
    data = [
        _line(
            _POOL_NAMES.get(name, name),
            pages,
            [next(r.efficiency for r in c.runs if r.pool == name) for c in costs],
            color,
            y,
        )
        for name, color in zip(
            names, (POOL_COLORS[0], "#e69f00", "#009e73", "#cc79a7"), strict=False
        )
    ]
    data.append(_line("all reads", pages, [c.dram_efficiency for c in costs], INK, y))
    data[-1]["line"]["width"] = 3
    return _figure(data, y, legend=True)


_POOL_NAMES = {"window": "window", "c4": "C4 picks", "c4_index": "index scan", "c128": "C128"}


def _line(
    name: str, pages: Sequence[int], values: Sequence[float], color: str, y: dict[str, Any]
) -> dict[str, Any]:
    shown = ".2%" if "tickformat" in y else ".4s"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(pages),
        "y": list(values),
        "line": {"color": color, "width": 2},
        "marker": {
            "size": 7,
            "color": color,
            "line": {"color": color, "width": 1.5},
        },
        "hovertemplate": f"{name + '<br>' if name else ''}pages of %{{x:,}} tokens: "
        f"<b>%{{y:{shown}}}{y.get('ticksuffix', '')}</b><extra></extra>",
    }


def _open_dots(line: dict[str, Any], granule: int) -> None:
    """Full dots at pages in which every pool ends whole entries, open ones between."""
    color = line["marker"]["color"]
    line["marker"]["color"] = ["#ffffff" if page % granule else color for page in line["x"]]


def _figure(data: list[dict[str, Any]], y: dict[str, Any], *, legend: bool) -> dict[str, Any]:
    x = axis(
        "tokens of a page",
        type="log",
        tickvals=list(_TICKS),
        ticktext=[f"{tick:,}" for tick in _TICKS],
    )
    shape = {**layout(height=_HEIGHT, x=x, y=y), "showlegend": legend}
    if not legend:
        shape["margin"] = {**shape["margin"], "b": 52}
    return {"data": data, "layout": shape}


def _marks(cuts: Cuts) -> list[dict[str, Any]]:
    """Lines at the smallest whole page and at the engine's own."""
    at = [(cuts.granule, "dash", INK)]
    own = own_tokens(cuts)
    if own not in (0, cuts.granule):
        at.append((own, "dot", MUTED))
    return [
        {
            "type": "line",
            "x0": tokens,
            "x1": tokens,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "layer": "below",
            "line": {"color": color, "width": 1.5, "dash": dash},
        }
        for tokens, dash, color in at
    ]


def write_layout_page(
    path: Path,
    asked: AskedSweep,
    costs: Sequence[LayoutCost],
    cuts: Cuts,
    assumptions: Sequence[str],
    files: Mapping[str, Path],
    command: str,
) -> None:
    """Write the page whole or not at all."""
    links = {label: file.name for label, file in files.items()}
    write_report_page(path, layout_report(asked, costs, cuts, assumptions, links), command)


def layout_report(
    asked: AskedSweep,
    costs: Sequence[LayoutCost],
    cuts: Cuts,
    assumptions: Sequence[str],
    files: Mapping[str, str],
) -> Report:
    """The report of a sweep."""
    name = asked.question.groupings.config.name
    figures = tuple(
        Figure(id=panel, title=CAPTIONS[panel], drawing=drawing)
        for panel, drawing in layout_figures(asked, costs, cuts).items()
    )
    found = tables(asked, cuts)
    return Report(
        kind="layout",
        title=f"Cache layout of {name}",
        kicker=f"cache layout of {name} as {asked.engine} stores it, on "
        f"{asked.question.chip.name}",
        answer=layout_answer(asked, cuts),
        data=sweep_json(asked, costs),
        sections=(
            Section(
                id="panels", title="By size of a page", parts=figures, texts=(_marks_note(cuts),),
                pair=True,
            ),
            Section(
                id="cuts", title="Tables",
                parts=tuple(of_text(f"table-{n}", one) for n, one in enumerate(found, 1)),
            ),
        ),
        notes=(*(f"{text}." for text in asked.priced_as), *layout_notes(asked, cuts)),
        assumptions=tuple(assumptions),
        units="1 kB = 10³ bytes, 1 GiB = 2³⁰ bytes.",
        files=files,
    )  # fmt: skip


def tables(asked: AskedSweep, cuts: Cuts) -> list[TextTable]:
    """The choices, then the pools of the engine and of the smallest whole pages."""
    found = [cut_table(asked, cuts), pool_table(f"{asked.engine} as it is", cuts.own)]
    least = cuts.page(cuts.granule)
    if least is not None and not same_pages(least, cuts.own):
        what = "pages" if asked.pool == "all" else f"{asked.pool} pages"
        found.append(pool_table(f"{what} of {cuts.granule} tokens", least))
    return found


def _marks_note(cuts: Cuts) -> str:
    own = own_tokens(cuts)
    text = f"Dashed line: {cuts.granule} tokens = {cuts.granule_words}"
    if own not in (0, cuts.granule):
        text += f"; dotted: the engine's own {own:,}"
    return f"{text}. Full dots are multiples of {cuts.granule} tokens, open ones are between."
