"""Tables whose cells are words already, as tables of a report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reports.memory_text import TextTable
from reports.report import Field, ReportTable
from reports.text_table import TextColumn


def of_columns(name: str, title: str, columns: Sequence[TextColumn], note: str = "") -> ReportTable:
    """A terminal's columns."""
    fields = tuple(
        Field(
            name=_name(column.heading, place),
            heading=column.heading,
            values=column.cells,
            rank=column.rank,
            is_text=column.left or not place,
        )
        for place, column in enumerate(columns)
    )
    return ReportTable(id=name, title=title, fields=fields, note=note)


def of_text(name: str, table: TextTable) -> ReportTable:
    """A table of text, the first column of which is a name."""
    fields = tuple(
        Field(
            name=_name(heading, place),
            heading=heading,
            values=[row[place] for row in table.rows],
            is_text=not place,
        )
        for place, heading in enumerate(table.headings)
    )
    return ReportTable(id=name, title=table.title, fields=fields, note=table.note)


def _name(heading: str, place: int) -> str:
    """A heading as the name of a column: `tokens\\na page` is `tokens_a_page`."""
    return re.sub(r"[^a-z0-9%$/]+", "_", heading.lower()).strip("_") or f"column_{place + 1}"
