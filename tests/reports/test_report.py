"""A report from one value: terminal, page, JSON, CSV and SVG say the same."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from reports.figure_style import axis, layout
from reports.kinds import REPORTS, report_maker
from reports.report import Card, Field, Figure, Report, ReportTable, Said, Section
from reports.report_files import write_report
from reports.report_page import report_html
from reports.report_text import print_report
from simulator.basis.errors import InputError

TIMES = (1_500_000, 20, None)
TABLE = ReportTable(
    id="times",
    title="Times",
    fields=(
        Field(name="operation", heading="operation", values=("a <b>", "core", "step")),
        Field(name="time_ps", heading="time", values=TIMES, show=lambda ps: f"{ps / 1e6:.2f} us"),
        Field(name="about", heading="what it is", values=("x" * 60, "y", "z"), rank=2),
    ),
    total=True,
)
FIGURE = Figure(
    id="drawn",
    title="Drawn",
    drawing={
        "data": [{"type": "scatter", "mode": "markers", "x": [1, 2], "y": [3, 4]}],
        "layout": layout(height=200, x=axis("x, s"), y=axis("y, s")),
    },
)
REPORT = Report(
    kind="made",
    title="made",
    answer="It takes 1.50 us. More is below.",
    data={"total_ps": 1_500_020},
    cards=(Card(label="step", value="1.50 us"),),
    said=(Said(text="Beware.", state="warning"),),
    sections=(Section(id="first", title="First", parts=(FIGURE, TABLE)),),
    notes=("a note",),
    assumptions=("it holds",),
)


def _printed(report: Report, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_report(console, report)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_a_terminal_says_what_it_leaves_out() -> None:
    text = _printed(REPORT, 60)
    assert text.startswith("It takes 1.50 us.")
    assert "Beware." in text
    assert "1.50 us" in text
    assert "No room at 60 columns for: what it is." in text
    assert "Note: a note" in text
    assert "1 assumption behind these numbers" in text


def test_a_page_has_one_sentence_at_its_head_and_links_its_sections() -> None:
    html = report_html(REPORT, "v4sim <made>")
    assert "<h1>It takes 1.50 us.</h1>" in html
    assert '<p class="basis">More is below.</p>' in html
    assert 'href="#first"' in html
    assert 'data-v="1500000"' in html
    assert "a &lt;b&gt;" in html
    assert "<tfoot>" in html
    assert "v4sim &lt;made&gt;" in html
    assert html.count("<svg viewBox") == 3


def test_files_hold_exact_values(tmp_path: Path) -> None:
    written = write_report(tmp_path / "out", REPORT)
    assert {path.name for path in written} == {
        "report.html", "report.json", "times.csv", "drawn.svg",
    }  # fmt: skip
    rows = list(csv.reader((tmp_path / "out" / "times.csv").open()))
    assert rows[0] == ["operation", "time_ps", "about"]
    assert [row[1] for row in rows[1:]] == ["1500000", "20", ""]
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == REPORT.data
    for name in ("one.csv", "one.svg", "one.json", "one.html"):
        assert write_report(tmp_path / name, REPORT) == [tmp_path / name]


@pytest.mark.parametrize("name", ["figure.png", "figure.pdf"])
def test_pixels_say_in_one_sentence_what_is_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"needs a browser.*write figure\.svg") as error:
        write_report(tmp_path / name, REPORT)
    assert error.value.message.count(". ") == 0
    with pytest.raises(InputError, match=r"not '\.docx'"):
        write_report(tmp_path / "a.docx", REPORT)


def test_every_kind_has_its_function() -> None:
    for kind in REPORTS:
        assert callable(report_maker(kind)), kind


def test_ids_are_told_apart() -> None:
    with pytest.raises(AssertionError, match="occur twice"):
        Report(
            kind="x", title="x", answer="x.", data={},
            sections=(Section(id="times", title="x", parts=(TABLE,)),),
        )  # fmt: skip
