"""The page of a layout sweep: one figure of eight panels, and the tables behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from reports.html_document import html_document
from reports.layout_figures import CAPTIONS, layout_figures
from reports.layout_text import (
    Cuts,
    cut_table,
    layout_answer,
    layout_notes,
    own_tokens,
    pool_table,
    same_pages,
)
from reports.memory_text import TextTable
from simulator.basis.atomic import write_text
from simulator.layout.sweep import LayoutCost
from simulator.layout.sweep_request import AskedSweep


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
    name = asked.question.groupings.config.name
    links = "".join(
        f'<li>{escape(label)}: <a href="{escape(file.name)}">{escape(file.name)}</a></li>'
        for label, file in files.items()
    )
    priced = (f"{sentence}." for sentence in asked.priced_as)
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*priced, *layout_notes(asked, cuts)))
    assumed = "".join(f"<li>{escape(text[:1].upper() + text[1:])}</li>" for text in assumptions)
    body = "".join(
        [
            f'<header><p class="kicker">v4sim · cache layout of {escape(name)} as '
            f"{escape(asked.engine)} stores it, on {escape(asked.question.chip.name)}</p>"
            f'<h1 class="several">{escape(layout_answer(asked, cuts))}</h1></header><main>',
            f'<ul class="note">{notes}</ul><p class="note">{escape(_marks_note(cuts))}</p>',
            '<div class="columns">',
            *(_panel(panel, caption) for panel, caption in CAPTIONS.items()),
            "</div>",
            *(_table(table) for table in tables(asked, cuts)),
            f'<section id="files"><h3>Files</h3><ul>{links}</ul></section>',
            f'<section id="assumptions"><h3>Assumptions</h3><ul>{assumed}</ul></section></main>',
            f"<footer><p>1 kB = 10³ bytes, 1 GiB = 2³⁰ bytes.</p><p>Made by "
            f"<code>{escape(command)}</code></p></footer>",
        ]
    )
    figures = layout_figures(asked, costs, cuts)
    write_text(path, html_document(f"Cache layout of {name}", body, figures))


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


def _panel(name: str, caption: str) -> str:
    return f'<div><h3>{escape(caption)}</h3><div class="figure" id="{name}"></div></div>'


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{escape(text).replace(chr(10), '<br>')}</th>" for text in table.headings)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in table.rows
    )
    return (
        f'<section><h3>{escape(table.title)}</h3><p class="note">{escape(table.note)}</p>'
        f"<div class='scroll'><table class='grid'><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )
