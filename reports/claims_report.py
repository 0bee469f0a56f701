"""Published figures beside ours as reports: those that are counted and run, and those served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reports.figure_style import axis, layout
from reports.quantity import count_text, number_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Section
from reports.serving_claims_text import difference_text, serving_records, setting_lines
from simulator.claims.claim import ClaimResult, Statement
from simulator.claims.serving import Compared

_MET, _DIFFERS, _OPEN = "#009e73", "#d55e00", "#8d95a1"


def claims_report(
    results: Sequence[ClaimResult], statements: Sequence[tuple[Statement, str]]
) -> Report:
    """Figures that are counted, executed or simulated, and statements that are put right."""
    verdicts = Counter(result.verdict for result in results)
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    rows = [result.claim.model_dump() | _found(result) for result in results]
    return Report(
        kind="claims",
        title="Published figures beside ours",
        kicker="published figures beside ours",
        answer=f"Of {count_text(len(results), 'published figure')}, {said}.",
        cards=tuple(
            Card(label=verdict, value=str(count)) for verdict, count in verdicts.items()
        ),
        data={
            "claims": rows,
            "statements": [one.model_dump() | {"right": right} for one, right in statements],
        },
        sections=(
            Section(id="claims", title="Figure by figure",
                    parts=(_differences(results), _claims(results))),
            Section(id="statements", title="Statements that are wrong or need a footnote",
                    parts=(_statements(statements),)),
        ),
        units="A figure is met where it differs by no more than its tolerance.",
    )  # fmt: skip


def _found(result: ClaimResult) -> dict[str, Any]:
    return {"ours": result.ours, "difference": result.difference, "verdict": result.verdict}


def _differences(results: Sequence[ClaimResult]) -> Figure:
    """Differences against the tolerance of each figure; what agrees to the digit stands left."""
    found = [r for r in results if r.difference is not None]
    floor = 1e-6
    data = []
    for verdict, color in (("met", _MET), ("differs", _DIFFERS)):
        own = [r for r in found if r.verdict == verdict]
        if own:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": verdict,
                    "x": [max(floor, r.difference or 0.0) for r in own],
                    "y": [max(floor, r.claim.tolerance) for r in own],
                    "text": [f"{r.claim.number}: {r.claim.quantity}" for r in own],
                    "marker": {"color": color, "size": 9, "opacity": 0.8},
                    "hovertemplate": "%{text}<br>off by %{x:.2%}, allowed %{y:.2%}",
                }
            )
    line = {"color": _OPEN, "width": 1.5, "dash": "dash"}
    data.append(
        {"type": "scatter", "mode": "lines", "name": "as far off as allowed", "x": [floor, 1.0],
         "y": [floor, 1.0], "line": line, "hoverinfo": "skip"}
    )  # fmt: skip
    ticks = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    texts = ["≤0.0001 %", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]
    marks = {"type": "log", "tickvals": ticks, "ticktext": texts}
    shape = layout(
        height=340, x=axis("relative difference from what is published", **marks),
        y=axis("allowed", **marks),
    )  # fmt: skip
    return Figure(
        id="differences",
        title="Difference against what is allowed",
        note="A dot a figure; above the dashed line it is met.",
        drawing={"data": data, "layout": shape},
    )


def _claims(results: Sequence[ClaimResult]) -> ReportTable:
    claims = [result.claim for result in results]
    return ReportTable(
        id="claims-table",
        title="All figures",
        fields=(
            Field(name="number", heading="no", values=[claim.number for claim in claims]),
            Field(name="verdict", heading="verdict", values=[r.verdict for r in results]),
            Field(name="quantity", heading="quantity", values=[c.quantity for c in claims]),
            Field(name="published", heading="published", is_text=False,
                  values=[" / ".join(map(_figure, c.values)) for c in claims]),
            Field(name="ours", heading="ours", is_text=False,
                  values=[" / ".join(map(_figure, r.ours or ())) or "–" for r in results]),
            Field(name="unit", heading="unit", values=[claim.unit for claim in claims]),
            Field(name="difference", heading="off by", show=lambda share: f"{share:.2%}",
                  values=[result.difference for result in results]),
            Field(name="kind", heading="how", values=[claim.kind for claim in claims]),
            Field(name="source", heading="source", values=[claim.source for claim in claims]),
        ),
    )  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _statements(statements: Sequence[tuple[Statement, str]]) -> ReportTable:
    found = [one for one, _ in statements]
    return ReportTable(
        id="statements-table",
        title="",
        fields=(
            Field(name="key", heading="", values=[one.key for one in found], is_text=True),
            Field(name="verdict", heading="verdict", values=[one.verdict for one in found]),
            Field(name="statement", heading="said", values=[one.statement for one in found]),
            Field(name="right", heading="right", values=[right for _, right in statements]),
        ),
    )


def serving_claims_report(found: Sequence[Compared], sources: Mapping[str, str]) -> Report:
    """Published serving results beside runs of their scenarios."""
    tested = [one for one in found if one.verdict]
    held = sum(one.verdict == "held" for one in tested)
    runs = len({one.row.name for one in found})
    return Report(
        kind="serving-claims",
        title="Published serving results beside ours",
        kicker="published serving results beside ours",
        answer=f"Of {count_text(len(found), 'published figure')} of {runs} runs, {held} of the "
        f"{len(tested)} that have a band are in it; the settings of the others are not all known.",
        cards=(
            Card(label="figures", value=f"{len(found):,}"),
            Card(label="with a band", value=f"{len(tested):,}"),
            Card(label="of these in it", value=f"{held:,}"),
        ),
        data={"serving": serving_records(found, sources)},
        sections=(
            Section(id="served", title="Figure by figure", parts=(_served(found), _rows(found))),
        ),
        notes=tuple(setting_lines(found, sources)),
        units="A band is how far off a figure may be where all settings are published.",
    )


def _served(found: Sequence[Compared]) -> Figure:
    """Ours over published, in the order of the table."""
    data = []
    groups = (("held", "in its band", _MET), ("left", "out of its band", _DIFFERS),
              ("", "without a band", _OPEN))  # fmt: skip
    for state, name, color in groups:
        own = [
            (place, one)
            for place, one in enumerate(found, 1)
            if (one.verdict if one.verdict in ("", "held") else "left") == state and one.published
        ]
        if own:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [place for place, _ in own],
                    "y": [one.ours / one.published for _, one in own],
                    "text": [
                        f"{one.row.name}\n{one.measure.words}: {number_text(one.ours)} against "
                        f"{number_text(one.published)} {one.measure.unit}"
                        for _, one in own
                    ],
                    "marker": {"color": color, "size": 8, "opacity": 0.85},
                    "hovertemplate": "%{text}",
                }
            )
    line = {"color": _OPEN, "width": 1, "dash": "dash"}
    data.append(
        {"type": "scatter", "mode": "lines", "name": "as published", "x": [0, len(found) + 1],
         "y": [1.0, 1.0], "line": line, "hoverinfo": "skip"}
    )  # fmt: skip
    shape = layout(
        height=340,
        x=axis("figure, in the order of the table"),
        y=axis("ours over published", rangemode="tozero"),
    )
    return Figure(
        id="served-figure",
        title="Ours over published",
        drawing={"data": data, "layout": shape},
    )


def _rows(found: Sequence[Compared]) -> ReportTable:
    published: list[Cell] = [float(one.published) for one in found]
    ours: list[Cell] = [float(one.ours) for one in found]
    figures = [", ".join(filter(None, (one.measure.words, one.measure.unit))) for one in found]
    return ReportTable(
        id="served-table",
        title="All figures",
        fields=(
            Field(name="number", heading="no", values=list(range(1, len(found) + 1))),
            Field(name="run", heading="run", values=[one.row.name for one in found]),
            Field(name="figure", heading="figure", values=figures),
            Field(name="published", heading="published", values=published, show=number_text),
            Field(name="ours", heading="ours", values=ours, show=number_text),
            Field(name="off_by", heading="off by", is_text=False,
                  values=[difference_text(one) for one in found]),
            Field(name="band", heading="band", values=[one.verdict or "–" for one in found]),
        ),
    )  # fmt: skip
