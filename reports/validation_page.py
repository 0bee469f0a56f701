"""The page of a validation: how far predictions are off, where, and how often intervals hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.figure_style import axis, layout
from reports.palette import INK
from reports.report import Card, Field, Figure, Report, ReportTable, Section
from reports.report_page import write_report_page

if TYPE_CHECKING:
    from simulator.calibration.slices import Slice
    from simulator.calibration.validation import Row

_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a100", "#8d95a1")
# More dots than this a file say no more and make the page heavy.
MOST_DOTS = 600
_TABLES = (
    ("files", "By file", ("file",)),
    ("groups", "By file, operation, engine and chip", ("file", "op", "engine", "chip")),
    ("families", "By kernel family and chip", ("family", "chip")),
    ("by", "By the columns asked for", ()),
)


def validation_sentence(report: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    whole = report["all"]
    if whole is None:
        return "No row is covered by a kernel family."
    how = "constants fitted to the other folds" if report["cross_validated"] else "constants in use"
    return (
        f"{whole['n']:,} measured rows are predicted within {whole['median_abs_error']:.1%} in the "
        f"median and {whole['p90_abs_error']:.1%} in 9 of 10, by {how}; the predicted p10 to p90 "
        f"holds {whole['coverage']:.0%} of them."
    )


def write_validation_page(
    path: Path,
    report: Mapping[str, Any],
    rows: Sequence[Row],
    slices: Sequence[Slice],
    command: str,
) -> None:
    """Write the page whole or not at all."""
    write_report_page(path, validation_report(report, rows, slices), command)


def validation_report(
    report: Mapping[str, Any], rows: Sequence[Row], slices: Sequence[Slice]
) -> Report:
    """The report of a validation, whose figures are in `report`."""
    whole = report["all"]
    cards = () if whole is None else tuple(
        Card(label=label, value=_number(key, whole[key]))
        for key, label in (
            ("n", "measured rows"),
            ("median_abs_error", "off in the median"),
            ("p90_abs_error", "off at most, in 9 of 10"),
            ("coverage", "within p10 to p90"),
            ("bias_log", "bias (above 0: too slow)"),
        )
    )  # fmt: skip
    errors = Figure(
        id="errors",
        title="Predicted over measured",
        note="Every dot is a measured row. Above the line the prediction is too slow.",
        drawing=_errors(rows) if rows else {},
    )
    tables = tuple(
        _table(f"table-{key}", title, names, report[key])
        for key, title, names in _TABLES
        if report.get(key)
    )
    more = (*([_slices(slices)] if slices else []), *([_worst(report["worst"])]
            if report["worst"] else []))  # fmt: skip
    return Report(
        kind="validate",
        title="Validation",
        kicker="validation",
        answer=validation_sentence(report),
        cards=cards,
        data=report,
        sections=(
            *([Section(id="dots", title=errors.title, parts=(errors,))] if rows else []),
            Section(id="tables", title="How far off, by what", parts=tables),
            *([Section(id="most-off", title="What is off most", parts=more)] if more else []),
        ),
        units="Errors are of the measured time; the bias is the mean logarithm of predicted over "
        "measured; width is p90 / p10 - 1 in the median.",
    )


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    files = sorted({row.file for row in rows})
    data: list[dict[str, Any]] = []
    for file, color in zip(files, _COLORS * len(files), strict=False):
        own = [row for row in rows if row.file == file]
        own = own[:: max(1, -(-len(own) // MOST_DOTS))]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": file,
                "x": [row.measured_s for row in own],
                "y": [row.predicted_s / row.measured_s for row in own],
                "text": [f"{row.op} {row.engine} {row.chip}, line {row.line}" for row in own],
                "marker": {"color": color, "size": 4, "opacity": 0.5},
                "hovertemplate": "%{text}<br>measured %{x}s, predicted %{y:.2f} of it"
                "<extra></extra>",
            }
        )
    times = [row.measured_s for row in rows]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": [min(times), max(times)],
            "y": [1, 1],
            "line": {"color": INK, "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    ticks = [0.4, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5]
    y = axis(
        "predicted over measured",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    y["range"] = [-0.45, 0.45]
    return {
        "data": data,
        "layout": layout(height=420, x=axis("measured", type="log", ticksuffix="s"), y=y),
    }


def _table(
    name: str, title: str, names: Sequence[str], lines: Sequence[Mapping[str, Any]]
) -> ReportTable:
    names = names or [name for name in lines[0] if name not in _NUMBERS]
    fields = [
        Field(name=key, heading=key, values=[str(line[key]) for line in lines]) for key in names
    ]
    for key, heading in _NUMBERS.items():
        fields.append(
            Field(name=key, heading=heading, values=[line[key] for line in lines],
                  show=partial(_number, key))
        )  # fmt: skip
    return ReportTable(id=name, title=title, fields=tuple(fields))


_NUMBERS = {
    "n": "rows",
    "median_abs_error": "median",
    "mean_abs_error": "mean",
    "p90_abs_error": "p90",
    "bias_log": "bias",
    "coverage": "held",
    "median_width": "width",
}


def _number(key: str, value: float) -> str:
    if key == "n":
        return f"{value:,}"
    return f"{value:+.1%}" if key == "bias_log" else f"{value:.1%}"


def _slices(slices: Sequence[Slice]) -> ReportTable:
    columns: list[tuple[str, str, list[Any], Any]] = [
        ("family", "family", [part.family for part in slices], None),
        ("engine", "engine", [part.engine for part in slices], None),
        ("chip", "chip", [part.chip for part in slices], None),
        ("where", "where", [part.words for part in slices], None),
        ("cause", "time goes to", [part.cause for part in slices], None),
        ("rows", "rows", [part.rows for part in slices], None),
        ("bias", "bias", [part.bias for part in slices], lambda value: f"{value:+.1%}"),
        ("error_share", "of its squared\nerror", [part.error_share for part in slices],
         lambda value: f"{value:.0%}"),
    ]  # fmt: skip
    return ReportTable(
        id="slices",
        title="Slices that are off to one side",
        fields=tuple(
            Field(name=name, heading=heading, values=values, show=show)
            for name, heading, values, show in columns
        ),
    )


def _worst(lines: Sequence[Mapping[str, Any]]) -> ReportTable:
    def column(name: str, heading: str, values: list[Any], show: Any = None) -> Field:
        return Field(name=name, heading=heading, values=values, show=show)

    def micro(value: float) -> str:
        return f"{value:,.1f}"

    return ReportTable(
        id="worst",
        title="Worst rows",
        fields=(
            column("row", "row", [f"{line['file']}:{line['line']}" for line in lines]),
            *(column(key, key, [line[key] for line in lines]) for key in ("op", "engine", "chip")),
            column("predicted_us", "predicted us", [x["predicted_us"] for x in lines], micro),
            column("measured_us", "measured us", [x["measured_us"] for x in lines], micro),
            column("cause", "mostly", [line["cause"] for line in lines]),
            column("call", "call", [str(line["call"]) for line in lines]),
        ),
    )
