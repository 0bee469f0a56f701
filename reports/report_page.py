"""A report as a page: one HTML file that holds everything, loads nothing and works without script.

Script adds what reading alone does not need: sorting, filtering, pointing at marks, saving figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from reports.html_document import figure_html, html_document
from reports.report import Card, Field, Figure, Markup, Part, Report, ReportTable, Said, Section
from simulator.basis.atomic import write_text

# Fewer rows are read at a glance, and need no field to look for one.
_FILTERED_ROWS = 12
# More rows than this scroll in a box of their own.
_LONG_ROWS = 40
_SENTENCE_END = re.compile(r"(?<=[^\d.]\.) (?=[A-Z])")
# Cells of more letters than this break into lines.
_LONG_TEXT = 44
_STATES = {"good": "", "warning": " absent", "broken": " broken"}


def write_report_page(path: Path | str, report: Report, command: str = "") -> None:
    """Write the page whole or not at all."""
    write_text(path, report_html(report, command))


def report_html(report: Report, command: str = "") -> str:
    """The page as text."""
    sections = report.sections
    last = {
        "files": _files(report.files),
        "notes": listed("notes", "Notes", report.notes),
        "assumptions": listed("assumptions", "Assumptions", report.assumptions),
    }
    links = {section.id: section.title for section in sections}
    links |= {name: name.capitalize() for name, html in last.items() if html}
    body = "".join(
        [
            header_html(report, links),
            "<main>",
            cards_html(report.cards),
            *map(section_html, sections),
            *last.values(),
            "</main>",
            footer_html(report.units, command),
        ]
    )
    return html_document(report.title, body, report.figures)


def header_html(report: Report, links: Mapping[str, str]) -> str:
    """What was asked and answered, what it rests on, and links to the sections."""
    kicker = " · ".join(filter(None, ("v4sim", report.kicker or report.title)))
    first, *more = _SENTENCE_END.split(report.answer, maxsplit=1)
    below = " ".join((*more, *report.basis))
    basis = f'<p class="basis">{escape(below)}</p>' if below else ""
    return (
        f'<header><p class="kicker">{escape(kicker)}</p><h1>{escape(first)}</h1>{basis}'
        f"{''.join(map(_said, report.said))}{contents_html(links)}</header>"
    )


def contents_html(links: Mapping[str, str]) -> str:
    """Links to sections by id, where there are several."""
    items = "".join(f'<a href="#{place}">{escape(title)}</a>' for place, title in links.items())
    return f'<nav class="contents">{items}</nav>' if len(links) > 1 else ""


def cards_html(cards: Sequence[Card]) -> str:
    """Numbers to see first."""
    if not cards:
        return ""
    items = "".join(_card(card) for card in cards)
    return f'<div class="tiles">{items}</div>'


def _card(card: Card) -> str:
    number, _, unit = card.value.partition(" ")
    title = f' title="{escape(card.about)}"' if card.about else ""
    return (
        f'<div class="tile"{title}><span>{escape(card.label)}</span><b>{escape(number)}</b> '
        f"{escape(unit)}</div>"
    )


def section_html(section: Section) -> str:
    """Texts and parts under the section's title."""
    texts = "".join(f'<p class="note">{escape(text)}</p>' for text in section.texts)
    parts = "".join(_part(part, section.title) for part in section.parts)
    if section.pair:
        parts = f'<div class="columns">{parts}</div>'
    return (
        f'<section class="part" id="{section.id}"><h2>{escape(section.title)}</h2>{texts}{parts}'
        "</section>"
    )


def _part(part: Part, above: str) -> str:
    """One part; a title that stands above it already is not said again."""
    heading = f"<h3>{escape(part.title.rstrip('.'))}</h3>" if part.title not in ("", above) else ""
    if isinstance(part, Figure):
        note = f'<p class="note">{escape(part.note)}</p>' if part.note else ""
        return f"<div>{heading}{note}{figure_html(part)}</div>"
    if isinstance(part, Markup):
        return f"<div>{heading}{part.html}</div>"
    return f"<div>{heading}{table_html(part)}</div>"


def table_html(table: ReportTable) -> str:
    """A table that scrolls by itself; exact values are what it is sorted by."""
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    find = (
        f'<input class="find" type="search" placeholder="filter {table.count:,} rows" '
        f'aria-label="filter rows of {escape(table.title)}">'
        if table.count > _FILTERED_ROWS
        else ""
    )
    head = "".join(_heading(own) for own in table.fields)
    cells = [own.cells for own in table.fields]
    rows = [
        "<tr>"
        + "".join(_cell(own, text[row], row) for own, text in zip(table.fields, cells, strict=True))
        + "</tr>"
        for row in range(table.count)
    ]
    total = rows.pop() if table.total else ""
    long = " long" if table.count > _LONG_ROWS else ""
    foot = f"<tfoot>{total}</tfoot>" if total else ""
    return (
        f'{note}<div class="table" id="{table.id}">{find}<p class="hint">swipe sideways for more →'
        f'</p><div class="scroll{long}" tabindex="0"><table class="grid sorted">'
        f"<thead><tr>{head}</tr>"
        f"</thead><tbody>{''.join(rows)}</tbody>{foot}</table></div></div>"
    )


def _heading(own: Field) -> str:
    side = ' class="bound"' if own.left else ""
    title = f' title="{escape(own.about)}"' if own.about else ""
    return f"<th{side}{title}>{escape(own.heading).replace(chr(10), '<br>')}</th>"


def _cell(own: Field, text: str, row: int) -> str:
    value = own.values[row]
    if len(text) > _LONG_TEXT:
        return f'<td class="words">{escape(text)}</td>'
    about = own.abouts[row] if row < len(own.abouts) else ""
    title = f' title="{escape(about)}"' if about else ""
    exact = "" if isinstance(value, str) or value is None else f' data-v="{value!r}"'
    side = ' class="bound"' if own.left else ""
    return f"<td{side}{exact}{title}>{escape(text)}</td>"


def _said(said: Said) -> str:
    return f'<p class="proof{_STATES[said.state]}">{escape(said.text)}</p>'


def _files(files: Mapping[str, str]) -> str:
    """Links relative to the page, by label."""
    if not files:
        return ""
    items = "".join(
        f'<li>{escape(label)}: <a href="{quote(link)}">{escape(link)}</a></li>'
        for label, link in files.items()
    )
    return f'<section class="part" id="files"><h2>Files</h2><ul>{items}</ul></section>'


def listed(name: str, title: str, lines: Sequence[str]) -> str:
    """Sentences as a list under a title; nothing where there are none."""
    items = "".join(f"<li>{escape(line[:1].upper() + line[1:])}</li>" for line in lines)
    if not items:
        return ""
    return f'<section class="part" id="{name}"><h2>{escape(title)}</h2><ul>{items}</ul></section>'


def footer_html(units: str, command: str) -> str:
    """What units mean, and the command that made the page."""
    said = f"<p>{escape(units)}</p>" if units else ""
    made = f"<p>Made by <code>{escape(command)}</code></p>" if command else ""
    return f"<footer>{said}{made}</footer>"
