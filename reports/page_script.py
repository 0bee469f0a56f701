"""What the page does in the browser: draw its figures, and zoom them by buttons."""

from __future__ import annotations

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
