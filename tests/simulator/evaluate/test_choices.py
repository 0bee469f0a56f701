"""Files of choices: written by the evaluator, read for a step, refused with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.basis.errors import FileFormatError, InputError
from simulator.evaluate.choices import ChoiceRecord, load_choices, write_choices
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from workloads.deepseek_v4.config import find_model, model_from_mapping
from workloads.run_stats import RunStats

TINY = find_model("tiny")
PATHS = ("layer02/attn/indexer/top_k", "layer03/moe/route")


def write(
    path: Path, picks: np.ndarray, experts: np.ndarray | None = None, model: str = "tiny"
) -> Path:
    record = ChoiceRecord()
    record.taken[PATHS[0], "top-k"] = [picks]
    if experts is not None:
        record.taken[PATHS[1], "experts"] = [experts]
    write_choices(path, model, record, [np.arange(len(picks))])
    return path


def some_picks(rows: int = 4) -> np.ndarray:
    return np.tile(np.arange(16), (rows, 1))


def test_what_the_evaluator_chose_comes_back(tmp_path: Path) -> None:
    golden = GoldenFile.load(shipped_golden_file())
    config = model_from_mapping(golden.config)
    evaluator = Evaluator(config, golden.weights, RequestTable(1, 512))
    row, record, rows = evaluator.table.admit(), ChoiceRecord(), []
    ids = golden.input_ids[:135]
    for part in (ids[:130], *([token] for token in ids[130:])):
        evaluator.step([(row, part)], choices=record)
        rows.append(np.zeros(len(part), dtype=int))
    write_choices(tmp_path / "run.npz", config.name, record, rows)
    choices = load_choices(tmp_path / "run.npz", config, 135)
    for (path, kind), taken in record.taken.items():
        read = choices.picks if kind == "top-k" else choices.experts
        assert (read[path] == np.concatenate(taken)).all()
    assert len(choices.requests) == 135
    stats = RunStats.of(choices)
    assert 0.5 < stats.top_k_overlap < 1
    assert choices == load_choices(tmp_path / "run.npz", config, 135)


@pytest.mark.parametrize(
    ("picks", "change", "message"),
    [
        (some_picks()[:, :5], {}, r"int64 \[4, 5\], expected whole numbers \[4, 16\]"),
        (some_picks().astype(float), {}, "float64"),
        (some_picks() + 1000, {}, "ids of 1,000 to 1,015, but there are 64 entries"),
        (np.where(some_picks() > 3, -1, some_picks()), {}, "4 picks a query, but .* pick 16"),
        (some_picks(), {"experts": np.full((4, 2), 8)}, "ids of 8 to 8, but there are 8 experts"),
        (some_picks(), {"experts": np.zeros((3, 2), int)}, r"int64 \[3, 2\]"),
        (some_picks(), {"model": "v4-pro"}, "'v4-pro', but the step is one of 'tiny'"),
    ],
)
def test_faults_are_one_sentence(
    tmp_path: Path, picks: np.ndarray, change: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "c.npz", picks, **change)
    with pytest.raises(FileFormatError, match=message) as error:
        load_choices(path, TINY, 256)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_choices(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file of choices"):
        load_choices(tmp_path / "none.npz", TINY, 256)
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(FileFormatError, match=r"not an \.npz archive"):
        load_choices(tmp_path / "text.npz", TINY, 256)
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    with pytest.raises(FileFormatError, match="model: missing"):
        load_choices(tmp_path / "other.npz", TINY, 256)
    np.savez(tmp_path / "empty.npz", model=np.array("tiny"), requests=np.arange(3))
    with pytest.raises(FileFormatError, match="none of choices"):
        load_choices(tmp_path / "empty.npz", TINY, 256)
    whole = write(tmp_path / "c.npz", some_picks()).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError):
        load_choices(tmp_path / "cut.npz", TINY, 256)
