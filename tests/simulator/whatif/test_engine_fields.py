"""A field of an engine's profile at another value is the step under a file that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import simulator.whatif.engine_fields as own
from simulator.cost.question import AskedStep, ask
from simulator.cost.step import cost_step
from simulator.engine import profile
from simulator.whatif.engine_fields import field_changes

PROFILES = Path(profile.__file__).parent / "profiles"
STEP = {"model": "v4-flash", "chip": "b200", "count": 8, "batch": 64, "context": 131072}


def under_file(folder: Path, kernel: str, field: str, value: int) -> AskedStep:
    """The step under a profile whose file gives a kernel's field another value."""
    data = yaml.safe_load((PROFILES / "kernels" / "sglang.yaml").read_text())
    (found,) = [one for one in data["kernels"] if one["name"] == kernel]
    assert field in found
    found[field] = value
    (folder / "kernels.yaml").write_text(yaml.safe_dump(data))
    text = (PROFILES / "sglang-0.5.yaml").read_text()
    (folder / "own.yaml").write_text(text.replace("kernels: sglang\n", "kernels: kernels.yaml\n"))
    return ask(**STEP, engine=str(folder / "own.yaml"))  # type: ignore[arg-type]


def test_changes_are_those_of_files_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(**STEP)  # type: ignore[arg-type]
    base = cost_step(asked)
    every = list(own._fields(asked, base))
    names = [name for name, _, _ in every]
    assert len(names) == len(set(names))
    assert not any(name.endswith((".stage", ".stream")) for name in names)
    few = ("indexer_q_b.stream_tokens", "layout.page_tokens", "matrix_tiles.depth")
    chosen = [one for one in every if one[0] in few]
    assert len(chosen) == len(few)
    monkeypatch.setattr(own, "_fields", lambda *_: iter(chosen))
    found = {(one.field, one.after): one for one in field_changes(asked, cost_step)}
    half = found["indexer_q_b.stream_tokens", 32]
    again = cost_step(under_file(tmp_path, "indexer_q_b", "stream_tokens", 32))
    assert half.change_ps == again.total_ps - base.total_ps
    assert half.before == 64
    for pages in (128, 512):
        step = cost_step(ask(**STEP, page_tokens=pages))  # type: ignore[arg-type]
        change = found.get(("layout.page_tokens", pages))
        assert (change.change_ps if change else 0) == step.total_ps - base.total_ps
    sizes = [abs(one.change_ps) for one in field_changes(asked, cost_step)]
    assert sizes == sorted(sizes, reverse=True)
