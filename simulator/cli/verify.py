"""`v4sim verify`: hold the dense reference and the paged evaluator against golden files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simulator.cli.options import JsonFile, console, error_console, save_json


def verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Golden files (.npz); the shipped one when none is given."),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Run golden files through both numeric executions and print one line a check.

    Logits must agree to 1e-9, every stored activation to 1e-6 of its scale. Exit code 1 when a
    check fails.

    Example: v4sim verify tiny_7.npz
    """
    from simulator.evaluate.verify import shipped_golden_file, verify_file

    rows, failed = [], 0
    for path in files or [shipped_golden_file()]:
        console().print(f"{path}", soft_wrap=True)
        with error_console().status(f"running {path.name}"):
            for check in verify_file(path):
                failed += not check.holds
                word = "ok  " if check.holds else "FAIL"
                console().print(
                    f"  {word} {check.runner}: {check.quantity} differs by "
                    f"{check.difference:.3g}, allowed {check.tolerance:.0e}",
                    soft_wrap=True,
                )
                rows.append(
                    {
                        "file": str(path),
                        "runner": check.runner,
                        "quantity": check.quantity,
                        "difference": check.difference,
                        "tolerance": check.tolerance,
                        "holds": check.holds,
                    }
                )
    console().print(f"{len(rows) - failed} of {len(rows)} checks hold")
    save_json(json, {"checks": rows, "failed": failed})
    if failed:
        raise typer.Exit(1)
