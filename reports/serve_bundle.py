"""All files of a serving run, in one directory: tables, JSON and the page, whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.figure_style import axis, layout
from reports.memory_text import TextTable
from reports.palette import INK, RESOURCE_COLORS
from reports.quantity import number_text
from reports.report import Card, Figure, Report, ReportTable, Said, Section
from reports.report_files import write_page_with_figures
from reports.report_tables import of_text
from reports.serve_tables import request_table, serve_json, step_table
from reports.serve_text import alarms, law_sentence, serve_sentence, serve_tables
from reports.served import Served
from reports.step_json import write_json
from reports.table import write_parquet
from simulator.basis.atomic import folder_beside
from simulator.basis.errors import InputError
from simulator.engine.profile import find_profile
from simulator.serve.token_gaps import token_gaps

Floats = NDArray[np.float64]
_HEIGHT = 300
_POINTS = 300
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"
_GREY = RESOURCE_COLORS["launch"]


def serve_figures(served: Served) -> dict[str, dict[str, Any]]:
    """Figures by name; there is one for each of `captions`."""
    figures = {
        "ttft": _distribution("time to first token", *_ttft(served)),
        "tpot": _distribution("time per output token", *_tpot(served)),
        "itl": _distribution("time between tokens", *_itl(served)),
        "money": _money(served),
        "batch": _batch(served),
        "busy": _busy(served),
        "prompts": _prompts(served),
        "outputs": _outputs(served),
        "flow": _flow(served),
    }
    if served.summary.goodput is not None:
        figures["goodput"] = _goodput(served)
    if served.use is not None:
        figures["use"] = _use(served)
    return {name: figures[name] for name in captions(served)}


def captions(served: Served) -> dict[str, str]:
    """What each figure shows, in the order of the page."""
    levels = served.run.scenario.service_levels
    ttft = f" (asked: {levels.ttft_s:g} s)" if levels.ttft_s else ""
    tpot = f" (asked: {levels.tpot_ms:g} ms)" if levels.tpot_ms else ""
    found = {
        "ttft": f"Time to first token: share of requests that had it by then{ttft}",
        "tpot": f"Time per output token: share of requests at most so slow{tpot}",
        "itl": "Time between tokens (ITL): share of all gaps at most so long",
        "money": "Where the money goes",
        "batch": "Requests over time, by where they are",
        "busy": "Share of time in steps, over time",
        "use": "Share of time that a resource of a chip is needed, over time",
        "prompts": "Prompt tokens computed, over time",
        "outputs": "Output tokens, over time",
        "flow": "Requests that have arrived and ended so far",
    }
    if served.summary.goodput is not None:
        found["goodput"] = "Goodput if every service level were tighter or looser"
    if served.use is None:
        del found["use"]
    return found


def _ttft(served: Served) -> tuple[Floats, NDArray[Any], float | None, str]:
    values = served.run.requests.ttft_ns() / 1e9
    return values, np.ones(len(values)), served.run.scenario.service_levels.ttft_s, "s"


def _tpot(served: Served) -> tuple[Floats, NDArray[Any], float | None, str]:
    values = served.run.requests.tpot_ns() / 1e9
    level = served.run.scenario.service_levels.tpot_ms
    return values, np.ones(len(values)), level / 1000 if level else None, "s"


def _itl(served: Served) -> tuple[Floats, NDArray[Any], float | None, str]:
    values, weights = token_gaps(served.run.steps, served.run.requests)
    return values / 1e9, weights.astype(np.float64), None, "s"


def _distribution(
    what: str, values: Floats, weights: NDArray[Any], level: float | None, unit: str
) -> dict[str, Any]:
    """Cumulative share by value, the level that is asked for as a line."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    total = reached[-1] if len(reached) and reached[-1] else 1.0
    shares = np.linspace(0, 1, _POINTS)
    places = np.searchsorted(reached / total, shares).clip(0, max(0, len(values) - 1))
    x = values[order][places] if len(values) else np.empty(0)
    data = _line("", x, shares, _BLUE, "%{y:.1%} within <b>%{x:.4s}" + unit + "</b>")
    if len(x):
        data["x"] = [data["x"][0], *data["x"]]
        data["y"] = [0.0, *data["y"]]
    least = max(float(x.min()), 1e-6) if len(x) else 1e-3
    most = max(float(x.max()), least) if len(x) else 1.0
    x_axis = axis(what, ticksuffix=unit, rangemode="tozero")
    if most / least > 30:
        x_axis = axis(what, type="log", **_decades(least, most, unit))
    shape = layout(height=_HEIGHT, x=x_axis, y=axis("share", tickformat=".0%", range=[0, 1.02]))
    if level is not None:
        shape["shapes"] = [_upright(level)]
    return {"data": [data], "layout": _plain(shape)}


def _decades(low: float, high: float, unit: str) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 of every decade, or at 1 alone where there are many."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    marks = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [mark * 10.0**power for power in powers for mark in marks]
    texts = [
        f"{tick:g} {unit}"
        if tick >= 0.9999
        else f"{tick * 1e3:.3g} m{unit}"
        if tick >= 0.9999e-3
        else f"{tick * 1e6:.3g} µ{unit}"
        for tick in ticks
    ]
    return {"tickvals": ticks, "ticktext": texts}


def _upright(value: float) -> dict[str, Any]:
    line = {"color": INK, "width": 1.5, "dash": "dash"}
    ends = {"x0": value, "x1": value, "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "line", "layer": "below", "line": line, **ends}


def _plain(shape: dict[str, Any]) -> dict[str, Any]:
    """Without legend, and without the room for one."""
    return {**shape, "showlegend": False, "margin": {**shape["margin"], "b": 48}}


def _line(name: str, x: Any, y: Any, color: str, hover: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.asarray(x, dtype=float).tolist(),
        "y": np.asarray(y, dtype=float).tolist(),
        "line": {"color": color, "width": 2},
        "hovertemplate": f"{name + ': ' if name else ''}{hover}<extra></extra>",
    }


def _over(served: Served, series: list[tuple[str, Floats, str]], y: dict[str, Any]) -> Any:
    """Lines over the time since the first arrival, at the middle of the bins."""
    bins = served.summary.over_time
    times = bins.start_s - bins.start_s[0] + bins.bin_s / 2
    shown = ".1%" if "tickformat" in y else ".4s"
    data = [
        _line(name, times, values, color, f"<b>%{{y:{shown}}}</b> at %{{x:,.1f}} s")
        for name, values, color in series
    ]
    shape = layout(height=_HEIGHT, x=axis("s since the first arrival", tickformat=",~r"), y=y)
    return {"data": data, "layout": shape if len(series) > 1 else _plain(shape)}


def _batch(served: Served) -> Any:
    bins = served.summary.over_time
    series = [
        ("decoding", bins.decoding, _BLUE),
        ("prompt under way", bins.in_prefill, _ORANGE),
        ("in the queue", bins.queued, _GREY),
    ]
    return _over(served, series, axis("requests", rangemode="tozero"))


def _busy(served: Served) -> Any:
    y = axis("busy", tickformat=".0%", range=[0, 1.02])
    return _over(served, [("", served.summary.over_time.busy_share, _BLUE)], y)


def _use(served: Served) -> Any:
    assert served.use is not None
    shown = ("matrix", "memory", "llc", "link", "launch")
    series = [(name, served.use.shares[name], RESOURCE_COLORS[name]) for name in shown]
    return _over(served, series, axis("needed", tickformat=".0%", rangemode="tozero"))


def _prompts(served: Served) -> Any:
    y = axis("tokens a second", rangemode="tozero")
    return _over(served, [("", served.summary.over_time.prompt_tokens_per_s, _ORANGE)], y)


def _outputs(served: Served) -> Any:
    y = axis("tokens a second", rangemode="tozero")
    return _over(served, [("", served.summary.over_time.output_tokens_per_s, _BLUE)], y)


def _flow(served: Served) -> Any:
    bins = served.summary.over_time
    series = [
        ("arrived", np.cumsum(bins.arrivals_per_s) * bins.bin_s, _GREY),
        ("ended", np.cumsum(bins.finished_per_s) * bins.bin_s, _GREEN),
    ]
    return _over(served, series, axis("requests", rangemode="tozero"))


def _goodput(served: Served) -> dict[str, Any]:
    """Requests a second within the levels x a factor, by the factor."""
    requests, levels = served.run.requests, served.run.scenario.service_levels
    done = requests.finished
    worst = np.zeros(int(done.sum()))
    if levels.ttft_s is not None:
        worst = np.maximum(worst, requests.ttft_ns() / 1e9 / levels.ttft_s)
    if levels.tpot_ms is not None:
        output = requests.column("output_tokens")[done]
        span = requests.column("finish_ns")[done] - requests.column("first_token_ns")[done]
        worst = np.maximum(worst, span / np.maximum(output - 1, 1) / 1e6 / levels.tpot_ms)
    factors = np.geomspace(1 / 16, 16, 161)
    kept = np.searchsorted(np.sort(worst), factors, side="right")
    rate = kept / served.summary.rates.span_s
    data = _line("", factors, rate, _GREEN, "levels x %{x:.3g}: <b>%{y:.4g} requests/s</b>")
    ticks = [2.0**power for power in range(-4, 5)]
    texts = [f"x {tick:g}" if tick >= 1 else f"x 1/{1 / tick:g}" for tick in ticks]
    x = axis("service levels as asked for, times", type="log", tickvals=ticks, ticktext=texts)
    shape = layout(height=_HEIGHT, x=x, y=axis("requests a second", rangemode="tozero"))
    shape["shapes"] = [_upright(1.0)]
    return {"data": [data], "layout": _plain(shape)}


def _money(served: Served) -> dict[str, Any]:
    """Dollars (chip-seconds without a price) for prompts, answers, idle time, and tiers."""
    bill, time = served.bill, served.bill.time
    kept = sum(use.usd for use in bill.storage)
    whole = bill.chip_seconds if bill.usd is None else bill.usd - kept
    unit = "chip-s" if bill.usd is None else "USD"
    parts = [
        ("prompts", time.prompts * whole, _ORANGE),
        ("answers", time.answers * whole, _BLUE),
        ("idle chips", time.idle * whole, _GREY),
        *((use.name, use.usd, _GREEN) for use in bill.storage if use.usd),
    ]
    data = {
        "type": "bar",
        "orientation": "h",
        "y": [name for name, _, _ in reversed(parts)],
        "x": [value for _, value, _ in reversed(parts)],
        "marker": {"color": [color for _, _, color in reversed(parts)]},
        "text": [f"{value:,.4g} {unit}" for _, value, _ in reversed(parts)],
        "textposition": "auto",
        "hovertemplate": "%{y}: <b>%{x:,.4g} " + unit + "</b><extra></extra>",
    }
    shape = layout(
        height=_HEIGHT, x=axis(unit, rangemode="tozero", exponentformat="none"), y=axis("what for")
    )
    return {"data": [data], "layout": _plain(shape)}


_UNITS = (
    "Times are on the simulated clock. TTFT: time to first token; TPOT: time per output token, of "
    "an answer; ITL: time between two tokens. 1 GB = 10⁹ bytes."
)


def write_serve_page(
    path: Path, served: Served, files: Mapping[str, Path], command: str = ""
) -> list[Path]:
    """Write the page, and its figures as SVG, which are returned."""
    links = {label: file.name for label, file in files.items()}
    return write_page_with_figures(path, serve_report(served, links), command)


def serve_report(served: Served, files: Mapping[str, str]) -> Report:
    """The report of a serving run."""
    scenario = served.run.scenario
    engine = find_profile(scenario.engine).name
    titles = captions(served)
    figures = tuple(
        Figure(id=name, title=titles[name], drawing=drawing)
        for name, drawing in serve_figures(served).items()
    )
    law = Said(text=law_sentence(served), state="good" if served.summary.lawful else "broken")
    tables = tuple(of_text(f"table-{n}", one) for n, one in enumerate(serve_tables(served), 1))
    return Report(
        kind="serve",
        title=f"Serving: {scenario.name}",
        kicker=f"serving, scenario {scenario.name} · {scenario.fidelity} model · engine {engine}",
        answer=serve_sentence(served),
        said=(
            *(Said(text=f"{_start(text)}.", state="broken") for text in alarms(served)),
            law,
        ),
        cards=_cards(served),
        data=serve_json(served),
        sections=(
            Section(id="charts", title="Figures", parts=figures, pair=True),
            Section(id="tables", title="Tables", parts=tables),
            Section(id="laws", title="Laws", parts=(_laws(served),)),
        ),
        notes=served.notes,
        assumptions=served.assumptions,
        units=_UNITS,
        files=files,
    )


def _cards(served: Served) -> tuple[Card, ...]:
    """Rates, waits and money."""
    rates, waits, bill = served.summary.rates, served.summary.latencies, served.bill
    cards = [
        Card(label="served", value=f"{rates.requests_per_s:.3g} requests/s"),
        Card(label="output", value=f"{number_text(rates.output_tokens_per_s)} tokens/s"),
        Card(label="a chip", value=f"{number_text(rates.output_tokens_per_s_chip)} tokens/s"),
    ]
    if waits.ttft_s is not None:
        cards.append(Card(label="time to first token, p99", value=f"{waits.ttft_s.p99:.3g} s"))
    if waits.tpot_ms is not None:
        cards.append(Card(label="time per output token, p99", value=f"{waits.tpot_ms.p99:.3g} ms"))
    usd = bill.usd_per_million_output_bearing_all
    if usd is not None:
        cards.append(Card(label="a million output tokens", value=f"{usd:.3g} USD"))
    return tuple(cards)


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _laws(served: Served) -> ReportTable:
    rows = tuple(
        (check.sentence, "holds" if check.holds else "BROKEN") for check in served.summary.checks
    )
    note = "Both sides of every law, counted from different records of the run."
    headings = ("law", "verdict")
    return of_text("laws-table", TextTable(title="", note=note, headings=headings, rows=rows))


NAMES = {
    "Requests (Parquet)": "requests.parquet",
    "Steps (Parquet)": "steps.parquet",
    "Summary (JSON)": "summary.json",
}
PAGE_NAME = "serve.html"


def write_serve_report(directory: Path | str, served: Served, command: str = "") -> list[Path]:
    """Write everything apart and then move it in, so that the folder never holds half of it."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with folder_beside(folder, "serve") as apart:
            files = {label: Path(apart) / name for label, name in NAMES.items()}
            requests, steps, summary = files.values()
            write_parquet(requests, request_table(served))
            write_parquet(steps, step_table(served))
            write_json(summary, serve_json(served))
            page = Path(apart) / PAGE_NAME
            figures = write_serve_page(page, served, files, command)
            with _not_interrupted():
                whole = (*files.values(), *figures, page)
                return [file.replace(folder / file.name) for file in whole]
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from error


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Ctrl-C waits until the files are in place; only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
