"""Pools that share blocks: published slack, proportions of cut pages, refusals."""

from __future__ import annotations

import pytest

from simulator.basis.errors import InputError
from simulator.capacity.block_fit import block_bytes
from simulator.engine.sizing_rules import BlockSizing
from simulator.layout.fragmentation import block_slack
from tests.simulator.layout.layout_cases import cut


def test_slack_of_one_block_size_in_vllm() -> None:
    slack = block_slack(cut(engine="vllm-0.33", grouping="engine"))
    # vLLM 0.33, Flash: 823,680, 786,240, 870,912 and 656,640 of 1,002,240 B.
    assert {name: round(100 * share) for name, share in slack.items()} == {
        "full": 0, "window 1": 18, "window 2": 22, "c4_states": 13, "c128_states": 34,
    }  # fmt: skip
    assert slack["window 1"] == 1 - 823_680 / 1_002_240
    assert slack["c128_states"] == 1 - 656_640 / 1_002_240


@pytest.mark.parametrize(
    ("grouping", "nbytes"), [("one-block", 1_002_240), ("buckets", 22 * 47_808)]
)
@pytest.mark.parametrize("engine", ["vllm-0.22", "vllm-0.33"])
def test_blocks_of_both_versions(engine: str, grouping: str, nbytes: int) -> None:
    found = cut(engine=engine, grouping=grouping)
    assert isinstance(found.layout.sizing, BlockSizing)
    assert block_bytes(found, found.layout.sizing) == nbytes


def test_pools_apart_have_no_slack() -> None:
    assert block_slack(cut(grouping="separate", engine="vllm-0.33")) == {}


def test_all_pools_keep_their_proportion_to_the_page() -> None:
    pages = {one.name: one.page_tokens for one in cut(512, engine="vllm-0.33").pools}
    assert pages == {
        "window": 128, "c4": 512, "c4_index": 512, "c128": 512,
        "c4_state": 8, "c4_index_state": 8, "c128_state": 16,
    }  # fmt: skip


def test_one_pool_alone() -> None:
    pages = {one.name: one.page_tokens for one in cut(1024, pool="c128").pools}
    assert (pages["c128"], pages["c4"], pages["window"]) == (1024, 256, 256)


def test_one_pool_cannot_leave_a_shared_block() -> None:
    with pytest.raises(InputError, match=r"shares blocks between pools.*--grouping separate"):
        cut(512, pool="c128", grouping="one-block")
    with pytest.raises(InputError, match="unknown grouping 'shared'"):
        cut(512, grouping="shared")
