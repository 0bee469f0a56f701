"""Tables for terminals: one line a row, no cell cut; what does not fit is left out as a column."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP = 2
_STUCK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A column of plain cells, as wide as its longest line and as `least_width`.

    Columns of the highest `rank` are left out first, those of rank 0 never. `styles` are one a row.
    """

    heading: str
    cells: Sequence[str]
    left: bool = False
    rank: int = 0
    least_width: int = 0
    styles: Sequence[str] = ()

    @property
    def width(self) -> int:
        """Cells in the terminal that the longest line takes."""
        from rich.cells import cell_len

        lines = [*self.heading.split("\n"), *self.cells]
        return max(self.least_width, *(cell_len(line) for line in lines))


def fitting(columns: Sequence[TextColumn], width: int) -> list[TextColumn]:
    """The columns that fit side by side, those of the highest ranks left out."""
    shown = list(columns)
    while shown[0].rank < max(column.rank for column in shown) and _width(shown) > width:
        last = max(column.rank for column in shown)
        shown = [column for column in shown if column.rank < last]
    return shown


def text_table(columns: Sequence[TextColumn], width: int, *, total: bool = False) -> Table:
    """A table of the columns that fit; with `total`, the last row stands apart.

    Only where even the columns of rank 0 do not fit is the first one folded.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = fitting(columns, width)
    fits = _width(shown) <= width
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column in shown:
        first = column is shown[0]
        table.add_column(
            Text(column.heading),
            justify="left" if column.left else "right",
            vertical="bottom",
            no_wrap=fits or not first,
            overflow="fold",
            min_width=column.width if fits else None,
        )
    last = len(shown[0].cells) - 1
    for row in range(last + 1):
        if total and row == last:
            table.add_section()
        cells = [Text(c.cells[row], style=c.styles[row] if c.styles else "") for c in shown]
        table.add_row(*cells, style="bold" if total and row == last else None)
    return table


def left_out(columns: Sequence[TextColumn], width: int) -> str:
    """A sentence that names the columns that do not fit; empty where all do."""
    shown = fitting(columns, width)
    names = [" ".join(c.heading.split()) for c in columns if c not in shown]
    return f"No room at {width} columns for: {', '.join(names)}." if names else ""


def print_table(
    console: Console, columns: Sequence[TextColumn], *, total: bool = False, indent: int = 0
) -> None:
    """A table, and the columns that had no room."""
    console.print(text_table(columns, console.width, total=total))
    if missing := left_out(columns, console.width):
        console.print(wrapped(missing, console.width, indent), style="dim")


def wrapped(text: str, width: int, indent: int = 0) -> str:
    """Text in lines of at most a width; a number stays with its unit, later lines are indented."""
    stuck = re.sub(r"(?<=\d) (?=\S)|(?<=\d x) (?=\S)", _STUCK, text)
    lines = textwrap.wrap(
        stuck,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_STUCK, " ")


def _width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)
