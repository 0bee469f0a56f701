"""`v4sim show`: a run folder's command, inputs and output, printed again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, save_json


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that --out DIR made.")],
    json: JsonFile = None,
) -> None:
    """Print a run folder again: its command, version, inputs, and what it printed then.

    Example: v4sim show out/chat
    """
    from simulator.cli.run_record import ours, read_record

    record = read_record(run)
    save_json(json, record)
    now = ours()
    other = "" if record["version"] == now else f"; this is {now}, which may answer otherwise"
    console().print(f"command: {shlex.join(record['command'])}", style="bold", soft_wrap=True)
    console().print(f"v4sim {record['version']}{other}", style="dim", soft_wrap=True)
    for entry in record["inputs"]:
        console().print(f"input {_told(run, entry)}", style="dim", soft_wrap=True)
    console().print()
    console().print(record["printed"].rstrip("\n"), soft_wrap=True)


def _told(run: Path, entry: dict[str, Any]) -> str:
    """An input with its copy, and whether that is still what it was."""
    from simulator.cli.run_record import hash_of

    copy = entry.get("copy")
    if copy is None:
        return f"{entry['given']}: {entry['bytes']:,} B, not copied, SHA-256 {entry['sha256']}"
    path = run / copy
    if not path.is_file():
        return f"{entry['given']}: its copy {copy} is gone"
    same = "" if hash_of(path) == entry["sha256"] else ", which was changed since"
    return f"{entry['given']}: {copy}{same}"
