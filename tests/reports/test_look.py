"""Every page as a reader has it: wide and on a phone, light and dark, in a headless browser.

`make test` looks at a seeded few of the pages, `make test-all` at all of them. With
V4SIM_PICTURES=DIR the pictures are kept there to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.page import write_page
from simulator.cli.main import main
from tests.reports.browser import BINARY, REASON, Browser, browser
from tests.reports.factory import make_proof, make_step
from tests.sampling import WHOLE, tenth

WIDTHS = (1440, 390)
_NODE = ("--model", "v4-flash", "--chip", "h200", "--count", "8")
_STEP = (*_NODE, "--batch", "64", "--context", "131072")
Made = Callable[[Path], Path]


def _run(*arguments: str, page: str, codes: tuple[int, ...] = (0,)) -> Made:
    """A page that a command writes; OUT stands for its folder."""

    def made(folder: Path) -> Path:
        given = [argument.replace("OUT", str(folder)) for argument in arguments]
        assert main(given) in codes
        return folder / page

    return made


def _steps(folder: Path) -> Path:
    """Two steps without any costing."""
    path = folder / "steps.html"
    prefill = make_step(phase="prefill", batch=4, context=0, new_tokens=8192)
    write_page(path, [("Decode", make_step()), ("Prefill", prefill)], proof=make_proof())
    return path


def _prefix(folder: Path) -> Path:
    trace = folder / "agents.jsonl"
    assert main(["trace", "synth", "--out", str(trace), "--sessions", "12", "--seed", "3"]) == 0
    arguments = ["--trace", str(trace), "--policies", "full,periodic:512,zero"]
    assert main(["prefix", "compare", *arguments, "--out", str(folder / "prefix")]) == 0
    return folder / "prefix" / "prefix.html"


def _validated(folder: Path) -> Path:
    silicon = Path(__file__).parents[1] / "validation" / "silicon"
    page = folder / "validation.html"
    table = min(silicon.glob("*.csv"), key=lambda path: path.stat().st_size)
    assert main(["validate", str(table), "--slices", "--page", str(page)]) == 0
    return page


_QUESTION = """
name: small
scenario:
  name: small
  model: v4-flash
  chip: h200
  fidelity: roofline
  traffic:
    made: {input_tokens: 6000, output_tokens: 60, requests: 60, rate_per_s: 20}
  service_levels: {ttft_s: 1, tpot_ms: 30, percentile: 90}
chips:
  - {chip: h200, most_chips: 12}
  - {chip: b200, most_chips: 12}
engines: [sglang-0.5, ideal]
layouts: [[2, 1], [4, 1], [1, 4]]
max_requests: [16]
"""


def _planned(folder: Path) -> Path:
    (folder / "q.yaml").write_text(_QUESTION)
    assert main(["plan", str(folder / "q.yaml"), "--out", str(folder / "plan")]) == 0
    return folder / "plan" / "report.html"


def _fleet(folder: Path) -> Path:
    # A target that a load can miss: with a loose one the traffic is over before anything waits.
    (folder / "q.yaml").write_text(_QUESTION.replace("ttft_s: 1,", "ttft_s: 0.15,"))
    page = folder / "f.html"
    fleets = ["--fleet", "8xh200,4xb200", "--page", str(page)]
    assert main(["plan", str(folder / "q.yaml"), *fleets]) == 0
    return page


def _runs(folder: Path) -> Path:
    """Two runs of serve side by side."""
    few = ("--set", "traffic.made.requests=60")
    for chip in ("h200", "b200"):
        given = ["serve", "chat", *few, "--set", f"chip={chip}", "--out", str(folder / chip)]
        assert main(given) == 0
    page = folder / "c.html"
    assert main(["compare", str(folder / "h200"), str(folder / "b200"), "--page", str(page)]) == 0
    return page


PAGES: dict[str, Made] = {
    "compare-runs": _runs,
    "steps": _steps,
    "step": _run("step", *_STEP, "--out", "OUT", page="report.html"),
    "compare": _run(
        "compare", *_STEP, "--engine", "sglang-0.5,vllm-0.33", "--index-dtype", "fp8,fp4",
        "--page", "OUT/c.html", page="c.html",
    ),
    "compare-chips": _run(
        "compare", "--model", "v4-flash", "--count", "8", "--chip", "h200,b200,mi300x",
        "--page", "OUT/c.html", page="c.html",
    ),
    "explain": _run("explain", *_STEP, "--exact-context", "--page", "OUT/e.html", page="e.html"),
    "capacity": _run(
        "capacity", "--model", "v4-flash", "--chip", "b200", "--count", "8", "--context",
        "1048576", "--requests", "40", "--page", "OUT/c.html", page="c.html", codes=(3,),
    ),
    "claims": _run("claims", "--page", "OUT/c.html", page="c.html"),
    "serve": _run(
        "serve", "chat", "--set", "traffic.made.requests=200", "--out", "OUT", page="serve.html",
    ),
    "plan": _planned,
    "fleet": _fleet,
    "sweep": _run(
        "sweep", "chat", "--grid", "traffic.made.requests=60", "chip=h200,b200",
        "parallel.tp=4,8", "scheduler.max_requests=16,64", "--workers", "1", "--out", "OUT/s",
        page="s/report.html",
    ),
    "layout": _run("layout", "--pages", "128,256,512", "--out", "OUT", page="layout.html"),
    "indexer": _run("indexer", "--out", "OUT", page="indexer.html"),
    "offload": _run("offload", "--dp", "2", "--out", "OUT", page="offload.html"),
    "bandwidth": _run("bandwidth", "--chip", "h200", "--out", "OUT", page="bandwidth.html"),
    "address": _run("address", "--request", "300:4", "--request", "0:130", "--out", "OUT",
                    page="address.html"),
    "prefix": _prefix,
    "validation": _validated,
}  # fmt: skip

# What numbers along an axis may be of: a unit, in the title or at the numbers, or things that are
# counted.
UNIT = re.compile(
    r"(?<![A-Za-z])(?:[kMGTPmµn]?(?:s|B|W|J|Hz|FLOP|FLOP/s|B/s)|[KMGT]iB|h|USD)(?![A-Za-z])"
    r"|[%$]|/s\b|\b(?:tokens?|requests?|users?|chips?|steps?|launches|entries|rows|pages|blocks"
    r"|sessions|bits|queries|keys|times|share|ratio|rank|number|minutes|FLOP per byte"
    r"|\w+ over \w+)\b"
)


def without_unit(axes: list[list[str]]) -> list[str]:
    """Axes of numbers of which neither title nor numbers say what they count."""
    return [f"{where} ({title})" for where, title, *ticks in axes if not UNIT.search(title)
            and not any(UNIT.search(re.sub(r"[-+\d.,]", "", tick)) for tick in ticks)]  # fmt: skip


def test_axes_without_a_unit_are_found() -> None:
    assert without_unit([["a: x", "time of the step", "0", "2ms"]]) == []
    assert without_unit([["a: x", "tokens/s a user", "0", "20"]]) == []
    assert without_unit([["a: x", "memory, GiB", "0", "20"]]) == []
    assert without_unit([["a: x", "busy", "0 %", "50 %"]]) == []
    assert without_unit([["a: y", "how much", "0", "20k"]]) == ["a: y (how much)"]
    assert without_unit([["a: y", "", "0", "1M"]]) == ["a: y ()"]


# What lies on what, in pixels that the eye sees; slanted texts have boxes that are not theirs.
LOOK = """(() => {
  const found = {overlaps: [], bare: [], empty: [], outside: [], axes: [], wide: 0, figures: 0};
  const seen = (one) => one.getClientRects().length > 0;
  found.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5;
  for (const svg of document.querySelectorAll(".figure svg")) {
    if (!seen(svg)) continue;
    found.figures += 1;
    const name = svg.closest(".figure").id;
    const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim());
    const flat = texts.filter((t) => !t.hasAttribute("transform"))
      .map((t) => [t.textContent, t.getBoundingClientRect()]);
    flat.forEach(([a, box], place) => {
      for (const [b, other] of flat.slice(place + 1)) {
        if (over(box, other)) found.overlaps.push(`${name}: ${a} | ${b}`);
      }
    });
    for (const axis of ["x", "y"]) {
      if (!svg.querySelector(`.axis-${axis}`)) found.bare.push(`${name}: ${axis}`);
      const ticks = [...svg.querySelectorAll(`.tick-${axis}`)].map((t) => t.textContent);
      const title = svg.querySelector(`.axis-${axis}`)?.textContent ?? "";
      if (ticks.length) found.axes.push([`${name}: ${axis}`, title, ...ticks]);
    }
    const marks = [...svg.querySelectorAll(".marks > *")]
      .filter((m) => { const b = m.getBoundingClientRect(); return b.width + b.height > 0; });
    if (!marks.length) found.empty.push(name);
    const frame = document.documentElement.clientWidth;
    for (const [text, box] of flat) {
      if (box.left < -1 || box.right > frame + 1) found.outside.push(`${name}: ${text}`);
    }
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    if BINARY is None:
        pytest.skip(REASON)
    with browser() as found:
        yield found


def looked_at(tab: Browser, page: Path, name: str) -> int:
    """Holds a page to what every page is; returns how many figures it has."""
    pictures = os.environ.get("V4SIM_PICTURES")
    figures = 0
    for width in WIDTHS:
        for dark in (False, True):
            tab.open(page, width, dark=dark)
            where = f"{name} at {width} px, {'dark' if dark else 'light'}"
            seen: dict[str, Any] = tab.evaluate(LOOK)
            if pictures:
                shade = "dark" if dark else "light"
                tab.picture(Path(pictures) / f"{name}-{width}-{shade}.png")
            assert tab.said == [], where
            assert tab.asked == [], where
            assert seen["wide"] <= 0, f"{where}: scrolls sideways by {seen['wide']} px"
            for fault in ("overlaps", "bare", "empty", "outside"):
                assert seen[fault] == [], f"{where}: {fault}"
            assert without_unit(seen["axes"]) == [], f"{where}: no unit"
            figures = seen["figures"]
            paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") != dark, where
    assert page.stat().st_size < 2_000_000, name
    return figures


# Pages that take long to make are looked at where everything is.
LONG = (
    *("steps", "indexer", "fleet", "plan", "prefix", "validation", "sweep", "claims", "explain"),
    *("compare", "compare-runs"),
)
SHORT = [name for name in PAGES if name not in LONG]


@pytest.mark.parametrize("name", PAGES if WHOLE else ["steps", *tenth(SHORT, 5)])
def test_pages_look_as_they_should(tab: Browser, tmp_path: Path, name: str) -> None:
    page = PAGES[name](tmp_path)
    figures = looked_at(tab, page, name)
    assert figures >= (name not in ("address",)), name


def test_a_page_can_be_worked_with(tab: Browser, tmp_path: Path) -> None:
    """The button turns it dark, views change, a table sorts, filters and scrolls by itself."""
    page = _steps(tmp_path)
    tab.open(page, 390, dark=False)
    tab.evaluate("document.querySelector('.theme').click()")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    views = "[...document.querySelectorAll('#step1-bandwidth .view')].map((v) => v.hidden)"
    assert tab.evaluate(views).count(False) == 1
    tab.evaluate("document.querySelectorAll('#step1-bandwidth .views button')[2].click()")
    assert tab.evaluate(views).index(False) == 2
    assert tab.evaluate(views.replace("step1", "step2")).index(False) == 0
    # What the buttons save is caught where a browser would write it.
    tab.evaluate(
        "window.kept = []; URL.createObjectURL = (b) => { kept.push(b); return 'blob:x'; }"
    )
    for form in ("svg", "csv", "png"):
        tab.evaluate(f"document.querySelector('#step1-bandwidth [data-save={form}]').click()")
    count = "new Promise((r) => setTimeout(() => r(kept.length), 400))"
    assert tab.evaluate(count) == 3
    kept = "Promise.all(kept.map(async (b) => [b.type, b.size, await b.slice(0, 60).text()]))"
    svg, csv, png = tab.evaluate(kept)
    assert svg[0] == "image/svg+xml"
    assert svg[2].startswith("<svg")
    assert csv[2].startswith("series,x,y\n")
    assert png[0] == "image/png"
    assert png[1] > 5_000
    hint = "getComputedStyle(document.querySelector('.scroll').previousElementSibling).display"
    assert tab.evaluate(hint) == "block"


def test_tables_sort_by_exact_values_and_filter(tab: Browser, tmp_path: Path) -> None:
    from reports.report import Field, Report, ReportTable, Section
    from reports.report_page import write_report_page

    times = [5, 40, 300, *range(1000, 1020)]
    fields = (
        Field(name="name", heading="name", values=[f"row {time}" for time in times]),
        Field(name="time_ps", heading="time", values=times, show=lambda ps: f"{ps / 7:.1f} x"),
    )
    table = ReportTable(id="t", title="T", fields=fields)
    report = Report(
        kind="made", title="made", answer="A table.", data={},
        sections=(Section(id="s", title="S", parts=(table,)),),
    )  # fmt: skip
    write_report_page(tmp_path / "t.html", report)
    tab.open(tmp_path / "t.html", 1440, dark=False)
    first = "document.querySelector('#t tbody tr:not([hidden]) td').textContent"
    heading = "document.querySelectorAll('#t thead th')[1].click()"
    tab.evaluate(heading)
    assert tab.evaluate(first) == "row 1019"
    tab.evaluate(heading)
    assert tab.evaluate(first) == "row 5"
    tab.evaluate(
        "(() => { const f = document.querySelector('#t .find'); f.value = 'row 30';"
        " f.dispatchEvent(new Event('input')); })()"
    )
    assert tab.evaluate("document.querySelectorAll('#t tbody tr:not([hidden])').length") == 1
