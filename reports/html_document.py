"""An HTML file that holds everything and loads nothing: style, figures as SVG, script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from reports.report import Figure, View
from reports.svg import draw

# Each figure is drawn for a phone, a column and a whole page; the style shows what fits best.
WIDTHS = (344, 620, 1180)
# The browser itself refuses whatever a page might try to fetch.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
_SAVED = ("svg", "png", "csv")


def html_document(
    title: str, body: str, figures: Mapping[str, Mapping[str, Any]] | Sequence[Figure]
) -> str:
    """The whole document. Drawings by name go into the empty element of that name in the body;
    figures of a report are drawn where they stand.
    """
    folder = Path(__file__).parent
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    if isinstance(figures, Mapping):
        drawings = dict(figures)
        for name, drawing in drawings.items():
            place = f'<div class="figure" id="{name}"></div>'
            body = body.replace(place, figure_html(Figure(id=name, title="", drawing=drawing)))
    else:
        drawings = {figure.id: figure.drawing for figure in figures}
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style></head><body>",
            '<button type="button" class="theme" hidden title="light or dark" '
            'aria-label="light or dark">◐</button>',
            body,
            _data(drawings) if drawings else "",
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def figure_html(figure: Figure) -> str:
    """A figure in its widths and views, with what saves it above."""
    views = figure.views or (View(name="", start=0.0, end=0.0),)
    buttons = "".join(
        f'<button type="button" data-view="{place}" '
        f'aria-pressed="{"true" if not place else "false"}">{escape(view.name)}</button>'
        for place, view in enumerate(views)
        if figure.views
    )
    saved = "".join(
        f'<button type="button" data-save="{form}">{form.upper()}</button>' for form in _SAVED
    )
    drawn = "".join(_view(figure, place, view) for place, view in enumerate(views))
    return (
        f'<div class="figure" id="{figure.id}"><div class="bar-of-figure">'
        f'<span class="views">{buttons}</span><span class="save">{saved}</span></div>'
        f"{drawn}</div>"
    )


def _view(figure: Figure, place: int, view: View) -> str:
    span = (view.start, view.end) if figure.views else None
    parts = []
    for number, width in enumerate(WIDTHS):
        key = f"{figure.id}-{place}-{number}"
        drawn = draw(figure.drawing, width, figure.title, span, view.meta, key)
        names = ", ".join(dict.fromkeys(drawn.unnamed))
        lost = f'<p class="note">No room for the names of: {names}.</p>' if names else ""
        parts.append(f'<div class="w{number}">{drawn.svg}{lost}</div>')
    hidden = " hidden" if place else ""
    return f'<div class="view" data-view="{place}"{hidden}>{"".join(parts)}</div>'


def _data(drawings: Mapping[str, Mapping[str, Any]]) -> str:
    """What the figures are drawn from, for tables of it."""
    # Within a script element `<` could only matter as the start of a closing tag.
    data = json.dumps(drawings, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="figures">{data}</script>'
