"""Parts are read in the reader's own thread."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.sweep.compute import Outcome
from simulator.sweep.parts import PartFolder

PROGRAM = """
import os, sys
from pathlib import Path
import pyarrow.parquet
from simulator.sweep.parts import PartFolder
before = len(os.listdir("/proc/self/task"))
assert PartFolder(Path(sys.argv[1])).read("ab").row == {"half": 0.5}
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system lists no threads")
def test_reading_a_part_starts_no_thread(tmp_path: Path) -> None:
    """One that still holds its bytes while the interpreter ends aborts the process (exit -6)."""
    PartFolder(tmp_path).write(Outcome(digest="ab", status="done", row={"half": 0.5}), "{}")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "0\n"
