"""Rows of a layout sweep for JSON and CSV: units in the names, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.engine.profile import find_profile
from simulator.layout.kernel_tiles import attention_waste, padded_ids
from simulator.layout.sweep import OWN, LayoutCost
from simulator.layout.sweep_request import AskedSweep


def sweep_json(asked: AskedSweep, costs: Sequence[LayoutCost]) -> dict[str, Any]:
    """The question and every point with its pools."""
    question, step = asked.question, asked.step.question
    return {
        "question": {
            "model": question.groupings.config.name,
            "chip": question.chip.name,
            "engine": asked.engine,
            "kv_dtype": question.groupings.kv,
            "index_dtype": question.groupings.index,
            "pool": asked.pool,
            "mix": question.mix.text,
            "mix_requests": question.mix.requests,
            "neighbours": question.neighbours,
            "budget_bytes": question.budget_bytes,
            "context_tokens": question.load.context_tokens,
            "in_flight_tokens": question.load.in_flight_tokens,
            "step": {"count": step.count, "layout": str(step.layout), "batch": step.batch},
            "left_out": list(asked.left_out),
        },
        "priced_as": list(asked.priced_as),
        "attention_tiles_empty_share": attention_shares(asked),
        "points": [
            {**point_row(cost), "slack_of_block_share": cost.slack_of_block,
             "held": held_rows(cost), "pools": pool_rows(cost)}
            for cost in costs
        ],
    }  # fmt: skip


def attention_shares(asked: AskedSweep) -> dict[str, float]:
    """Share of the attention kernel's tiles that hold no entry, by source."""
    question = asked.question
    config = question.groupings.config
    padded = padded_ids(find_profile(asked.engine))
    found = attention_waste(question.mix, config, padded)
    return {name: waste.share for name, waste in found.items()}


def point_row(cost: LayoutCost) -> dict[str, Any]:
    """One point, flat."""
    point = cost.point
    return {
        "engine_own": point == OWN,
        "pool": point.pool,
        "page_tokens": cost.page_tokens,
        "padding": point.padding.name,
        "grouping": point.grouping,
        "bytes_per_token": cost.bytes_per_token,
        "padding_bytes_per_token": cost.padding_bytes_per_token,
        "padding_share": cost.padding_share,
        "request_held_bytes": cost.held_bytes,
        "request_useful_bytes": cost.useful_bytes,
        "request_padding_bytes": sum(one.padding_bytes for one in cost.held),
        "request_fragmentation_bytes": cost.fragmentation_bytes,
        "request_slack_bytes": cost.slack_bytes,
        "wasted_share": cost.wasted_share,
        "hit_granule_tokens": cost.granule_tokens,
        "lost_tokens_uniform": cost.lost_tokens_uniform,
        "lost_tokens_mix": cost.lost_tokens_mix,
        "page_table_bytes": cost.table_bytes,
        "dram_efficiency": cost.dram_efficiency,
        "cache_read_ns": cost.read_s * 1e9,
        "index_tile_keys": cost.index_tile_keys,
        "index_tiles_empty_share": cost.index_tiles.share,
        "step_ps": cost.step_ps,
        "requests": cost.requests,
    }


def flat_row(cost: LayoutCost) -> dict[str, Any]:
    """One point for CSV: its pools' padding and runs as columns of their own."""
    row = point_row(cost)
    if cost.step_ps is None:
        del row["step_ps"]
    row["engine_own"] = int(row["engine_own"])
    for one in cost.pools:
        name = one.name
        row[f"{name}_page_bytes"] = one.page_bytes
        row[f"{name}_page_padding_share"] = one.page_padding
        row[f"{name}_padding_bytes_per_token"] = one.padding_bytes_per_token
    for run in cost.runs:
        row[f"{run.pool}_runs"] = run.runs
        row[f"{run.pool}_run_bytes"] = run.useful_bytes
        row[f"{run.pool}_dram_efficiency"] = run.efficiency
    return row


def held_rows(cost: LayoutCost) -> list[dict[str, Any]]:
    """What a request holds, by pool, and the slack of shared blocks by group."""
    names = ("held_bytes", "useful_bytes", "padding_bytes", "partial_bytes", "slack_bytes")
    return [{"name": one.name, **{name: getattr(one, name) for name in names}} for one in cost.held]


def pool_rows(cost: LayoutCost) -> list[dict[str, Any]]:
    """Pages of every pool and the runs of its reads."""
    runs = {run.pool: run for run in cost.runs}
    rows = []
    for one in cost.pools:
        row: dict[str, Any] = {
            "pool": one.name,
            "layers": one.layers,
            "lives": one.lives,
            "page_tokens": one.page_tokens,
            "page_rows": one.page_rows,
            "row_bytes": one.row_bytes,
            "stride_bytes": one.stride_bytes,
            "page_bytes": one.page_bytes,
            "page_padding_share": one.page_padding,
            "padding_bytes_per_token": one.padding_bytes_per_token,
        }
        if one.name in runs:
            run = runs[one.name]
            row["reads"] = {
                "pattern": run.pattern,
                "runs": run.runs,
                "rows": run.rows,
                "run_bytes": run.useful_bytes,
                "run_span_bytes": run.span_bytes,
                "start_multiple_bytes": run.start_bytes,
                "dram_efficiency": run.efficiency,
            }
        rows.append(row)
    return rows
