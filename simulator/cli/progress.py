"""Progress on standard error: a bar with n of N, rate and time left; lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from simulator.cli.options import error_console

# Lines of a log begin after, and follow each other at, so many seconds.
LINE_EVERY_S = 10.0


class Tick(Protocol):
    """Tells how far work has come: `done` of `total`, or one more where neither is given."""

    def __call__(
        self, done: int | None = None, total: int | None = None, what: str | None = None
    ) -> None:
        """Take note of it."""


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Tick]:
    """Shows work of `total` parts, unknown where None; the bar goes when it is done."""
    if error_console().is_terminal:
        with _bar(what, total) as tick:
            yield tick
    else:
        yield _lines(what, total)


def progress_text(done: int, total: int | None, seconds: float) -> str:
    """`12 of 40, 3.1/s, 9 s left`."""
    rate = done / seconds if seconds > 0 else 0.0
    parts = [f"{done:,} of {total:,}" if total else f"{done:,}"]
    if rate:
        parts.append(f"{rate:,.3g}/s")
        if total:
            parts.append(f"{_duration((total - done) / rate)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole / 3600:.1f} h"


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Tick]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task(what, total=total, told="")

        def show(done: int, of: int | None, name: str, seconds: float) -> None:
            told = progress_text(done, of, seconds)
            bar.update(task, completed=done, total=of, description=name, told=told)

        yield _counted(what, total, show)


def _lines(what: str, total: int | None) -> Tick:
    last = time.monotonic()

    def show(done: int, of: int | None, name: str, seconds: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_EVERY_S:
            last = now
            error_console().print(f"{name}: {progress_text(done, of, seconds)}", soft_wrap=True)

    return _counted(what, total, show)


def _counted(
    what: str, total: int | None, show: Callable[[int, int | None, str, float], None]
) -> Tick:
    begun, count, of, name = time.monotonic(), 0, total, what

    def tick(done: int | None = None, total: int | None = None, what: str | None = None) -> None:
        nonlocal count, of, name
        count = count + 1 if done is None else done
        of = of if total is None else total
        name = name if what is None else what
        show(count, of, name, time.monotonic() - begun)

    return tick
