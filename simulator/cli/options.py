"""Options that several commands share, and the console they print on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the result as JSON (units in names)."),
]


@cache
def console() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False)


@cache
def error_console() -> Console:
    """Standard error: progress and notes, so that output can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def save_json(path: Path | None, data: Any) -> None:
    """Write JSON whole or not at all, when a path was given."""
    if path is not None:
        from reports.step_json import write_json

        write_json(path, data)
