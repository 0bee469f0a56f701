"""A section of a page from sentences and tables of plain cells, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from reports.text_table import TextColumn


def plain_section(
    place: str,
    title: str,
    sentences: Sequence[str],
    tables: Sequence[tuple[str, Sequence[TextColumn]]],
) -> str:
    """The section `place`: its title, sentences, and tables with their titles."""
    words = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    grids = "".join(_grid(name, columns) for name, columns in tables)
    return f'<section id="{place}"><h3>{escape(title)}</h3>{words}{grids}</section>'


def _grid(title: str, columns: Sequence[TextColumn]) -> str:
    head = "".join(f"<th>{_text(column.heading)}</th>" for column in columns)
    rows = "".join(
        f"<tr><th>{_text(cells[0])}</th>{''.join(f'<td>{_text(c)}</td>' for c in cells[1:])}</tr>"
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    return (
        f'<p class="note">{escape(title)}</p><div class="scroll" tabindex="0"><table class="grid">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _text(cell: str) -> str:
    return escape(" ".join(cell.split()))
