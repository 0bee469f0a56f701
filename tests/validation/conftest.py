"""Cross-validation is costly: each family once a session, shared by all workers."""

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.kernels.validation import Row
from tests.validation.silicon_rows import cross_validated

FamilyRows = Callable[[str], list[Row]]


@pytest.fixture(scope="session")
def family_rows(tmp_path_factory) -> FamilyRows:
    """Cross-validated rows of a family, by name."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "silicon"
    folder.mkdir(exist_ok=True)
    known: dict[str, list[Row]] = {}

    def rows(family: str) -> list[Row]:
        if family not in known:
            known[family] = _computed_once(folder / f"{family}.pickle", family)
        return known[family]

    return rows


def _computed_once(path: Path, family: str) -> list[Row]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(cross_validated(family)))
        return pickle.loads(path.read_bytes())
