"""A report in the terminal: the answer, what it rests on, its tables, notes and assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.quantity import count_text
from reports.report import Field, Markup, Report, ReportTable
from reports.text_table import TextColumn, left_out, text_table, wrapped

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"good": "green", "warning": "yellow", "broken": "bold red"}


def print_report(console: Console, report: Report, *, assumptions: bool = False) -> None:
    """Print it; `assumptions` in full, or how many there are."""
    _say(console, report.answer, "bold")
    for sentence in report.basis:
        _say(console, sentence)
    for said in report.said:
        _say(console, said.text, _STYLES[said.state])
    for section in report.sections:
        for text in section.texts:
            console.print()
            _say(console, text)
        for part in section.parts:
            if isinstance(part, ReportTable):
                console.print()
                print_table(console, part)
            elif isinstance(part, Markup) and part.text:
                console.print()
                _say(console, part.text)
    if report.notes:
        console.print()
    for note in report.notes:
        _say(console, f"Note: {note}", "dim")
    if report.assumptions and assumptions:
        console.print()
        for line in report.assumptions:
            _say(console, f"Assumes: {line}", "dim")
    elif report.assumptions:
        count = count_text(len(report.assumptions), "assumption")
        _say(console, f"{count} behind these numbers: in the page and JSON.", "dim")


def print_table(console: Console, table: ReportTable) -> None:
    """One table with its title; rows and columns that are not shown are named."""
    if table.shown == 0:
        _say(console, f"{table.title}: {table.count:,} rows in the page and CSV.", "dim")
        return
    columns = text_columns(table)
    if table.title:
        _say(console, table.title)
    if table.note:
        _say(console, table.note, "dim")
    console.print(text_table(columns, console.width, total=table.total))
    missing = left_out(columns, console.width)
    hidden = table.count - len(columns[0].cells)
    if hidden:
        missing = f"{hidden:,} more rows in the page, JSON and CSV. {missing}".strip()
    if missing:
        _say(console, missing, "dim")


def text_columns(table: ReportTable) -> list[TextColumn]:
    """The rows that a terminal shows, column by column."""
    rows = list(range(table.count))
    if table.shown is not None and table.count > table.shown + 1 + table.total:
        rows = rows[: table.shown] + rows[-1:] * table.total
    return [_column(own, rows) for own in table.fields]


def _column(own: Field, rows: list[int]) -> TextColumn:
    cells = own.cells
    return TextColumn(
        heading=own.heading, cells=[cells[row] for row in rows], left=own.left, rank=own.rank
    )


def _say(console: Console, text: str, style: str | None = None) -> None:
    lines = wrapped(text, console.width)
    console.print(lines, style=style, highlight=False, markup=False, soft_wrap=True)
