"""`v4sim verify`: hold the dense reference and the paged evaluator against golden files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from simulator.evaluate.verify import Check


def verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Golden files (.npz); the shipped one when none is given."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Keep windows as this engine does: in a ring of the request, or in pages that a "
            "step writes before it attends [default: a ring]."
        ),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Run golden files through both numeric executions and print one line a check.

    Logits must agree to 1e-9, every stored activation to 1e-6 of its scale. Exit code 1 when a
    check fails.

    Example: v4sim verify simulator/evaluate/data/tiny_7.npz
    """
    from simulator.evaluate.verify import shipped_golden_file, verify_file

    page = None if engine is None else _window_page(engine)
    rows: list[dict[str, Any]] = []
    for path in files or [shipped_golden_file()]:
        with error_console().status(f"running {path.name}"):
            checks = list(verify_file(path, page))
        rows += [_row(path, check) for check in checks]
    failed = sum(not row["holds"] for row in rows)
    save_json(json, {"checks": rows, "failed": failed})
    for row in rows:
        word = "ok  " if row["holds"] else "FAIL"
        console().print(
            f"{word} {row['file']}: {row['runner']}: {row['quantity']} differs by "
            f"{row['difference']:.3g}, allowed {row['tolerance']:.0e}",
            soft_wrap=True,
            markup=False,
        )
    kept = f", windows in pages of {page} tokens" if page else ""
    console().print(f"{len(rows) - failed} of {len(rows)} checks hold{kept}")
    if failed:
        raise typer.Exit(1)


def _window_page(engine: str) -> int | None:
    """Tokens of a window page of an engine's layout; None where it keeps a ring."""
    from simulator.engine.profile import find_profile, layout_of

    rule = layout_of(find_profile(engine)).pools["window"]
    return rule.page_tokens if rule.lives == "sliding" else None


def _row(path: Path, check: Check) -> dict[str, Any]:
    return {
        "file": str(path),
        "runner": check.runner,
        "quantity": check.quantity,
        "difference": check.difference,
        "tolerance": check.tolerance,
        "holds": check.holds,
    }
