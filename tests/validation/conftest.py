"""What is costly is computed once a session and shared by all workers: fits and DRAM runs."""

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.calibration.fit import group_of
from simulator.calibration.validation import Row
from tests.validation.dram_rows import DramError, dram_errors
from tests.validation.silicon_rows import cross_validated

FamilyRows = Callable[[str], list[Row]]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory) -> Path:
    """A folder of this session that all workers see."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "validation"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def family_rows(shared_folder) -> FamilyRows:
    """Cross-validated rows of a family, by name."""
    known: dict[str, list[Row]] = {}

    def rows(family: str) -> list[Row]:
        if family not in known:
            group = group_of(family)
            path = shared_folder / f"{group[0]}.pickle"
            known.update(_computed_once(path, lambda: cross_validated(group)))
        return known[family]

    return rows


@pytest.fixture(scope="session")
def dram_runs(shared_folder) -> list[DramError]:
    """Errors of all DRAM runs."""
    return _computed_once(shared_folder / "dram.pickle", dram_errors)


def _computed_once(path: Path, compute: Callable[[], Any]) -> Any:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(compute()))
        return pickle.loads(path.read_bytes())
