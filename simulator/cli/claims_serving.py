"""`v4sim claims --serving`: published serving results beside what their scenarios give here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.basis.errors import InputError, unknown_name
from simulator.cli.options import console, error_console, save_json

if TYPE_CHECKING:
    from simulator.claims.serving import Compared
    from simulator.claims.serving_row import ServingRow


def say_serving(only: Sequence[str], out: Path | None, json: Path | None) -> bool:
    """Run the rows and print them; False where a figure leaves its band."""
    from reports.serving_claims_text import serving_columns, serving_records, setting_lines
    from reports.text_table import text_table, wrapped
    from simulator.claims.serving_row import serving_rows

    rows, sources = serving_rows()
    rows = _chosen(rows, only)
    found = _compared(rows)
    files = [] if out is None else _write(rows, out)
    save_json(json, {"serving": serving_records(found, sources)})
    width = console().width
    console().print(text_table(serving_columns(found), width))
    console().print("\nRuns, and why ours differs by more than its band (without one: by 30 %)")
    for line in setting_lines(found, sources):
        console().print(wrapped(line, width, 2), style="dim")
    tested = [one for one in found if one.verdict]
    held = sum(one.verdict == "held" for one in tested)
    console().print(
        f"\n{held} of {len(tested)} figures with a band are in it; {len(found) - len(tested)} have "
        "none, since their settings are not all known."
    )
    if files:
        first = f"v4sim serve {files[0]}"
        console().print(
            f"wrote {len(files)} scenarios; the first runs with: {first}", soft_wrap=True
        )
    return held == len(tested)


def _chosen(rows: Sequence[ServingRow], only: Sequence[str]) -> tuple[ServingRow, ...]:
    names = [row.name for row in rows]
    for name in only:
        if name not in names:
            raise InputError(unknown_name("run", name, names))
    return tuple(row for row in rows if not only or row.name in only)


def _compared(rows: Sequence[ServingRow]) -> list[Compared]:
    """All figures; which run it is, on standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from simulator.claims.serving import compare_row

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    stderr = error_console()
    found: list[Compared] = []
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=len(rows))
        for row in rows:
            bar.update(task, description=f"serving {row.name}")
            found += compare_row(row)
            bar.advance(task)
    return found


def _write(rows: Sequence[ServingRow], out: Path) -> list[Path]:
    """A file for every scenario, as `v4sim serve` takes it."""
    import yaml

    from simulator.basis.atomic import write_text

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {out}: {error.strerror}") from None
    files = []
    for row in rows:
        for scenario in (row.scenario, row.other):
            if scenario is None:
                continue
            path = out / f"{scenario.name}.yaml"
            data = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
            write_text(path, f"# {row.setting}\n{text}")
            files.append(path)
    return files
