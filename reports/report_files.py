"""Files of a report by the ending of their name: page, JSON, CSV, SVG, or a folder of all of them.

Tables are written exactly, under names with units; figures as SVG, without a browser.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reports.report import Figure, Report, ReportTable
from reports.report_page import write_report_page
from reports.step_json import write_json
from reports.svg import standalone
from simulator.basis.atomic import write_text
from simulator.basis.errors import InputError

PAGE_NAME, JSON_NAME = "report.html", "report.json"
_PIXELS = (".png", ".pdf")


def write_report(path: Path | str, report: Report, command: str = "") -> list[Path]:
    """Write what the name's ending asks for, or everything into a folder; returns the files.

    Of several tables a single file has the main one, of figures the first; a folder has all.
    Raises InputError for endings that are not written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending in WRITERS:
        WRITERS[ending](path, report, command)
        return [path]
    if ending in _PIXELS:
        raise InputError(
            f"cannot write {path}: {ending[1:].upper()} needs a browser, which v4sim does not "
            f"bring along; write {path.with_suffix('.svg').name}, which needs none, or save PNG "
            "from the page"
        )
    if ending:
        known = ", ".join((*WRITERS, "or a folder"))
        raise InputError(f"cannot write {path}: a report is {known}, not '{ending}'")
    return write_report_folder(path, report, command)


def write_report_folder(folder: Path, report: Report, command: str = "") -> list[Path]:
    """Everything side by side: the page, which links to the rest, JSON, tables and figures."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {folder}: {error.strerror}") from error
    files: dict[str, Path] = {"Everything (JSON)": folder / JSON_NAME}
    write_report_json(folder / JSON_NAME, report)
    for table in report.tables:
        path = files[f"{table.title or table.id} (CSV)"] = folder / f"{table.id}.csv"
        write_table_csv(path, table)
    for figure in report.figures:
        path = files[f"{figure.title or figure.id} (SVG)"] = folder / f"{figure.id}.svg"
        write_figure_svg(path, figure)
    links = {label: path.name for label, path in files.items()}
    page = folder / PAGE_NAME
    write_report_page(page, replace(report, files={**report.files, **links}), command)
    return [*files.values(), page]


def write_report_json(path: Path, report: Report) -> None:
    """The records' own fields."""
    write_json(path, dict(report.data))


def write_table_csv(path: Path, table: ReportTable) -> None:
    """Exact values under the fields' names; nothing where there is no value."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([own.name for own in table.fields])
    writer.writerows(zip(*(own.values for own in table.fields), strict=True))
    write_text(path, text.getvalue())


def write_page_with_figures(path: Path, report: Report, command: str = "") -> list[Path]:
    """The page, and each of its figures as SVG beside it, to which it links; returns the SVGs."""
    found = {}
    for figure in report.figures:
        name = path.with_name(f"{path.stem}-{figure.id}.svg")
        found[f"{figure.title.rstrip('.')} (SVG)"] = name
        write_figure_svg(name, figure)
    links = {label: file.name for label, file in found.items()}
    write_report_page(path, replace(report, files={**report.files, **links}), command)
    return list(found.values())


def write_figure_svg(path: Path, figure: Figure) -> None:
    """One figure in the light colours."""
    write_text(path, standalone(figure.drawing, figure.title or figure.id) + "\n")


def _first_table(path: Path, report: Report, command: str) -> None:
    if not report.tables:
        raise InputError(f"cannot write {path}: this report has no table; try --json")
    write_table_csv(path, report.table())


def _first_figure(path: Path, report: Report, command: str) -> None:
    if not report.figures:
        raise InputError(f"cannot write {path}: this report has no figure; try a .csv")
    write_figure_svg(path, report.figures[0])


WRITERS: dict[str, Callable[[Path, Report, str], None]] = {
    ".html": write_report_page,
    ".json": lambda path, report, command: write_report_json(path, report),
    ".csv": _first_table,
    ".svg": _first_figure,
}
