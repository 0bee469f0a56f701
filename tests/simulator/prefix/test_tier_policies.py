"""Policies of single tiers: how they are written, laws, and rows that do not come back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.window_policy import parse_window_policies, parse_window_policy
from tests.simulator.prefix.made_traces import prompts
from tests.simulator.prefix.test_replay import SIZES, far_apart, replay

BLOCK = SIZES.page_tokens


def tiered(text):
    [policy] = parse_window_policies(text)
    return policy


def run(asked, text, capacities, **options):
    return replay(far_apart(asked), tiered(text), capacities, **options)


def test_as_written():
    names = [
        policy.name
        for policy in parse_window_policies("full,zero;hbm=full/dram=boundary+junction/nvme=zero")
    ]
    assert names == ["full", "zero", "hbm=full/dram=boundary+junction/nvme=zero"]
    mixed = tiered("hbm=full/dram=boundary+junction/nvme=zero")
    assert [mixed.of(name).name for name in ("hbm", "dram", "nvme", "remote")] == [
        "full", "boundary+junction", "zero", "zero",
    ]  # fmt: skip
    assert not mixed.everywhere
    assert tiered("hbm=full/dram=full").everywhere


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hbm=full/dram", "'dram' is no TIER=POLICY"),
        ("hbm=full/hbm=zero", "names tier 'hbm' twice"),
        ("hbm=ful", "unknown window policy 'ful'"),
    ],
)
def test_as_not_written(text, says):
    with pytest.raises(InputError, match=says):
        parse_window_policies(text)


def test_tiers_that_are_not_there_and_other_writes():
    with pytest.raises(InputError, match="unknown tier of a window policy 'disk'"):
        run([[0]], "hbm=full/disk=zero", [10**6, 10**6])
    with pytest.raises(InputError, match="written through"):
        run([[0]], "hbm=zero/dram=boundary", [10**6, 10**6], write="back")


@settings(max_examples=80)
@given(
    prompts(max_requests=15), st.sampled_from(["boundary", "periodic:64", "zero"]),
    st.lists(st.integers(2_000, 12_000), min_size=3, max_size=3),
)  # fmt: skip
def test_one_policy_for_every_tier_with_room_is_that_policy(asked, name, capacities):
    """First tokens of every prompt, where nothing leaves."""
    text = f"hbm={name}/dram={name}/nvme={name}"
    own, _ = run(asked, text, [10**9] * 3)
    plain, _ = replay(far_apart(asked), name, [10**9] * 3)
    assert own.ttft_ns.tolist() == plain.ttft_ns.tolist()
    small, _ = run(asked, text, capacities)
    assert small.loaded_tokens <= plain.loaded_tokens


KINDS = st.sampled_from(["full", "boundary", "periodic:64", "zero", "boundary+junction"])


@settings(max_examples=100)
@given(
    prompts(max_requests=15), st.lists(KINDS, min_size=3, max_size=3),
    st.lists(st.integers(1_000, 12_000), min_size=3, max_size=3),
)  # fmt: skip
def test_laws(asked, kinds, capacities):
    """Tokens add up, no tier is over its capacity, nothing is pinned or left behind."""
    text = "/".join(f"{t}={k}" for t, k in zip(("hbm", "dram", "nvme"), kinds, strict=True))
    totals, cache = run(asked, text, capacities)
    parts = totals.loaded_tokens + totals.recomputed_tokens + totals.computed_tokens
    assert parts == totals.input_tokens
    for tier in totals.tiers:
        assert 0 <= tier.end_bytes <= tier.peak_bytes <= tier.capacity_bytes
    for segment in cache.index:
        assert segment.pins == 0
        assert segment.children or segment.holders


def test_rows_do_not_come_back_from_a_tier_without():
    """A prompt of 40 pages leaves the device, which holds as many, and comes back as pages alone.

    A prompt that leaves it half way then finds its pages on the device, and no row that is live.
    """
    first, second = list(range(40)), list(range(100, 140))
    page = SIZES.page_bytes + BLOCK * SIZES.row_bytes
    room = [40 * page, 10**9]
    cut = first[:20]
    asked = [first, second, first, [*cut, 900]]
    kept, _ = run(asked[:1] + asked[3:], "hbm=full/dram=boundary", room)
    assert kept.loaded_tokens == 20 * BLOCK  # rows of any page of the first are live
    gone, _ = run(asked, "hbm=full/dram=boundary", room)
    back = 39 * BLOCK  # the third prompt, by the window that a checkpoint kept for it
    assert gone.loaded_tokens == back  # none for the fourth: its rows left with the pages
    assert parse_window_policy("full").everywhere
