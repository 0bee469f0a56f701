"""Measured rows become scenarios by the recipe file, and are scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.basis.errors import InputError
from simulator.claims.measured import Figures, compare
from simulator.claims.recipes import COLUMNS, MeasuredRun, load_recipes, read_rows, runs_of
from simulator.claims.scores import choices_of, order_of, scores_of

CONFIG = "TP{chips} {form}, random 8192/1024, max_concurrency {users}, cookbook recipe"


def table(path: Path, *rows: tuple[str, int, str, str, str, float, str]) -> tuple[MeasuredRun, ...]:
    """Rows of (chip, chips, model, configuration, metric, value, unit) as runs."""
    lines = [",".join(COLUMNS)]
    for chip, chips, model, config, metric, value, unit in rows:
        lines.append(f'{chip},{chips},SGLang 0.5.15,{model},"{config}",{metric},{value},{unit},x')
    path.write_text("\n".join(lines) + "\n")
    return runs_of(read_rows(path), load_recipes())


def config(chips: int, form: str, users: int) -> str:
    return CONFIG.format(chips=chips, form=form, users=users)


def test_flags_follow_chip_model_format_and_concurrency(tmp_path: Path) -> None:
    def scenario(chip: str, chips: int, model: str, form: str, users: int):  # type: ignore[no-untyped-def]
        row = (chip, chips, model, config(chips, form, users), "mean TTFT", 1.0, "ms")
        (run,) = table(tmp_path / "rows.csv", row)
        assert run.counted
        assert run.scenario is not None, run.reason
        return run.scenario

    low = scenario("B200", 4, "Flash", "FP4", 16)
    assert (low.parallel.tp, low.parallel.dp, low.scheduler.step_tokens) == (4, 1, 4096)
    assert low.speculation is not None
    assert low.speculation.draft_tokens == 3
    client = low.traffic.client
    assert client is not None
    assert (client.prompts, client.concurrency) == (32, 16)
    balanced = scenario("GB200", 4, "Flash", "NVFP4", 64)
    assert (balanced.parallel.dp, balanced.exchange) == (4, "deepep")
    assert balanced.scheduler.step_tokens == 4096
    high = scenario("B300", 8, "Pro", "FP4", 1024)
    assert (high.exchange, high.scheduler.gathers_prompts) == ("fused", True)
    assert (high.scheduler.step_tokens, high.memory_share) == (8192, 0.835)
    gb300 = scenario("GB300", 4, "Pro", "FP4", 256)
    assert (gb300.parallel.dp, gb300.memory_share, gb300.exchange) == (4, 0.9, "deepep")
    eight = scenario("H200", 4, "Flash", "FP8", 256)
    assert (eight.scheduler.max_requests, eight.expert_dtype) == (128, "fp8")
    kept = scenario("H100", 4, "Flash", "FP4", 256)
    assert (kept.parallel.tp, kept.expert_dtype) == (4, "fp4")


def test_what_is_not_mapped_says_why(tmp_path: Path) -> None:
    row = ("B200", 4, "Flash", config(4, "FP4", 99), "mean TTFT", 1.0, "ms")
    other = ("B200", 4, "Flash", "by mouth", "mean TTFT", 1.0, "ms")
    for one, words in ((row, "no launch flags"), (other, "no recipe reads")):
        (run,) = table(tmp_path / "rows.csv", one)
        assert run.scenario is None
        assert words in run.reason


def figures(rate: float) -> Figures:
    return Figures(
        ttft_p50_ms=100.0,
        ttft_mean_ms=120.0,
        tpot_p50_ms=10.0,
        tpot_mean_ms=11.0,
        output_tokens_per_s=rate,
        input_tokens_per_s=8 * rate,
        chips=4,
    )


def test_scores_orders_and_choices(tmp_path: Path) -> None:
    unit = "tok/s/GPU"
    metric = "total tokens/s per GPU"
    runs = table(
        tmp_path / "rows.csv",
        ("B200", 4, "Flash", config(4, "FP4", 16), metric, 900.0, unit),
        ("B200", 4, "Flash", config(4, "FP4", 64), metric, 450.0, unit),
        ("H200", 4, "Flash", config(4, "FP8", 16), metric, 300.0, unit),
    )
    ours = {"b200": {16: 400.0, 64: 600.0}, "h200": {16: 200.0}}
    recipes = load_recipes()
    found = []
    for run in runs:
        rate = ours[run.rows[0].system.lower()][run.concurrency]
        found += compare(run, recipes.metrics, lambda _, rate=rate: figures(rate))
    # Output tokens a second x 9 over 4 chips.
    assert [one.ours for one in found] == [900.0, 1350.0, 450.0]
    every = scores_of(found, "rate")[0]
    assert (every.rows, every.off, every.bias) == (3, 0.5, 0.5)
    (both, chips) = order_of(found, "rate")
    assert (both.pairs, both.right, chips.pairs) == (1, 1, 1)
    (choice,) = choices_of(found)
    assert (choice.ours, choice.best, choice.lost) == (64, 16, 0.5)


def test_a_table_without_a_column_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("system,value\nB200,1\n")
    with pytest.raises(InputError, match="has no column n_gpus"):
        read_rows(path)
    path.write_text(",".join(COLUMNS) + "\nB200,x,e,m,c,t,1,ms,s\n")
    with pytest.raises(InputError, match="must be a whole number"):
        read_rows(path)
