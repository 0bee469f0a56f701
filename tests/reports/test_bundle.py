"""A directory with the page and everything that it links to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reports.bundle import write_report
from simulator.basis.errors import InputError
from tests.reports.factory import make_proof, make_step


def test_every_link_of_the_page_leads_to_a_file(tmp_path: Path) -> None:
    steps = [("Decode", make_step(layers=4)), ("Prefill 8k", make_step(layers=4, phase="prefill"))]
    files = write_report(tmp_path / "new" / "out", steps, proof=make_proof())
    html = files.page.read_text(encoding="utf-8")
    body = html[: html.index("<script")]
    links = re.findall(r'<a href="([^"#]+)"', body)
    assert len(links) == 13
    assert {files.page.parent / link for link in links} == set(files.linked.values())
    assert all(path.stat().st_size for path in files.linked.values())
    assert len(list(files.page.parent.iterdir())) == 14
    step = json.loads((files.page.parent / "prefill-8k.json").read_text())
    assert step["question"]["phase"] == "prefill"


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make directory"):
        write_report(tmp_path / "file" / "out", [("Decode", make_step(layers=1))])


def test_importing_reports_loads_no_heavy_library() -> None:
    code = (
        "import sys, reports.bundle, reports.terminal\n"
        "heavy = {'pandas', 'numpy', 'plotly', 'pyarrow', 'perfetto', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_needs_no_pandas(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from reports.bundle import write_report\n"
        "from tests.reports.factory import make_step\n"
        f"write_report({str(tmp_path)!r}, [('Decode', make_step(layers=1))])\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
