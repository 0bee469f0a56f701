"""Texts, rows and figures of a layout sweep."""

from __future__ import annotations

from functools import cache

import pytest

from reports.layout_page import CAPTIONS, layout_figures, tables
from reports.layout_rows import flat_row, sweep_json
from reports.layout_text import Cuts, cut_table, cuts_of, layout_answer, own_tokens
from simulator.layout.sweep import LayoutCost, sweep
from simulator.layout.sweep_request import AskedSweep, ask_sweep


@cache
def swept(
    engine: str, pool: str = "all", pages: str = "128,192,256,4096"
) -> tuple[AskedSweep, tuple[LayoutCost, ...], Cuts]:
    asked = ask_sweep(
        model="v4-flash", chip="h200", engine=engine, pool=pool, pages=pages,
        paddings="engine,row:64,row:576", groupings=None, mix="1-9000:4", neighbours=0.0,
        context=8192, in_flight=1, budget_gib=10.0, count=8, tp=None, dp=8, ep=8,
        kv_dtype=None, index_dtype=None,
    )  # fmt: skip
    costs = tuple(sweep(asked.question, asked.points, None))
    return asked, costs, cuts_of(asked, costs)


def test_cuts_go_through_the_engines_page() -> None:
    _, costs, cuts = swept("sglang-0.5")
    assert len(costs) == 1 + 4 * 3 * 3
    assert [cost.page_tokens for cost in cuts.pages] == [128, 192, 256, 4096]
    assert {cost.page_tokens for cost in (*cuts.paddings, *cuts.groupings)} == {256}
    assert [cost.point.padding.name for cost in cuts.paddings] == ["engine", "row:64", "row:576"]
    assert [cost.point.grouping for cost in cuts.groupings] == ["separate", "buckets", "one-block"]


def test_answer_sets_128_beside_the_engines_own() -> None:
    asked, _, cuts = swept("sglang-0.5")
    text = layout_answer(asked, cuts)
    assert "128 tokens, lcm(4, 128)" in text
    assert "as it is, with pages of 256 tokens, a hit loses 127.5 tokens" in text
    assert "at 4,096 tokens a hit loses 2,047.5 tokens" in text


def test_answer_names_ascends_longer_pages() -> None:
    asked, _, cuts = swept("ascend")
    text = layout_answer(asked, cuts)
    assert "as it is, with pages of 128 tokens, 2,048 of c128, a hit loses 1,023.5" in text
    marked = [row[0] for row in cut_table(asked, cuts).rows if "engine's" in row[0]]
    assert marked == []


def test_engine_of_128_tokens_is_not_compared_with_itself() -> None:
    asked, _, cuts = swept("trtllm-1.3")
    assert "as it is" not in layout_answer(asked, cuts)
    assert "page 128 = lcm(4, 128) (engine's)" in {row[0] for row in cut_table(asked, cuts).rows}


def test_one_pool_marks_its_own_page() -> None:
    _, _, cuts = swept("ascend", pool="c128", pages="128,2048")
    assert own_tokens(cuts) == 2048


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33", "ascend"])
def test_tables_have_a_cell_a_heading(engine: str) -> None:
    asked, _, cuts = swept(engine)
    for table in tables(asked, cuts):
        assert {len(row) for row in table.rows} == {len(table.headings)}


def test_figures_show_every_page_and_mark_128() -> None:
    asked, costs, cuts = swept("sglang-0.5")
    figures = layout_figures(asked, costs, cuts)
    assert set(figures) == set(CAPTIONS) - ({"step"} if costs[0].step_ps is None else set())
    for figure in figures.values():
        assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [128, 256]
        for trace in figure["data"]:
            assert trace["x"] == [128, 192, 256, 4096]
            fill = trace["marker"]["color"]
            assert [color == "#ffffff" for color in fill] == [False, True, False, False]
    lost = figures["hits"]["data"][0]["y"]
    assert lost == [63.5, 191.5, 127.5, 2047.5]


def test_rows_agree() -> None:
    asked, costs, _ = swept("vllm-0.33")
    data = sweep_json(asked, costs)
    assert data["question"]["step"]["batch"] == 4
    for cost, point in zip(costs, data["points"], strict=True):
        flat = flat_row(cost)
        assert flat["padding_share"] == point["padding_share"]
        assert sum(one["held_bytes"] for one in point["held"]) == pytest.approx(
            point["request_held_bytes"]
        )
        assert "step_ps" not in flat
