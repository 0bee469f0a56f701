"""Options that several commands share, and the console they print on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache, partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.basis.sizes import SIZES, read_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from reports.bundle import ReportFiles
    from reports.report import Report
    from simulator.cost.machine_lanes import ShownKernel
    from simulator.cost.result import ProofLine, StepResult


STANDARD_OUTPUT = Path("-")
_data_on_output = False


def to_standard_output(taken: bool) -> None:
    """Say whether standard output is for data alone: words then go to standard error."""
    global _data_on_output
    if _data_on_output != taken:
        _data_on_output = taken
        console.cache_clear()


def _in_a_folder(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before any work is done; `-` is the output."""
    if path == STANDARD_OUTPUT:
        to_standard_output(True)
        return path
    if path is None:
        return path
    reason = None
    try:
        path.absolute().lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # it is made anew
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if not reason and not path.absolute().parent.is_dir():
        reason = f"there is no folder {path.parent}; make it first"
    if not reason and not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        reason = f"folder {path.parent} cannot be written to"
    if reason:
        said = str(path) if len(str(path)) <= 60 else f"{str(path)[:57]}..."
        raise InputError(f"{option.opts[0]} {said}: cannot write {said}: {reason}")
    return path


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Also write the result as JSON (units in names); - for standard output.",
        callback=_in_a_folder,
    ),
]

PageFile = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE.html", help="Also write a page.", callback=_in_a_folder),
]
CsvFile = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE.csv", help="Also write the main table, exact.",
        callback=_in_a_folder,
    ),
]  # fmt: skip


@cache
def console(stderr: bool = False) -> Console:
    """Standard output, or standard error where the output is for data alone.

    A reader that has gone is an error of ours to handle, not rich's.
    """
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    # Names of files may hold square brackets, which are no markup.
    return PipeConsole(stderr=stderr or _data_on_output, highlight=False, markup=False, emoji=False)


def error_console() -> Console:
    """Standard error: progress and notes, so that output can be piped."""
    return console(stderr=True)


def write_files(
    out: Path,
    steps: Sequence[tuple[str, StepResult]],
    proof: ProofLine | None = None,
    shown: Sequence[ShownKernel] = (),
) -> ReportFiles:
    """Write the report with its tables and timeline; before anything is printed."""
    from reports.bundle import write_report

    return write_report(out, steps, proof=proof, command=command_line(), shown=shown)


def say_files(files: ReportFiles) -> None:
    """Say where the files are."""
    for path in files.linked.values():
        console().print(f"wrote {path}", soft_wrap=True)
    console().print(f"Open the report in a browser: {files.page.resolve()}", soft_wrap=True)


def say_report(
    report: Report,
    *,
    json: Path | None = None,
    csv: Path | None = None,
    page: Path | None = None,
    out: Path | None = None,
    assumptions: bool = False,
) -> None:
    """Write the files asked for (a folder has all of them), then print the report."""
    from reports.report_files import write_report_folder, write_table_csv
    from reports.report_page import write_report_page
    from reports.report_text import print_report

    save_json(json, dict(report.data))
    if csv is not None:
        write_table_csv(csv, report.table())
    if page is not None:
        write_report_page(page, report, command_line())
    files = [] if out is None else write_report_folder(out, report, command_line())
    print_report(console(), report, assumptions=assumptions)
    for path in files[:-1]:
        console().print(f"wrote {path}", soft_wrap=True)
    for made in (page, *files[-1:]):
        if made is not None:
            console().print(f"Open the report in a browser: {made.resolve()}", soft_wrap=True)


def command_line() -> str:
    """The command as it was typed."""
    return " ".join(["v4sim", *sys.argv[1:]])


def save_json(path: Path | None, data: Any) -> None:
    """Write JSON whole or not at all, when a path was given.

    Constants of the user's own that were in use are named in it, with a hash.
    """
    if path is not None:
        from reports.step_json import json_text, write_json
        from simulator.kernels.user_constants import constants_record

        record = constants_record()
        whole = {**data, "constants": record} if record else data
        if path == STANDARD_OUTPUT:
            print(json_text(whole), end="")
        else:
            write_json(path, whole)


def tokens_option(name: str, text: str, default: str = "", **more: Any) -> Any:
    """A typer option of a number of tokens that also takes sizes such as 128K and 1M."""
    return typer.Option(
        name,
        metavar="TOKENS",
        # Older parsers ask for the name of what reads a value.
        parser=update_wrapper(partial(read_tokens, what=name), read_tokens),
        help=f"{text} {SIZES}{f' [default: {default}]' if default else ''}.",
        **more,
    )
