"""All files of a serving run, in one directory: tables, JSON and the page, whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from reports.serve_page import write_serve_page
from reports.serve_tables import request_table, serve_json, step_table
from reports.served import Served
from reports.step_json import write_json
from reports.table import write_parquet
from simulator.basis.errors import InputError

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
