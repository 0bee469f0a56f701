"""The tiered replay: laws of any policy, against the reference counting, and by hand."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.sourced import Sourced
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.hit import Extent, HitRule, LiveRows, Residency
from simulator.prefix.known_prefix import known_prefixes, mark_layer
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.reference import policy_hits
from simulator.prefix.replay import Replay, ReplayRules
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tier import load_tiers
from simulator.prefix.tiered_cache import CacheRules, TieredCache
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from simulator.prefix.write_policy import WRITE_POLICIES, find_write_policy
from tests.simulator.prefix.made_traces import prompts, trace_of
from tests.simulator.prefix.new_policy import add_powers_of_two

GEOMETRY = WindowGeometry(16, 5)
SIZES = CachedBytes(
    page_tokens=32, page_bytes=320, page_objects=3, window_bytes=200, overlap_bytes=40,
    checkpoint_objects=3, row_bytes=15,
)  # fmt: skip
POLICIES = ["full", "boundary", "periodic:64", "zero", "boundary+junction", "bounded:16"]
LARGE = 10**9


def tiers_of(*capacities):
    tiers = load_tiers("node")[: len(capacities)]
    return [
        tier.model_copy(
            update={"capacity": Sourced(value=size, unit="B", kind="guessed", note="test")}
        )
        for tier, size in zip(tiers, capacities, strict=True)
    ]


def prefill_ns(new, past):
    return 1_000 * new + new * (2 * past + new) // 100


def replay(
    trace,
    name,
    capacities,
    write="through",
    choose=False,
    share_link=False,
    share_writes=False,
    geometry=GEOMETRY,
    sizes=SIZES,
    tiers=None,
    **options,
):
    tiers = tiers_of(*capacities) if tiers is None else tiers
    policy = parse_window_policy(name) if isinstance(name, str) else name
    rules = CacheRules(
        policy=policy, geometry=geometry, sizes=sizes, write=find_write_policy(write), **options
    )
    cache = TieredCache(tiers, rules, trace.block_tokens)
    timer = RestoreTimer(
        tiers=tiers, sizes=sizes, layers=5, prefill_ns=prefill_ns, rows_with_pages=policy.everywhere
    )
    how = ReplayRules(
        choose=choose,
        share_link=share_link,
        share_writes=share_writes,
        token_ns=lambda context: 1_000,
    )
    return Replay(trace, cache, timer, how).run(), cache


def far_apart(asked, block=32):
    """Requests so far apart that each one is done before the next."""
    return trace_of(asked, block_tokens=block, arrival_s=np.arange(len(asked)) * 1_000.0)


@settings(max_examples=60)
@given(
    prompts(max_requests=15), st.sampled_from(POLICIES), st.sampled_from(sorted(WRITE_POLICIES)),
    st.lists(st.integers(1_000, 12_000), min_size=1, max_size=3), st.booleans(),
    st.sampled_from(["lru", "fifo", "cost", "ttl:2500"]),
)  # fmt: skip
def test_laws(asked, name, write, capacities, choose, eviction):
    """Tokens add up, no tier is over capacity, same run same result, index holds no garbage."""
    trace = far_apart(asked)
    options = {"page_eviction": eviction, "window_eviction": eviction}
    totals, cache = replay(trace, name, capacities, write, choose, **options)
    parts = totals.loaded_tokens + totals.recomputed_tokens + totals.computed_tokens
    assert parts == totals.input_tokens
    assert totals.computed_tokens >= totals.requests
    for tier in totals.tiers:
        assert 0 <= tier.end_bytes <= tier.peak_bytes <= tier.capacity_bytes
    assert sum(tier.loaded_tokens for tier in totals.tiers) == totals.loaded_tokens
    for segment in cache.index:
        assert segment.pins == 0
        assert segment.children or segment.holders
        held = sum(segment in store.pages for store in cache.stores)
        assert segment.holders >= held
    again, _ = replay(trace, name, capacities, write, choose, **options)
    assert again.ttft_ns.tolist() == totals.ttft_ns.tolist()
    assert (again.tiers, again.vetoed_tokens) == (totals.tiers, totals.vetoed_tokens)


@settings(max_examples=60)
@given(
    prompts(max_requests=15), st.sampled_from(POLICIES),
    st.sampled_from(["through", "selective"]),
    st.lists(st.integers(1_000, 12_000), min_size=1, max_size=3),
    st.sampled_from(["lru", "fifo", "ttl:2500"]),
)  # fmt: skip
def test_how_segments_are_cut_changes_nothing(asked, name, write, capacities, eviction):
    """Joining what evictions split is a matter of speed and memory alone."""
    trace = far_apart(asked)
    options = {"page_eviction": eviction, "window_eviction": eviction}
    joined, cache = replay(trace, name, capacities, write, **options)
    with patch(
        "simulator.prefix.tiered_cache.PrefixIndex", lambda block, joins: PrefixIndex(block)
    ):
        apart, shreds = replay(trace, name, capacities, write, **options)
    assert joined.tiers == apart.tiers
    assert joined.ttft_ns.tolist() == apart.ttft_ns.tolist()
    assert cache.index.segments <= shreds.index.segments


def test_a_cache_that_is_full_for_long_is_not_cut_to_shreds():
    """Two prompts of 64 blocks take turns in room for 65, with blocks of a third in between."""
    asked = []
    for turn in range(40):
        asked += [list(range(64)), list(range(100, 164)), [1000 + 10 * turn]]
    block = 320 + 32 * 15
    totals, cache = replay(far_apart(asked), "full", [65 * block, 200 * block])
    assert totals.tiers[0].peak_bytes == 65 * block
    # Two prompts, each of them in one piece or two a tier, and what is left of the third ones.
    assert cache.index.segments <= 4 + 200 - 128


def test_selective_writes_at_the_second_use_and_not_for_the_reply():
    """A reply stores its prompt once more, which is no use of it."""
    trace = trace_of([[1, 2], [1, 2, 3, 4]], block_tokens=32, lengths=[64, 128])
    follows = replace(
        trace,
        arrival_ns=np.array([0, -1]),
        delay_ns=np.array([0, 5_000]),
        output_tokens=np.array([33, 1]),
        parent=np.array([-1, 0]),
    )
    first, _ = replay(trace_of([[1, 2]], 32), "full", [LARGE, LARGE], "selective")
    assert first.tiers[1].written_bytes == 0
    totals, _ = replay(follows, "full", [LARGE, LARGE], "selective")
    # The second prompt hits three blocks, of which it uses 96 tokens.
    assert totals.loaded_tokens == 96
    assert totals.tiers[1].written_bytes == 3 * (320 + 32 * 15)


@given(prompts(max_requests=15), st.sampled_from(["full", "boundary", "periodic:64", "zero"]))
def test_with_room_for_all_it_is_the_reference_served(asked, name):
    trace = far_apart(asked)
    policy = parse_window_policy(name)
    layers = [layer for layer in (mark_layer(policy),) if layer]
    known = known_prefixes(trace, layers)
    # At least the last token is computed, and hits are whole granules of 32: one page less where
    # all of a prompt is known.
    inputs = trace.input_tokens
    served = replace(known, tokens=np.minimum(known.tokens, (inputs - 1) // 32 * 32))
    hits, _ = policy_hits(trace, served, policy, GEOMETRY)
    if name == "boundary":
        hits = hits_of_prompt_ends(asked, block_tokens=32)
    totals, _ = replay(trace, name, [LARGE])
    assert totals.loaded_tokens == sum(hits)


def hits_of_prompt_ends(asked, block_tokens):
    """A window at every prompt's end, and one page before it, where the prompt itself resumes."""
    ends, hits = set(), []
    for ids in asked:
        hits.append(max((n for n in range(len(ids)) if tuple(ids[:n]) in ends), default=0))
        ends |= {tuple(ids), tuple(ids[:-1])}
    return [block_tokens * n for n in hits]


@given(
    st.integers(1, 5_000), st.integers(1, 5), st.sampled_from([1, 16, 64, 128, 512]),
    st.sampled_from(["full", "boundary", "boundary+junction", "vllm:0", "sglang"]),
)  # fmt: skip
def test_an_equal_prompt_resumes_before_its_last_token(tokens, pages, block, name):
    """With room, all whole granules before the last token are hit, wherever the prompt ends."""
    granule = 32 * pages if name in ("full", "boundary", "boundary+junction") else 256 * pages
    ids = list(range(-(-tokens // block)))
    trace = trace_of([ids, ids, ids], block, lengths=[tokens] * 3, arrival_s=1_000.0 * np.arange(3))
    sizes = replace(SIZES, page_tokens=granule)
    totals, _ = replay(trace, name, [LARGE, LARGE], sizes=sizes)
    assert totals.loaded_tokens == 2 * ((tokens - 1) // granule * granule)
    assert totals.recomputed_tokens + totals.computed_tokens == 3 * tokens - totals.loaded_tokens


@pytest.mark.parametrize(("tokens", "windows"), [(128, 2), (127, 1), (129, 1), (100, 1), (32, 1)])
def test_what_a_prompt_leaves_is_counted(tokens, windows):
    """One that ends with a page leaves two windows of 240 bytes, at its end and a page before."""
    trace = trace_of([list(range(-(-tokens // 32)))], block_tokens=32, lengths=[tokens])
    totals, cache = replay(trace, "boundary", [LARGE])
    block = 320
    assert totals.tiers[0].written_bytes == -(-tokens // 32) * block + windows * 240
    assert cache.stores[0].windows.used == windows


def test_a_prompt_that_goes_on_hits_the_whole_one_before():
    """128 tokens, then 160 of which they are the first, then the first ones again."""
    asked = [list(range(4)), list(range(5)), list(range(4))]
    for name in ("boundary", "vllm:0"):
        sizes = replace(SIZES, page_tokens=32 if name == "boundary" else 256)
        block = 32 if name == "boundary" else 256
        totals, _ = replay(far_apart(asked, block), name, [LARGE], sizes=sizes)
        assert totals.loaded_tokens == (4 + 3) * block


def test_a_prompt_that_ends_within_a_block_serves_equal_and_longer_ones():
    """Blocks of 128 tokens, pages of 32: 250 tokens, the same, then 400 that share one block."""
    trace = trace_of(
        [[1, 2], [1, 2], [1, 3, 4, 5]], 128, [250, 250, 400], arrival_s=[0.0, 1_000.0, 2_000.0]
    )
    totals, cache = replay(trace, "boundary", [LARGE])
    assert totals.loaded_tokens == 224 + 128
    # Of the first prompt at 128 and 224, of the last one at 384.
    assert cache.stores[0].windows.used == 3


@pytest.mark.parametrize("block", [32, 128])
def test_a_junction_is_where_an_equal_prompt_could_resume(block):
    """Three times 128 tokens: the second finds no window and leaves one for the third."""
    totals, _ = replay(far_apart([list(range(128 // block))] * 3, block), "junction", [LARGE])
    assert totals.loaded_tokens == 96


@settings(max_examples=60)
@given(prompts(max_requests=15), st.lists(st.integers(500, 8_000), min_size=2, max_size=3))
def test_removing_a_tier_never_raises_hits_under_lru(asked, capacities):
    """Pages only, written through, least recently used: a larger whole holds more."""
    trace = far_apart(asked)
    sizes = sorted(capacities)
    more, _ = replay(trace, "full", sizes)
    fewer, _ = replay(trace, "full", sizes[:-1])
    assert fewer.loaded_tokens <= more.loaded_tokens


@given(prompts(max_requests=12), st.sampled_from(POLICIES))
def test_choosing_is_never_slower(asked, name):
    trace = far_apart(asked)
    always, _ = replay(trace, name, [400, LARGE])
    chosen, _ = replay(trace, name, [400, LARGE], choose=True)
    assert chosen.ttft_ns[0] == always.ttft_ns[0]
    assert (chosen.ttft_ns <= np.maximum(always.ttft_ns, chosen.uncached_ns)).all()


def test_a_reply_is_found_in_the_next_turn():
    trace = trace_of([[1, 2], [1, 2, 3, 4]], block_tokens=32, lengths=[64, 128])
    follows = replace(
        trace,
        arrival_ns=np.array([0, -1]),
        delay_ns=np.array([0, 5_000]),
        output_tokens=np.array([33, 1]),
        parent=np.array([-1, 0]),
    )
    totals, _ = replay(follows, "boundary", [LARGE])
    assert totals.loaded_tokens == 96
    first = prefill_ns(64, 0)
    second = prefill_ns(32, 96)
    assert totals.ttft_ns.tolist() == [first, second]
    assert totals.span_s == pytest.approx((first + 32 * 1_000 + 5_000 + second) / 1e9)


def test_write_policies_write_as_they_say():
    """One prompt, then one that pushes it out, then the first again."""
    trace = far_apart([[1, 2, 3], [10, 11, 12], [1, 2, 3]])
    block = 320 + 32 * 15
    expected = {"through": 6, "selective": 0, "back": 6, "on-eviction": 6}
    for write, blocks in expected.items():
        totals, _ = replay(trace, "full", [3 * block, LARGE], write)
        assert totals.tiers[1].written_bytes == blocks * block
    totals, _ = replay(trace, "full", [3 * block, LARGE], "on-eviction")
    assert totals.tiers[1].loaded_tokens == 64
    # The copy below went when its pages came back.
    assert totals.tiers[1].end_bytes == 3 * block


def test_a_slow_tier_loses_and_is_declined():
    """Two pages from a drive with 100 us of latency, against 64 tokens computed in 64 us."""
    trace = far_apart([[1, 2, 3], [10, 11, 12], [1, 2, 3]])
    block = 320 + 32 * 15
    room = [3 * block, 3 * block, LARGE]
    always, _ = replay(trace, "full", room)
    chosen, _ = replay(trace, "full", room, choose=True)
    assert (always.tiers[2].loaded_tokens, chosen.tiers[2].loaded_tokens) == (64, 0)
    assert always.ttft_ns[2] > always.uncached_ns[2] == prefill_ns(96, 0) == chosen.ttft_ns[2]
    assert (always.declined, chosen.declined) == (0, 1)
    # 2 pages of 3 objects, a window: one round of latency; the first layer computes after it.
    loaded_ns = 100_000 + (2 * 320 + 200 + 40) / 14
    assert always.ttft_ns[2] == round(loaded_ns + prefill_ns(32, 64) / 5)


def test_loads_wait_for_each_other_where_they_share_the_link():
    """Two equal prompts at once from the slower tier: the second waits for the first one's load."""
    asked = [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5]]
    trace = trace_of(asked, block_tokens=32, arrival_s=[0.0, 50.0, 50.0])
    apart, _ = replay(trace, "full", [300, LARGE])
    shared, _ = replay(trace, "full", [300, LARGE], share_link=True)
    load_ns = apart.loading_ns // 2
    assert load_ns > 0
    assert (apart.link_wait_ns, shared.link_wait_ns) == (0, load_ns)
    assert (shared.ttft_ns - apart.ttft_ns).tolist() == [0, 0, load_ns]


def test_writes_take_the_bandwidth_of_their_tier():
    """Three blocks of 800 bytes at 63 GB/s in 9 page objects, 8 at once: two latencies of 10 us."""
    totals, _ = replay(far_apart([[1, 2, 3]]), "full", [LARGE, LARGE])
    assert totals.tiers[1].written_bytes == 3 * 800
    assert totals.tiers[1].write_busy_s == pytest.approx(20e-6 + 2_400 / 63e9, abs=1e-9)
    assert totals.tiers[1].write_behind_s == totals.tiers[1].write_busy_s
    assert totals.tiers[0].write_busy_s == 0


def hit_of(prefix):
    rule = HitRule(policy=parse_window_policy("full"), geometry=GEOMETRY, granule_tokens=32)
    pages = [Extent(prefix, "nvme")]
    rows = LiveRows([(0, prefix, "nvme")], 16, 32)
    return rule.find(prefix + 1, Residency(known_tokens=prefix, compressed=pages, windows=rows))


def test_loads_overlap_layer_by_layer():
    """Five equal layers: nothing starts before its load, the longer of the two decides."""
    timer = RestoreTimer(
        tiers=tiers_of(LARGE, LARGE, LARGE), sizes=SIZES, layers=5, prefill_ns=prefill_ns
    )
    plan = timer.plan(hit_of(320))
    load, compute = plan.loading_ns / 5, plan.compute_ns / 5
    ready, done = 0.0, 0.0
    for _ in range(5):
        ready += load
        done = max(ready, done) + compute
    assert plan.ttft_ns == round(done)
    # 10 pages of 3 objects and a window of 3, 32 at once: two latencies of 100 us at the drive.
    assert (plan.load_bytes, plan.load_objects) == (10 * 320 + 200, 33)
    assert plan.latency_ns == 200_000
    assert plan.loading_ns == pytest.approx(200_000 + plan.load_bytes / 14, abs=1)
    apart = replace(timer, layer_by_layer=False).plan(hit_of(320))
    assert apart.ttft_ns == plan.loading_ns + plan.compute_ns > plan.ttft_ns


def test_a_period_off_the_granule_needs_the_page_that_it_ends_in():
    """Windows after 100 and 200 tokens; pages of 32: 192 of 256 tokens known, 100 restored."""
    trace = far_apart([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 9]])
    short = WindowGeometry(16, 6)
    totals, _ = replay(trace, "periodic:100", [LARGE, LARGE], geometry=short)
    # A replay would take 16 x 6 = 96 tokens, the way from the window is 92.
    assert (totals.loaded_tokens, totals.recomputed_tokens) == (100, 92)
    totals, _ = replay(trace, "periodic:100", [300, LARGE], geometry=short)
    assert totals.loaded_tokens == 100
    # All from the slower tier: 4 pages of 32 tokens cover 100; a window with its overlap rows.
    assert totals.tiers[1].read_bytes == 4 * 320 + 240


def test_periodic_windows_are_clipped_where_prompts_are_served():
    """16 x 5 = 80 tokens run again, though the last window is 96 back; engines go all the way."""
    trace = far_apart([list(range(5)), [*range(5), 9]], block=32)
    clipped, _ = replay(trace, "periodic:64", [LARGE])
    assert (clipped.loaded_tokens, clipped.recomputed_tokens, clipped.replays) == (128, 32, 0)
    trace = far_apart([list(range(7)), [*range(7), 9]], block=32)
    clipped, _ = replay(trace, "periodic:128", [LARGE])
    assert (clipped.loaded_tokens, clipped.recomputed_tokens, clipped.replays) == (144, 80, 1)
    trace = far_apart([list(range(15)), [*range(15), 9]], block=32)
    engine, _ = replay(trace, "vllm:256", [LARGE])
    assert (engine.loaded_tokens, engine.recomputed_tokens, engine.replays) == (256, 224, 0)


def test_a_replay_runs_with_the_new_tokens():
    """Whole: one prefill behind what is loaded. Trimmed: by the share of layers that run."""
    tiers = tiers_of(LARGE)
    timer = RestoreTimer(tiers=tiers, sizes=SIZES, layers=5, prefill_ns=prefill_ns)
    pages = Residency(known_tokens=640, compressed=[Extent(640, tiers[0].name)])
    plans = {}
    for name in ("zero", "zero:trimmed"):
        rule = HitRule(policy=parse_window_policy(name), geometry=GEOMETRY, granule_tokens=32)
        plans[name] = timer.plan(rule.find(700, pages))
    assert plans["zero"].hit.loaded_tokens == 640 - 80
    assert plans["zero"].compute_ns == prefill_ns(140, 560)
    # Rows of 16, 31, 46, 61 and 76 tokens from the top layer down; the top one is not run.
    work = plans["zero:trimmed"].hit.replay
    assert (work.tokens, work.token_layers) == (76, 16 + 31 + 46 + 61)
    added = (prefill_ns(136, 564) - prefill_ns(60, 640)) * work.token_layers / (76 * 5)
    assert plans["zero:trimmed"].compute_ns == prefill_ns(60, 640) + round(added)
    assert plans["zero:trimmed"].replay_ns == round(added)


def test_a_policy_that_is_added_scores_by_what_it_keeps(monkeypatch):
    """Windows after 32, 64, 128 and 256 of 288 tokens, pages of 32; below a page none."""
    add_powers_of_two(monkeypatch)
    asked = [list(range(9)), [*range(9), 20], [*range(7), 30], [*range(3), 40]]
    totals, cache = replay(far_apart(asked), "powers", [LARGE])
    assert totals.loaded_tokens == 256 + 128 + 64
    assert totals.recomputed_tokens == (288 - 256) + (224 - 128) + (96 - 64)
    # Of the first prompt nine; where the last two part from it, at the ends of 256 and 128 tokens.
    assert cache.stores[0].windows.used == 9 + 0 + 1 + 1
    assert cache.rules.policy.stores_windows
    # An engine of larger granules keeps windows at their ends alone: after 256 tokens, of the
    # first prompt and of the one that parts from it before.
    sizes = replace(SIZES, page_tokens=256)
    totals, cache = replay(far_apart(asked), "powers", [LARGE], sizes=sizes)
    assert (totals.loaded_tokens, cache.stores[0].windows.used) == (256, 2)


def test_the_reference_counts_a_policy_that_is_added(monkeypatch):
    add_powers_of_two(monkeypatch)
    trace = far_apart([list(range(9)), [*range(9), 20], [*range(7), 30], [*range(3), 40]])
    policy = parse_window_policy("powers")
    hits, _ = policy_hits(trace, known_prefixes(trace), policy, GEOMETRY)
    assert hits.tolist() == [0, 256, 128, 64]
