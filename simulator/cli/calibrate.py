"""`v4sim calibrate`: fit constants to a user's own measured times, and keep them as a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from hwmodels.chip import ChipSpec
    from simulator.calibration.dispatch import RowSet
    from simulator.kernels.fitted import FamilyFile, Fitted
    from simulator.kernels.user_constants import ConstantsFile


OwnChips = Annotated[
    list[Path] | None,
    typer.Option(
        "--chip",
        metavar="FILE",
        help="Description of a chip that rows name and that does not ship; may be repeated.",
    ),
]


def calibrate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder of CSV tables, or one table.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the constants (YAML).")
    ] = None,
    install: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep them for all commands that follow, by this name."),
    ] = None,
    chips: OwnChips = None,
    note: Annotated[str, typer.Option(help="A remark to keep in the file.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Print all constants in use, and fit nothing.")
    ] = False,
    installed: Annotated[
        bool, typer.Option("--installed", help="Print what is installed, and fit nothing.")
    ] = False,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove what was installed by this name.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Fit the constants of every kernel family to the rows of each chip, and write them to a file.

    Constants of a chip are drawn towards those of its architecture, the more the fewer rows there
    are. Least squares on log time with a robust loss; errors are of rows left out of the fit, in
    five folds. The file is then given to any command with --constants, or installed; what ships
    with the package stays as it is. An interrupted run writes nothing.

    Example: v4sim calibrate my-rows --out mine.yaml
    """
    others = {
        "--list": list_,
        "--installed": installed,
        "--remove": remove is not None,
    }
    asked = [name for name, given in others.items() if given]
    fitting = folder is not None or out is not None or install is not None or bool(chips)
    if asked and (len(asked) > 1 or fitting):
        what = " and ".join(asked)
        raise InputError(f"{what} fits nothing: give it alone, or tables to fit to without it")
    if list_:
        save_json(json, _list_constants())
    elif installed:
        save_json(json, _list_installed())
    elif remove is not None:
        _remove(remove)
    else:
        target = _target(folder, out, install, force)
        assert folder is not None
        _fit_and_write(folder, target, chips or (), note, json)


def _target(folder: Path | None, out: Path | None, install: str | None, force: bool) -> Path:
    """Where the constants go; everything that would fail after the fits is refused here."""
    from simulator.kernels.user_constants import user_folder

    if folder is None:
        raise InputError("nothing to fit to: give a folder of tables, or --list for the constants")
    if (out is None) == (install is None):
        raise InputError(
            "give --out FILE for a file of constants, or --install NAME to keep them for all "
            "commands, one of the two"
        )
    need_scipy()
    if install is not None:
        if not install.replace("-", "").replace("_", "").isalnum():
            raise InputError(f"--install {install}: a name has letters, digits, '-' and '_' alone")
        out = user_folder() / f"{install}.yaml"
        _make_folder(out.parent)
    assert out is not None
    if out.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(f"--out {out}: constants are a YAML file, expected a name as mine.yaml")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}; make it first")
    if out.exists() and not force:
        raise InputError(f"{out} is there already: give another name, or --force to replace it")
    return out


def need_scipy() -> None:
    """An InputError that names the extra where scipy is not installed."""
    if find_spec("scipy") is None:
        raise InputError(
            "fitting needs scipy, which comes with the extra 'calibrate': "
            "pip install 'v4sim[calibrate]'"
        )


def _fit_and_write(
    folder: Path, target: Path, chips: Sequence[Path], note: str, json: Path | None
) -> None:
    from simulator.kernels.user_constants import write_constants_file

    content = _fitted(folder, chips, note)
    write_constants_file(target, content)
    families = len(content.families)
    _print(
        f"{families} famil{'y' if families == 1 else 'ies'} of {', '.join(content.chips)} written "
        f"to {target}; give it to any command with --constants"
    )
    save_json(json, content.model_dump(mode="json"))


def _fitted(folder: Path, chips: Sequence[Path], note: str) -> ConstantsFile:
    """Constants of every chip that the tables have enough rows of, each printed as it is fitted."""
    from hwmodels.chip import find_chip
    from simulator.calibration.calibrate import groups_with_rows
    from simulator.calibration.dispatch import chip_of, described_chips, dispatched
    from simulator.calibration.tables_in_folder import read_folder
    from simulator.kernels.user_constants import ConstantsFile

    with described_chips([find_chip(path) for path in chips]):
        tables = read_folder(folder)
        for path in tables.dram:
            _note(f"{path.name}: a table of DRAM runs, nothing is fitted to it")
        rows = dispatched(tables.measured)
        found: dict[str, list[FamilyFile]] = {}
        described: dict[str, ChipSpec] = {}
        for name, own in rows.by_chip().items():
            groups = list(groups_with_rows(own))
            fits = _fit_chip(chip_of(name), groups)
            if fits:
                described[name] = chip_of(name)
                for content in fits:
                    found.setdefault(content.family, []).append(content)
    if not found:
        raise _too_few(folder, rows)
    counts = {table.path.name: len(table) for table in tables.measured}
    return ConstantsFile(
        fitted_to=tuple(f"{name}, {count:,} rows" for name, count in counts.items()),
        note=note,
        chips=described,
        families=tuple(_joined(files) for files in found.values()),
    )


def _fit_chip(chip: ChipSpec, groups: Sequence[tuple[tuple[str, ...], RowSet]]) -> list[FamilyFile]:
    from simulator.calibration.calibrate import FEWEST_ROWS, calibrate_chip, layered
    from simulator.kernels.constants_file import fresh_constants

    contents: list[FamilyFile] = []
    for number, (families, rows) in enumerate(groups, start=1):
        what = f"{chip.name}: fitting {', '.join(families)}, {number} of {len(groups)}"
        with error_console().status(what), ExitStack() as stack:
            stack.enter_context(fresh_constants([layered(content) for content in contents]))
            files, few = calibrate_chip(chip, families, rows)
        for family in few:
            _note(
                f"{family} on {chip.name}: {len(rows.of(family))} rows, expected at least "
                f"{FEWEST_ROWS}; its constants stay as they are"
            )
        for content in files:
            contents.append(content)
            for line in _lines(content):
                _print(line)
    return contents


def _joined(files: Sequence[FamilyFile]) -> FamilyFile:
    """One family's constants on several chips."""
    chips = {name: fit for content in files for name, fit in content.chips.items()}
    return files[0].model_copy(update={"chips": chips})


def _too_few(folder: Path, rows: RowSet) -> InputError:
    from simulator.calibration.calibrate import FEWEST_ROWS

    counts: dict[tuple[str, str], int] = {}
    for row in rows.rows:
        if row.family:
            counts[row.family, row.chip] = counts.get((row.family, row.chip), 0) + 1
    if not counts:
        return InputError(f"{folder}: no kernel family covers any of its {len(rows):,} rows")
    (family, chip), most = max(counts.items(), key=lambda item: item[1])
    return InputError(
        f"{folder}: too few rows to fit to: a family needs {FEWEST_ROWS} on a chip, and the most "
        f"are {most}, of {family} on {chip}"
    )


def _note(text: str) -> None:
    error_console().print(text, soft_wrap=True, markup=False)


def _lines(content: FamilyFile) -> list[str]:
    from simulator.kernels.registry import find_family

    lines = []
    for chip, fit in sorted(content.chips.items()):
        lines.append(
            f"{content.family} on {chip}: {fit.rows:,} rows, left out of the fit: median "
            f"error {fit.median_error:.1%}, p90 {fit.p90_error:.1%}, bias {fit.bias:+.1%}"
        )
        for c in find_family(content.family).constants:
            lines.append(
                f"  {c.name:<24} {fit.constants[c.name]:>10.4g} {c.unit:<8} "
                f"{_error(fit, c.name):<14} [{c.low:g} to {c.high:g}]  {c.meaning}"
            )
    return lines


def _error(fit: Fitted, name: str) -> str:
    """Standard error of a constant; whose it is where rows do not fix it."""
    error = fit.standard_errors[name]
    return "not identified" if name in fit.not_identified else f"+- {min(error, 9.99):.1%}"


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror or error}") from error


def _list_installed() -> dict[str, Any]:
    """Prints the installed files and what they hold; returns that as data."""
    from simulator.kernels.user_constants import (
        installed_files,
        read_constants_file,
        user_folder,
    )

    files = installed_files()
    if not files:
        _print(f"nothing is installed in {user_folder()}")
    data = []
    for path in files:
        content = read_constants_file(path)
        text = f"{len(content.families)} families of {', '.join(content.chips)}"
        _print(f"{path.stem}: {text}{f'; {content.note}' if content.note else ''} ({path})")
        data.append(
            {
                "name": path.stem,
                "file": str(path),
                "chips": list(content.chips),
                "families": [own.family for own in content.families],
                "fitted_to": list(content.fitted_to),
                "note": content.note,
            }
        )
    return {"installed": data}


def _remove(name: str) -> None:
    from simulator.kernels.user_constants import installed_files

    known = {path.stem: path for path in installed_files()}
    if name not in known:
        raise InputError(
            f"--remove {name}: no such constants are installed, only {', '.join(known) or 'none'}"
        )
    known[name].unlink()
    _print(f"removed {known[name]}")


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
        error = (
            f"+- {c.standard_error:.1%}" if c.standard_error and c.identified else "not identified"
        )
        _print(
            f"  {c.name:<27} {c.value:>10.4g} {c.unit:<6} fitted    {error:<14} "
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
