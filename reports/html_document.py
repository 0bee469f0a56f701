"""An HTML file that holds everything and loads nothing: style, figures, plotly, script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

PAGE_SCRIPT = """
"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [id, figure] of Object.entries(figures)) {
  const place = document.getElementById(id);
  const narrow = place.clientWidth < 560;
  // Names have places for a wide screen only; elsewhere a dot says its name when pointed at.
  if (place.clientWidth < 1100) delete figure.layout.annotations;
  if (narrow) {  // Fingers scroll the page instead of dragging the figure.
    figure.layout.dragmode = false;
    figure.layout.font.size = 11;
    figure.layout.margin.l = 46;
    figure.layout.margin.r = 10;
    for (const trace of figure.data) {
      if (trace.mode === "lines+text") trace.text = trace.text.map((text) => text.split(" ")[0]);
    }
  }
  Plotly.newPlot(place, figure.data, figure.layout, {
    responsive: true,
    displaylogo: false,
    displayModeBar: !narrow,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    plotlyServerURL: "",
  });
}
for (const button of document.querySelectorAll(".views button")) {
  button.addEventListener("click", () => {
    const place = document.getElementById(button.dataset.figure);
    const range = [Number(button.dataset.from), Number(button.dataset.to)];
    // A trace with a `meta` belongs to the views that show such traces only.
    const visible = place.data.map((trace) => !trace.meta || trace.meta === button.dataset.shows);
    Plotly.update(place, {visible}, {"xaxis.range": range});
    for (const other of button.parentElement.children) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}
"""


# The browser itself refuses whatever a figure might try to fetch.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


def html_document(title: str, body: str, figures: Mapping[str, dict[str, Any]]) -> str:
    """The whole document; a figure is drawn into the element of its name.

    A page without such figures carries no script.
    """
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style></head><body>",
            body,
            *(_scripts(figures) if figures else ()),
            "</body></html>\n",
        ]
    )


def _scripts(figures: Mapping[str, dict[str, Any]]) -> list[str]:
    from plotly.offline import get_plotlyjs

    # Within a script element `<` could only matter as the start of a closing tag.
    data = json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return [
        f'<script type="application/json" id="figures">{data}</script>',
        f"<script>{get_plotlyjs()}</script>",
        f"<script>{PAGE_SCRIPT}</script>",
    ]
