"""Reference counting: by hand, against all-pool hits, and on the real trace."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.hit import Checkpoints, Extent, HitRule, LiveRows, Residency
from simulator.prefix.known_prefix import known_prefixes, mark_layer, marked_boundary
from simulator.prefix.reference import capacity_counts, policy_hits, reference_counts
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policies, parse_window_policy
from tests.simulator.prefix.made_traces import prompts, trace_of

PRO, FLASH = WindowGeometry(128, 61), WindowGeometry(128, 43)
TRACES = os.environ.get("V4SIM_TRACES")


def test_by_hand():
    """Blocks of 100 tokens; the second prompt ends within its last block."""
    trace = trace_of(
        [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 2, 9]],
        block_tokens=100,
        lengths=[300, 450, 450, 280],
    )
    policies = parse_window_policies("full,periodic:200,boundary,zero,bounded:60,vllm:0")
    counts = reference_counts(trace, policies, WindowGeometry(10, 10), [300])
    hits = {count.policy: count.hit_tokens for count in counts.policies}
    assert hits["full"] == 300 + 450 + 200
    assert hits["periodic:200"] == 200 + 400 + 200
    # Prompt ends 300, 400, 400; the last prompt leaves before any of them.
    assert hits["boundary"] == 300 + 400 + 0
    assert hits["zero"] == 200 + 350 + 100
    assert hits["bounded:60"] == 240 + 390 + 140
    # In whole blocks, then granules of 256.
    assert hits["vllm:0"] == 256 + 256 + 0
    assert counts.input_tokens == 1_480
    assert counts.known_blocks == 3 + 5 + 2
    assert counts.distinct_blocks == 6
    served = {count.policy: count.served_hit_tokens for count in counts.policies}
    assert served["full"] == 300 + 449 + 200
    [lru] = counts.capacities
    assert (lru.capacity_blocks, lru.peak_blocks) == (3, 3)
    assert lru.hit_blocks == 3 + 3 + 2
    assert lru.hit_tokens == 300 + 300 + 200


def test_windows_that_are_kept():
    """Prompts of 300, 500 and 500 tokens, the second goes on from the first, the third is it."""
    trace = trace_of([[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 9]], block_tokens=100)
    policies = parse_window_policies("full,periodic:200,boundary,zero,boundary+junction")
    found = reference_counts(trace, policies, PRO, count_windows=True)
    counts = {one.policy: one for one in found.policies}
    assert counts["periodic:200"].windows == 1 + 1 + 0 + 1
    assert counts["boundary"].windows == 1 + 1 + 0 + 1
    assert counts["boundary+junction"].windows == 1 + 1 + 0 + 2
    assert counts["zero"].windows == counts["full"].windows == 0
    assert counts["full"].row_tokens == 300 + 200 + 0 + 100


def test_a_junction_serves_the_third_prompt_that_parts_there():
    trace = trace_of([[1, 2, 3, 4], [1, 2, 7], [1, 2, 8]], block_tokens=256)
    known = known_prefixes(trace, [mark_layer(parse_window_policy("vllm:0"))])
    hits, _ = policy_hits(trace, known, parse_window_policy("vllm:0"), PRO)
    assert hits.tolist() == [0, 0, 512]


def test_marks_are_cut_to_blocks_then_granules():
    assert marked_boundary(7_000, 512, 256) == 6_656
    assert marked_boundary(7_000, 512, 768) == 6_144
    assert marked_boundary(7_000, 64, 256) == 6_912
    assert marked_boundary(300, 512, 1) == 0


@given(prompts(), st.sampled_from(["full", "periodic:384", "boundary", "zero", "bounded:200"]))
def test_the_count_is_that_of_all_pool_hits(asked, name):
    """With everything resident, in blocks of 128 tokens that need no rounding."""
    geometry = WindowGeometry(16, 9)
    trace, policy = trace_of(asked, block_tokens=128), parse_window_policy(name)
    layers = [layer for layer in (mark_layer(policy),) if layer]
    known = known_prefixes(trace, layers)
    hits, _ = policy_hits(trace, known, policy, geometry)
    rule = HitRule(policy=policy, geometry=geometry, whole_prompt=True)
    ends: set[tuple[int, ...]] = set()
    for request, ids in enumerate(asked):
        run = int(known.tokens[request])
        kept = [n * 128 for n in range(1, len(ids) + 1) if tuple(ids[:n]) in ends]
        windows = {
            "full": LiveRows([(0, run, "hbm")], 16, 128),
            "periodic": Checkpoints(dict.fromkeys(range(384, run + 1, 384), "hbm")),
            "boundary": Checkpoints(dict.fromkeys(kept, "hbm")),
        }.get(name.partition(":")[0], Checkpoints({}))
        pages = [Extent(run, "hbm")] if run else []
        found = rule.find(
            len(ids) * 128, Residency(known_tokens=run, compressed=pages, windows=windows)
        )
        assert found.loaded_tokens == hits[request]
        ends.add(tuple(ids))


@given(prompts())
def test_order_of_policies(asked):
    """Full is the most; a sum is at least each of its parts; served is at most whole."""
    trace = trace_of(asked, block_tokens=512)
    names = "full,periodic:1024,boundary,periodic:1024+boundary,zero,periodic:1024+zero"
    counts = reference_counts(trace, parse_window_policies(names), FLASH, [512, 4_096])
    hits = {count.policy: count.hit_tokens for count in counts.policies}
    assert max(hits.values()) == hits["full"] <= counts.input_tokens
    for whole in ("periodic:1024+boundary", "periodic:1024+zero"):
        assert hits[whole] >= max(hits[part] for part in whole.split("+"))
    assert all(0 <= count.served_hit_tokens <= count.hit_tokens for count in counts.policies)
    assert counts == reference_counts(trace, parse_window_policies(names), FLASH, [512, 4_096])


def test_a_trace_without_ids_is_refused():
    trace = trace_of([[1]], block_tokens=0, lengths=[10])
    with pytest.raises(InputError, match="has no block ids"):
        reference_counts(trace, parse_window_policies("full"), PRO)


def test_a_pool_smaller_than_a_block_is_refused():
    with pytest.raises(InputError, match="holds no block of 512 tokens: give at least 512"):
        capacity_counts(trace_of([[1]], block_tokens=512), "lru", [511])


@pytest.fixture(scope="module")
def mooncake():
    if not TRACES:
        pytest.skip("V4SIM_TRACES names no folder of real traces")
    from workloads.traffic.readers import read_trace

    return read_trace(Path(TRACES) / "mooncake_conversation.jsonl.gz")


POLICY_PERCENT = {
    "full": 37.36,
    "periodic:512": 37.34,
    "periodic:2048": 32.10,
    "periodic:8192": 23.97,
    "periodic:32768": 8.28,
    "boundary": 34.97,
    "periodic:4096+boundary": 36.67,
}
LRU_PERCENT = {0.3: 4.3, 1: 5.4, 3: 13.9, 10: 29.1, 30: 36.6, 100: 37.4}


def test_published_counts_of_mooncake(mooncake):
    policies = parse_window_policies(",".join([*POLICY_PERCENT, "zero"]))
    counts = reference_counts(mooncake, policies, PRO)
    assert counts.requests == 12_031
    assert counts.blocks == 288_500
    assert counts.distinct_blocks == 182_790
    percent = {c.policy: 100 * c.hit_tokens / counts.input_tokens for c in counts.policies}
    for name, expected in {**POLICY_PERCENT, "zero": 18.12}.items():
        assert percent[name] == pytest.approx(expected, abs=0.05)
    assert 100 * counts.known_blocks / counts.blocks == pytest.approx(36.64, abs=0.05)
    flash = reference_counts(mooncake, parse_window_policies("zero"), FLASH).policies[0]
    assert 100 * flash.hit_tokens / counts.input_tokens == pytest.approx(21.53, abs=0.05)


def test_lru_counts_of_mooncake(mooncake):
    sizes = [round(million * 1e6) for million in LRU_PERCENT]
    total = int(mooncake.input_tokens.sum())
    lru = capacity_counts(mooncake, "lru", sizes)
    for count, expected in zip(lru, LRU_PERCENT.values(), strict=True):
        assert 100 * count.hit_tokens / total == pytest.approx(expected, abs=0.3)
    best = capacity_counts(mooncake, "belady", sizes)
    fifo = capacity_counts(mooncake, "fifo", sizes[:3])
    for bound, one in zip(best, lru, strict=True):
        assert bound.hit_blocks >= one.hit_blocks
    for bound, one in zip(best, fifo, strict=False):
        assert bound.hit_blocks >= one.hit_blocks


@pytest.mark.parametrize(("rows", "percent"), [(1_000, 21.6), (2_000, 29.4), (5_000, 33.9)])
def test_excerpts_of_mooncake(mooncake, rows, percent):
    from dataclasses import replace

    runs = int(mooncake.run_offsets[rows])
    excerpt = replace(
        mooncake,
        arrival_ns=mooncake.arrival_ns[:rows],
        input_tokens=mooncake.input_tokens[:rows],
        run_offsets=mooncake.run_offsets[: rows + 1],
        run_first=mooncake.run_first[:runs],
        run_count=mooncake.run_count[:runs],
    )
    hits = known_prefixes(excerpt).tokens.sum()
    assert 100 * hits / np.sum(excerpt.input_tokens) == pytest.approx(percent, abs=0.05)
