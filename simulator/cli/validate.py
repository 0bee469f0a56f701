"""`v4sim validate`: hold the predictions against tables of measured times, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwmodels.chip import find_chip
from simulator.basis.errors import FileFormatError, InputError, V4SimError, unknown_name
from simulator.cli.calibrate import OwnChips, need_scipy
from simulator.cli.options import JsonFile, command_line, console, error_console, save_json
from simulator.cli.progress import progress
from simulator.cli.validate_npu import validate_npu
from simulator.cli.validate_others import print_published, validate_dram
from simulator.cli.validate_tables import (
    print_by,
    print_not_covered,
    print_not_run,
    print_report,
    print_slices,
    print_too_few,
)

if TYPE_CHECKING:
    from simulator.calibration.dispatch import RowSet
    from simulator.calibration.machine_rows import MachinePredictions
    from simulator.calibration.tables_in_folder import FolderTables
    from simulator.calibration.validation import Row


# Rows that cannot be read and are named one by one.
MOST_SKIPPED = 10
FIDELITIES = ("tile", "cycle")


class InterruptedValidationError(V4SimError):
    """Ctrl-C: what was predicted so far is printed."""

    exit_code = 130


def validate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder of CSV tables, or one table.")
    ] = None,
    cv: Annotated[
        bool, typer.Option("--cv", help="Five-fold cross-validation instead of stored constants.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Figures that others published, beside ours.")
    ] = False,
    fidelity: Annotated[
        str,
        typer.Option(help="tile: closed forms of the kernel families; cycle: the machine runs."),
    ] = "tile",
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="So many rows a file, of each family and chip in proportion [default: all].",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Draws the sample's rows [default: 0].")] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Also group rows by these columns, such as op,batch or family,cause,tokens.",
        ),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Search for slices that are off to one side.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a row that cannot be read [default: skip it].")
    ] = False,
    chips: OwnChips = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write every row with its prediction (.csv or .parquet)."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page of all tables (.html).")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Predict every row of every table and print how far off the predictions are.

    Errors are of the measured time; coverage is the share of rows that the predicted p10 to p90
    interval holds. On Blackwell, vLLM rows under 20 us sit on a timer ladder: an error under 1 us
    counts as none there. --fidelity cycle runs each row's kernels on the machine, with the stored
    constants, and prints the closed forms' median error beside; c/t is cycle's time over tile's.

    Example: v4sim validate silicon --fidelity cycle --sample 40
    """
    drawn = sample is not None or seed is not None
    if published:
        if folder is not None or cv or drawn or fidelity != "tile":
            raise InputError(
                "--published has its own rows and closed forms: give it without DIR, --cv, "
                "--fidelity, --sample and --seed"
            )
        save_json(json, print_published())
        return
    if folder is None:
        raise InputError("nothing to validate: give a folder of tables, or --published")
    _check_options(fidelity, cv, sample, seed)
    from reports.validation_rows import write_rows
    from simulator.calibration.dispatch import described_chips

    _check_files(rows, page)
    with described_chips(find_chip(path) for path in chips or ()):
        measured, tables, skipped = _read(folder, strict)
        report, found = _validated(measured, fidelity, cv, sample, seed or 0)
        report["skipped"] = skipped
        report["dram"] = [validate_dram(path) for path in tables.dram]
        report["npu"] = [validate_npu(path) for path in tables.npu]
        _more(report, found, by, slices, page)
    if rows is not None:
        write_rows(rows, found)
        _say(f"wrote {rows}")
    save_json(json, report)


def _check_files(rows: Path | None, page: Path | None) -> None:
    """Refuse outputs that could not be written, before any table is read."""
    if rows is not None:
        from reports.validation_rows import check_rows_file

        check_rows_file(rows)
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--page {page}: expected a name that ends in .html")
    if page is not None and not page.absolute().parent.is_dir():
        raise InputError(f"cannot write {page}: there is no folder {page.parent}; make it first")


def _read(folder: Path, strict: bool) -> tuple[RowSet, FolderTables, list[str]]:
    """Rows of the measured tables, paths of the others, and what was skipped, which is said."""
    from simulator.calibration.dispatch import dispatched
    from simulator.calibration.tables_in_folder import read_folder
    from simulator.kernels.user_constants import check_given_serves

    faults: list[FileFormatError] | None = None if strict else []
    tables = read_folder(folder, faults)
    measured = dispatched(tables.measured, faults)
    if len(measured):
        check_given_serves({chip.name: chip for chip in measured.chips}.values())
    skipped = [fault.message for fault in faults or ()]
    for message in skipped[:MOST_SKIPPED]:
        error_console().print(f"skipped: {message}", soft_wrap=True, markup=False)
    if len(skipped) > MOST_SKIPPED:
        more = len(skipped) - MOST_SKIPPED
        error_console().print(f"skipped: {more:,} more rows; --json lists them")
    return measured, tables, skipped


def _more(
    report: dict[str, Any], rows: list[Row], by: str | None, slices: bool, page: Path | None
) -> None:
    """Groups and slices as asked for, and the page of all."""
    from simulator.calibration.slices import biased_slices

    if by is not None and rows:
        report["by"] = print_by([name.strip() for name in by.split(",") if name.strip()], rows)
    found = biased_slices(rows) if slices else []
    if slices:
        report["slices"] = print_slices(found)
    if page is not None:
        from reports.validation_page import write_validation_page

        write_validation_page(page, report, rows, found, command_line())
        _say(f"wrote {page}")


def _check_options(fidelity: str, cv: bool, sample: int | None, seed: int | None) -> None:
    """Refuse what does not go together, before any table is read."""
    if fidelity == "roofline":
        raise InputError(
            "--fidelity roofline is a bound and predicts no time, expected tile or cycle; leave it "
            "out for tile"
        )
    if fidelity not in FIDELITIES:
        raise InputError(unknown_name("fidelity", fidelity, FIDELITIES))
    if cv and fidelity == "cycle":
        raise InputError(
            "--cv fits the constants of closed forms anew in every fold, and --fidelity cycle runs "
            "with those that are stored: give --cv alone, or cycle without it"
        )
    if sample is not None and sample < 1:
        raise InputError(
            f"--sample {sample} takes no row, expected at least 1; leave it out for all rows"
        )
    if seed is not None and seed < 0:
        raise InputError(f"--seed is {seed}, expected 0 or more; the default is 0")
    if seed is not None and sample is None:
        raise InputError(
            f"--seed {seed} draws a sample, but all rows are taken; give --sample N, or leave it "
            "out"
        )


def _validated(
    measured: RowSet, fidelity: str, cv: bool, sample: int | None, seed: int
) -> tuple[dict[str, Any], list[Row]]:
    """Predicts and prints rows; returns all as data, and the rows."""
    from simulator.calibration.sample import sampled
    from simulator.calibration.validation import validate_tables

    chosen = measured if sample is None else sampled(measured, sample, seed)
    if sample is not None:
        _say(
            f"A sample of {len(chosen):,} of {len(measured):,} rows: at most {sample:,} a file, of "
            f"each kernel family and chip in proportion, drawn with seed {seed}"
        )
    if cv:
        need_scipy()
    report: dict[str, Any] = {
        "cross_validated": cv,
        "fidelity": fidelity,
        "sample_rows_a_file": sample,
        "seed": seed if sample is not None else None,
        "not_run": [],
    }
    if fidelity == "cycle":
        more, rows = _by_machine(chosen, seed)
        report |= more
    else:
        with error_console().status("") as status:
            rows = validate_tables(chosen, cross=cv, progress=status.update)
        report |= print_report(rows)
    report["not_covered"] = print_not_covered(measured)
    report["too_few"] = print_too_few(chosen) if cv else []
    return report, rows


def _by_machine(measured: RowSet, seed: int) -> tuple[dict[str, Any], list[Row]]:
    """Runs rows on the machine and prints how far off they are, on Ctrl-C those so far."""
    from simulator.calibration.machine_rows import MachinePredictions

    with error_console().status("predicting by closed forms, to compare with"):
        predictions = MachinePredictions(measured, seed)
    whole = _run_all(predictions)
    rows = predictions.predicted()
    report = print_report(rows)
    report["not_run"] = print_not_run(predictions)
    if not whole:
        what = "the tables above are of those" if predictions.done else "nothing was predicted"
        raise InterruptedValidationError(
            f"interrupted after {predictions.done:,} of {len(predictions):,} rows: {what}, no JSON "
            "is written, and the same command passes quickly over what was run"
        )
    return report, rows


def _run_all(predictions: MachinePredictions) -> bool:
    """Runs rows with a bar on standard error; False where Ctrl-C ended it early."""
    with progress("rows", len(predictions)) as tick:
        try:
            for _ in predictions.run():
                tick()
        except KeyboardInterrupt:
            return False
    return True


def _say(text: str) -> None:
    console().print(text, soft_wrap=True, markup=False)
