"""`v4sim calibrate`: fit the constants of every kernel family to tables of measured times."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from simulator.calibration.dispatch import RowSet
    from simulator.kernels.constants_file import FamilyFile
    from simulator.kernels.family import Family


def calibrate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder of CSV tables, or one table.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the constants; beside the code when not given."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Print all constants as they are, and fit nothing.")
    ] = False,
    json: JsonFile = None,
) -> None:
    """Fit the constants of every kernel family that the tables have rows of, and write them.

    Least squares on log time with a robust loss; errors are of rows left out of the fit, in five
    folds. All files are written at the end: an interrupted run leaves the old constants.

    Example: v4sim calibrate silicon --out out/constants
    """
    if list_:
        if folder is not None or out is not None:
            raise InputError("--list fits nothing: give either --list or tables to fit to")
        save_json(json, _list_constants())
        return
    if folder is None:
        raise InputError("nothing to fit to: give a folder of tables, or --list for the constants")
    need_scipy()
    from simulator.kernels.constants_file import FOLDER, write_constants

    contents = _fit_all(folder)
    target = out or FOLDER
    if out is not None:
        _make_folder(out)
    for content in contents:
        write_constants(content, target)
    console().print(f"{len(contents)} families written to {target}", soft_wrap=True)
    save_json(json, {"families": [content.model_dump() for content in contents]})


def need_scipy() -> None:
    """An InputError that names the extra where scipy is not installed."""
    if find_spec("scipy") is None:
        raise InputError(
            "fitting needs scipy, which comes with the extra 'calibrate': "
            "pip install 'v4sim[calibrate]'"
        )


def _fit_all(folder: Path) -> list[FamilyFile]:
    """Prints each family as soon as it is fitted; later families build on earlier constants."""
    from simulator.calibration.calibrate import FEWEST_ROWS, calibrate_group
    from simulator.kernels.constants_file import fresh_constants
    from simulator.kernels.registry import find_family

    contents: list[FamilyFile] = []
    found = _rows_by_group(folder)
    for number, (families, rows) in enumerate(found, start=1):
        with (
            error_console().status(f"fitting {', '.join(families)}, {number} of {len(found)}"),
            fresh_constants(contents),
        ):
            files, _ = calibrate_group(families, rows)
        for content in files:
            if not content.architectures:
                _note(
                    f"{content.family}: fewer than {FEWEST_ROWS} rows an architecture; not fitted"
                )
                continue
            contents.append(content)
            for line in _lines(find_family(content.family), content):
                _print(line)
    if not contents:
        raise InputError(f"{folder}: no kernel family covers enough of its rows to be fitted")
    return contents


def _rows_by_group(folder: Path) -> list[tuple[tuple[str, ...], RowSet]]:
    """Families with rows in the folder's tables; every table is checked before any fit."""
    from simulator.calibration.calibrate import groups_with_rows
    from simulator.calibration.dispatch import dispatched
    from simulator.calibration.tables_in_folder import read_folder
    from simulator.kernels.registry import FAMILIES

    tables = read_folder(folder)
    for path in tables.dram:
        _note(f"{path.name}: a table of DRAM runs, nothing is fitted to it")
    found = list(groups_with_rows(dispatched(tables.measured)))
    fitted = {row.family for _, rows in found for row in rows.rows}
    without = [name for name in FAMILIES if name not in fitted]
    if without:
        _note(f"no rows of {', '.join(without)}: their constants stay as they are")
    return found


def _note(text: str) -> None:
    error_console().print(text, soft_wrap=True, markup=False)


def _lines(family: Family, content: FamilyFile) -> list[str]:
    lines = []
    for architecture, fit in sorted(content.architectures.items()):
        lines.append(
            f"{content.family} on {architecture}: {fit.rows:,} rows, left out of the fit: median "
            f"error {fit.median_error:.1%}, p90 {fit.p90_error:.1%}, bias {fit.bias:+.1%}"
        )
        for c in family.constants:
            lines.append(
                f"  {c.name:<24} {fit.constants[c.name]:>10.4g} {c.unit:<8} "
                f"[{c.low:g} to {c.high:g}]  {c.meaning}"
            )
    return lines


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror or error}") from error


def _list_constants() -> dict[str, Any]:
    """Prints every constant, fitted or not, and returns them as data."""
    from simulator.calibration.published_constants import UNFITTED, fitted_constants

    data: dict[str, Any] = {"fitted": [], "unfitted": []}
    title = ""
    for c in fitted_constants():
        if title != (title := f"{c.family} on {c.architecture}"):
            together = f", fitted with {c.rows_of}" if c.family != c.rows_of else ""
            _print(f"{title}: {c.rows:,} rows{together}")
        bound = " at its bound" if c.at_bound else ""
        _print(
            f"  {c.name:<27} {c.value:>10.4g} {c.unit:<6} fitted    "
            f"[{c.low:g} to {c.high:g}]{bound}  {c.meaning}"
        )
        data["fitted"].append({**asdict(c), "at_bound": c.at_bound})
    _print("Not fitted; seen: read off measured rows where only it differs")
    for u in UNFITTED:
        name = f"{u.module}.{u.name.lower()}"
        _print(f"  {name:<47} {u.value:>10,.10g} {u.unit:<8} {u.origin:<9} {u.meaning}")
        data["unfitted"].append({**asdict(u), "value": u.value})
    return data


def _print(line: str) -> None:
    console().print(line, soft_wrap=True, markup=False)
