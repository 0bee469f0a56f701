"""`v4sim sweep`: a serving scenario over a grid of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import (
    CsvFile,
    JsonFile,
    PageFile,
    command_line,
    console,
    error_console,
    save_json,
)
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from simulator.sweep.grid import Axis
    from simulator.sweep.point import Point
    from simulator.sweep.row import Value
    from simulator.sweep.runner import Plan, Source, Sweep

Row = dict[str, "Value"]


def sweep(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO.yaml", help="A file, or the name of a shipped one.")
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=A,B ...]", help="Further fields of the grid.", show_default=""
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B",
            help="A field (dots between its levels) and its values, typed as in YAML.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Page, tables, figures, sweep.parquet, parts/ of one file a point."
        ),
    ] = Path("out/sweep"),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes here [default: one a core].")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask cluster there, tcp://host:8786."),
    ] = None,
    page: PageFile = None,
    csv: CsvFile = None,
    json: JsonFile = None,
) -> int:
    """Serve a scenario at every point of a grid; parts that exist are kept, so it can go on.

    Points that cannot be are rows that say why. Example: v4sim sweep chat.yaml
    --grid parallel.tp=4,8 scheduler.max_requests=64,128 engine=ideal,vllm-0.33 --out out/sweep
    """
    from simulator.sweep.grid import parse_grid
    from simulator.sweep.merge import merged_rows, write_merged
    from simulator.sweep.parts import PartFolder
    from simulator.sweep.point import span
    from simulator.sweep.runner import plan_sweep

    if scheduler is not None and workers is not None:
        raise InputError("--workers counts processes here, a cluster has its own: give one of both")
    axes = parse_grid([*(grid or ()), *(more or ())])
    points = span(scenario, axes)
    plan = plan_sweep(points, PartFolder(out / "parts"))
    _say_plan(plan)
    found = _run(plan, _source(workers, scheduler))
    rows = merged_rows(axes, points, found.outcomes)
    about = {"scenario": Path(scenario).name, "grid": {axis.name: axis.values for axis in axes}}
    write_merged(out / "sweep.parquet", rows, about)
    save_json(json, {**about, "points": rows})
    _write(out, axes, points, rows, page, csv)
    _print(axes, rows)
    console().print(_counts(points, found), soft_wrap=True)
    console().print(
        f"wrote {out / 'sweep.parquet'}: {len(rows[0])} columns a point", soft_wrap=True
    )
    shown = page or out / "report.html"
    console().print(f"Open the report in a browser: {shown.resolve()}", soft_wrap=True)
    if not any(row["status"] == "done" for row in rows):
        raise InputError(f"none of the {len(rows):,} points could be run: {rows[0]['error']}")
    return 0


def _write(
    out: Path,
    axes: Sequence[Axis],
    points: Sequence[Point],
    rows: Sequence[Row],
    page: Path | None,
    csv: Path | None,
) -> None:
    """The page with its tables and figures, in the folder and where it was asked for."""
    from reports.kinds import report_of
    from reports.report_files import write_report_folder, write_table_csv
    from reports.report_page import write_report_page

    report = report_of("sweep", axes, points, rows)
    write_report_folder(out, report, command_line())
    if page is not None:
        write_report_page(page, report, command_line())
    if csv is not None:
        write_table_csv(csv, report.table())


def _source(workers: int | None, scheduler: str | None) -> Source:
    from simulator.sweep.cluster import cluster_outcomes
    from simulator.sweep.local import cores, local_outcomes

    if scheduler is not None:
        return partial(cluster_outcomes, address=scheduler)
    return partial(local_outcomes, workers=workers or cores())


def _say_plan(plan: Plan) -> None:
    from reports.sweep_text import points_word

    if plan.kept:
        error_console().print(
            f"kept {plan.kept:,} {points_word(plan.kept)} of {plan.parts.folder}", soft_wrap=True
        )


def _run(plan: Plan, source: Source) -> Sweep:
    """Run it with a bar on standard error."""
    from simulator.sweep.runner import run_sweep

    with progress("points", len(plan.tasks)) as tick:
        return run_sweep(plan, source, lambda _: tick())


def _print(axes: Sequence[Axis], rows: Sequence[Row]) -> None:
    from reports.sweep_text import sweep_answer, sweep_columns, sweep_notes
    from reports.text_table import left_out, text_table, wrapped

    width = console().width
    if any(row["status"] == "done" for row in rows):
        console().print(wrapped(sweep_answer(axes, rows), width), style="bold")
    columns = sweep_columns(axes, rows)
    console().print(text_table(columns, width))
    notes = [left_out(columns, width), *sweep_notes(axes, rows)]
    for note in filter(None, notes):
        console().print(wrapped(note, width, indent=2), style="dim")


def _counts(points: Sequence[Point], found: Sweep) -> str:
    from reports.sweep_text import points_word

    parts = {
        "computed": found.computed,
        "kept": found.kept,
        "no valid scenario": found.invalid,
        "equal to another": len(points) - len(found.outcomes),
    }
    said = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
    return f"{len(points):,} {points_word(len(points))}: {said}"
