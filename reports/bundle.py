"""Everything about some costed steps, side by side in one directory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reports.breakdown import StepBreakdown
from reports.page import write_page
from reports.step_json import step_to_json, write_json
from reports.step_report import step_figures
from reports.svg import standalone
from reports.tables import kernel_table, operation_table, write_csv, write_parquet
from reports.timeline import write_timeline
from simulator.basis.atomic import folder_beside, write_text
from simulator.basis.errors import InputError
from simulator.cost.result import ProofLine, StepResult

if TYPE_CHECKING:
    from simulator.cost.machine_lanes import ShownKernel

TIMELINE_NAME = "timeline.perfetto-trace"
PAGE_NAME = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The page, and the files that it links to by label."""

    page: Path
    linked: dict[str, Path]


def write_report(
    directory: Path | str,
    steps: Sequence[tuple[str, StepResult]],
    *,
    proof: ProofLine | None = None,
    command: str = "",
    shown: Sequence[ShownKernel] = (),
    more: Mapping[str, str] | None = None,
) -> ReportFiles:
    """Write the page, a timeline of all steps, and tables and JSON of each, named by its title.

    The timeline has the lanes of kernels that are `shown` on the machine. `more`: sections of the
    page after the steps, by name.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {directory}: {error.strerror}") from error
    names = [_file_name(title) for title, _ in steps]
    assert len(set(names)) == len(names), f"titles of steps give equal file names: {names}"
    # Written apart and then moved, so that the folder never holds half of a report.
    with folder_beside(folder, "report") as apart:
        files: dict[str, Path] = {}
        for name, (title, result) in zip(names, steps, strict=True):
            files |= _write_step(Path(apart), name, title, result)
        files["Timeline"] = Path(apart) / TIMELINE_NAME
        write_timeline(steps, files["Timeline"], shown)
        page = Path(apart) / PAGE_NAME
        write_page(page, steps, proof=proof, files=files, command=command, more=more)
        moved = {label: _move(path, folder) for label, path in files.items()}
        return ReportFiles(page=_move(page, folder), linked=moved)


def _move(path: Path, folder: Path) -> Path:
    target = folder / path.name
    try:
        return path.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error


def _write_step(folder: Path, name: str, title: str, result: StepResult) -> dict[str, Path]:
    breakdown = StepBreakdown(result)
    launches = kernel_table(result, breakdown)
    files = {
        f"{title}: launches (CSV)": folder / f"{name}-launches.csv",
        f"{title}: launches (Parquet)": folder / f"{name}-launches.parquet",
        f"{title}: operations (CSV)": folder / f"{name}-operations.csv",
        f"{title}: everything (JSON)": folder / f"{name}.json",
    }
    csv, parquet, operations, everything = files.values()
    for figure in step_figures("", result, breakdown):
        path = folder / f"{name}-{figure.id}.svg"
        files[f"{title}: {figure.title} (SVG)"] = path
        write_text(path, standalone(figure.drawing, figure.title) + "\n")
    write_csv(csv, launches)
    write_parquet(parquet, launches)
    write_csv(operations, operation_table(result, breakdown))
    write_json(everything, step_to_json(result, breakdown))
    return files


def _file_name(title: str) -> str:
    """The title in lower case, with a hyphen for whatever is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "step"
