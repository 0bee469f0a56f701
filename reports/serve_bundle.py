"""All files of a serving run, in one directory: tables, JSON and the page, whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from reports.html_document import html_document
from reports.memory_text import TextTable
from reports.serve_figures import captions, serve_figures
from reports.serve_tables import request_table, serve_json, step_table
from reports.serve_text import alarms, law_sentence, serve_sentence, serve_tables
from reports.served import Served
from reports.step_json import write_json
from reports.table import write_parquet
from simulator.basis.atomic import write_text
from simulator.basis.errors import InputError
from simulator.engine.profile import find_profile

_UNITS = (
    "Times are on the simulated clock. TTFT: time to first token; TPOT: time per output token, of "
    "an answer; ITL: time between two tokens. 1 GB = 10⁹ bytes."
)


def write_serve_page(
    path: Path, served: Served, files: Mapping[str, Path], command: str = ""
) -> None:
    """Write the page whole or not at all."""
    scenario = served.run.scenario
    engine = find_profile(scenario.engine).name
    state = "" if served.summary.lawful else "broken"
    body = "".join(
        [
            f'<header><p class="kicker">v4sim · serving, scenario {escape(scenario.name)} · '
            f"{escape(scenario.fidelity)} model · engine {escape(engine)}</p>"
            f"<h1>{escape(serve_sentence(served))}</h1>"
            f'<p class="proof {state}">{escape(law_sentence(served))}</p>',
            *(f'<p class="proof broken">{escape(_start(text))}.</p>' for text in alarms(served)),
            "</header><main>",
            f'<div class="columns">{"".join(map(_panel, captions(served).items()))}</div>',
            *map(_table, serve_tables(served)),
            _laws(served),
            _files(files),
            _listed("assumptions", "Assumptions", served.assumptions),
            _listed("notes", "Notes", served.notes),
            f"</main><footer><p>{_UNITS}</p>",
            f"<p>Made by <code>{escape(command)}</code></p>" if command else "",
            "</footer>",
        ]
    )
    write_text(path, html_document(f"Serving: {scenario.name}", body, serve_figures(served)))


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _panel(item: tuple[str, str]) -> str:
    name, caption = item
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


def _laws(served: Served) -> str:
    rows = tuple(
        (check.sentence, "holds" if check.holds else "BROKEN") for check in served.summary.checks
    )
    note = "Both sides of every law, counted from different records of the run."
    return _table(TextTable(title="Laws", note=note, headings=("", ""), rows=rows))


def _files(files: Mapping[str, Path]) -> str:
    links = "".join(
        f'<li>{escape(label)}: <a href="{escape(file.name)}">{escape(file.name)}</a></li>'
        for label, file in files.items()
    )
    return f'<section id="files"><h3>Files</h3><ul>{links}</ul></section>' if links else ""


def _listed(name: str, title: str, sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(_start(sentence))}</li>" for sentence in sentences)
    return f'<section id="{name}"><h3>{title}</h3><ul>{items}</ul></section>' if items else ""


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
        with TemporaryDirectory(prefix=".serve-", dir=folder) as apart:
            files = {label: Path(apart) / name for label, name in NAMES.items()}
            requests, steps, summary = files.values()
            write_parquet(requests, request_table(served))
            write_parquet(steps, step_table(served))
            write_json(summary, serve_json(served))
            page = Path(apart) / PAGE_NAME
            write_serve_page(page, served, files, command)
            with _not_interrupted():
                return [file.replace(folder / file.name) for file in (*files.values(), page)]
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
