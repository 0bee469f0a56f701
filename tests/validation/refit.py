"""Fits the package's constants to tables of measured rows and writes them where they ship.

`python -m tests.validation.refit DIR` is the only thing that writes there: commands keep what they
fit in files of the user's. One set of constants an architecture; later families build on earlier.
What the tables have no rows of stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simulator.calibration.calibrate import calibrate_group, groups_with_rows
from simulator.calibration.dispatch import dispatched
from simulator.calibration.tables_in_folder import read_folder
from simulator.kernels.constants_file import fresh_constants, read_constants, write_constants
from simulator.kernels.fitted import FamilyFile


def refit(folder: Path) -> list[FamilyFile]:
    """Constants of every family with enough rows, as they would be written."""
    contents: list[FamilyFile] = []
    for families, rows in groups_with_rows(dispatched(read_folder(folder).measured)):
        with fresh_constants(contents):
            files, _ = calibrate_group(families, rows)
        contents += [_with_others(content) for content in files if content.architectures]
        print(", ".join(families), flush=True)
    return contents


def _with_others(content: FamilyFile) -> FamilyFile:
    """Fresh constants, and those that ship of architectures and chips without rows."""
    known = read_constants(content.family)
    architectures = {**known.architectures, **content.architectures}
    return known.model_copy(update={"architectures": architectures})


if __name__ == "__main__":
    for written in refit(Path(sys.argv[1])):
        write_constants(written)
