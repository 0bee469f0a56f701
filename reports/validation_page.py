"""The page of a validation: how far predictions are off, where, and how often intervals hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.figure_style import axis, layout
from reports.html_document import html_document
from reports.palette import INK, MUTED
from simulator.basis.atomic import write_text

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
    figures = {"errors": _errors(rows)} if rows else {}
    parts = [
        '<header><p class="kicker">v4sim · validation</p>'
        f"<h1>{escape(validation_sentence(report))}</h1></header><main>"
    ]
    if rows:
        parts.append(
            '<section><h3>Predicted over measured</h3><div class="figure" id="errors"></div>'
            "<p>Every dot is a measured row. Above the line the prediction is too slow.</p>"
            "</section>"
        )
    parts += [_table(title, names, report[key]) for key, title, names in _TABLES if report.get(key)]
    parts.append(_slices(slices))
    parts.append(_worst(report["worst"]))
    parts.append(
        "</main><footer><p>Errors are of the measured time; the bias is the mean logarithm of "
        "predicted over measured; width is p90 / p10 - 1 in the median.</p>"
        f"<p>Made by <code>{escape(command)}</code></p></footer>"
    )
    write_text(path, html_document("Validation", "".join(parts), figures))


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


def _table(title: str, names: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> str:
    names = names or [name for name in lines[0] if name not in _NUMBERS]
    head = "".join(f'<th class="bound">{escape(name)}</th>' for name in names)
    head += "".join(f"<th>{title}</th>" for title in _NUMBERS.values())
    body = "".join(
        "<tr>"
        + "".join(f'<td class="bound">{escape(str(line[name]))}</td>' for name in names)
        + "".join(f"<td>{_number(key, line[key])}</td>" for key in _NUMBERS)
        + "</tr>"
        for line in lines
    )
    return (
        f'<section><h3>{escape(title)}</h3><div class="scroll"><table class="grid">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


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


def _slices(slices: Sequence[Slice]) -> str:
    if not slices:
        return ""
    heads = ("family", "engine", "chip", "where", "time goes to")
    head = "".join(f'<th class="bound">{name}</th>' for name in heads)
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="bound">{escape(text)}</td>'
            for text in (part.family, part.engine, part.chip, part.words, part.cause)
        )
        + f"<td>{part.rows:,}</td><td>{part.bias:+.1%}</td><td>{part.error_share:.0%}</td></tr>"
        for part in slices
    )
    return (
        '<section><h3>Slices that are off to one side</h3><div class="scroll">'
        f'<table class="grid"><thead><tr>{head}<th>rows</th><th>bias</th>'
        f"<th>of its squared error</th></tr></thead><tbody>{lines}</tbody></table></div></section>"
    )


def _worst(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return ""
    shown = "".join(
        f"<li>{escape(line['file'])}:{line['line']} {escape(line['op'])}, {escape(line['engine'])} "
        f"on {escape(line['chip'])}: predicted {line['predicted_us']:,.1f} us, measured "
        f"{line['measured_us']:,.1f}; mostly {escape(line['cause'])}; {escape(line['call'])}</li>"
        for line in lines
    )
    return f'<section><h3>Worst rows</h3><ul style="color:{MUTED}">{shown}</ul></section>'
