"""Picks of a run of the evaluator: measured, written, read back, refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import FileFormatError, InputError
from simulator.evaluate.choices import ChoiceRecord, write_choices
from simulator.offload.misses import RecordedMisses
from simulator.offload.recording import (
    choices_of,
    read_picks,
    record_picks,
    reuse_of,
    save_record,
)
from workloads.deepseek_v4.config import find_model

TINY = find_model("tiny")
PROMPT, STEPS = 384, 32


@cache
def record(kind: str) -> ChoiceRecord:
    return record_picks(TINY, kind, prompt_tokens=PROMPT, steps=STEPS, seed=5)


def recorded(kind: str) -> RecordedMisses:
    return RecordedMisses(choices=choices_of(record(kind)), context_tokens=PROMPT + STEPS)


def test_closed_form_meets_exact_lru_over_the_picks_of_random_tokens() -> None:
    reuse = reuse_of(recorded("random"), "random", "tiny")
    assert (reuse.top_k, reuse.queries, reuse.entries) == (16, STEPS, (PROMPT + STEPS) // 4)
    assert [point.buffer_entries for point in reuse.points] == [16, 24, 32, 48, 64]
    for point in reuse.points:
        assert point.missed == pytest.approx(point.stated, abs=0.04)


def test_equal_tokens_share_more_picks_and_return_sooner_than_by_chance() -> None:
    chance, constant = (reuse_of(recorded(k), k, "tiny") for k in ("random", "constant"))
    assert constant.overlap > 0.6 > 0.3 > chance.overlap
    assert constant.points[2].missed < 0.7 * constant.points[2].stated
    assert constant.points[2].returns > 0.2


def test_more_buffer_misses_less_and_same_seed_is_same() -> None:
    missed = [point.missed for point in reuse_of(recorded("constant"), "", "tiny").points]
    assert missed == sorted(missed, reverse=True)
    again = record_picks(TINY, "random", prompt_tokens=PROMPT, steps=STEPS, seed=5)
    assert choices_of(again) == choices_of(record("random"))


def test_a_written_record_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "picks.npz"
    save_record(path, TINY, record("constant"))
    found = read_picks(path, TINY, PROMPT + STEPS)
    ours = recorded("constant")
    assert found.share(32) == ours.share(32)
    assert found.overlap == ours.overlap
    assert reuse_of(found, "file", "tiny", [40]).points[3].buffer_entries == 40


def test_files_that_do_not_serve(tmp_path: Path) -> None:
    few = ChoiceRecord()
    few.taken["layer02/attn/indexer/top_k", "top-k"] = [np.tile(np.arange(16), (3, 1))]
    write_choices(tmp_path / "few.npz", "tiny", few, [np.zeros(3, dtype=int)])
    with pytest.raises(InputError, match="a request has 3 queries, but at least 4"):
        read_picks(tmp_path / "few.npz", TINY, 512)
    experts = ChoiceRecord()
    experts.taken["layer03/moe/route", "experts"] = [np.tile(np.arange(2), (8, 1))]
    write_choices(tmp_path / "experts.npz", "tiny", experts, [np.zeros(8, dtype=int)])
    with pytest.raises(InputError, match="no picks, only experts"):
        read_picks(tmp_path / "experts.npz", TINY, 512)
    with pytest.raises(FileFormatError, match="'tiny', but the step is one of 'v4-flash'"):
        read_picks(tmp_path / "few.npz", find_model("v4-flash"), 512)
    with pytest.raises(InputError, match="there is no file of choices"):
        read_picks(tmp_path / "none.npz", TINY, 512)


def test_unknown_kind_of_tokens() -> None:
    with pytest.raises(InputError, match="did you mean 'random'"):
        record_picks(TINY, "randon")
