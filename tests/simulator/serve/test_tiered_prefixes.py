"""The prefix cache of a replica: equal prompts, and prompts that go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tiered_cache import CacheRules
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from simulator.prefix.write_policy import find_write_policy
from simulator.serve.live_request import LiveRequest
from simulator.serve.prefix_source import Served
from simulator.serve.run import run_scenario
from simulator.serve.scenario import Parallel, PrefixCache, Scenario, Traffic
from simulator.serve.tiered_prefixes import TieredPrefixes, TraceRuns, device_tier, tiered_prefixes
from tests.simulator.prefix.made_traces import trace_of
from workloads.traffic.trace import Trace

SIZES = CachedBytes(
    page_tokens=128, page_bytes=1280, page_objects=3, window_bytes=200, overlap_bytes=40,
    checkpoint_objects=3, row_bytes=15,
)  # fmt: skip
ROOM = 10**9


def prefixes_of(trace: Trace, policy: str, granule: int) -> TieredPrefixes:
    rules = CacheRules(
        policy=parse_window_policy(policy),
        geometry=WindowGeometry(16, 5),
        sizes=replace(SIZES, page_tokens=granule),
        write=find_write_policy("through"),
    )
    timer = RestoreTimer(
        tiers=[device_tier(ROOM)], sizes=rules.sizes, layers=5, prefill_ns=lambda new, past: new
    )
    return tiered_prefixes(TraceRuns(trace), rules, (), timer, ROOM)


def served(source: TieredPrefixes, index: int, tokens: int) -> Served:
    request = LiveRequest(index=index, arrival_ns=index, input_tokens=tokens, output_tokens=1)
    found = source.find(request, index)
    source.answered(request, index)
    source.store(request, index)
    return found


@given(
    st.integers(1, 5_000), st.sampled_from([1, 16, 64, 128, 512]),
    st.sampled_from(["full", "boundary", "boundary+junction", "vllm:0", "sglang"]),
    st.integers(1, 3),
)  # fmt: skip
def test_an_equal_prompt_hits_up_to_its_last_token(
    tokens: int, block: int, policy: str, pages: int
) -> None:
    """Whole granules before the last token, which is computed; all of them on the device."""
    granule = 256 * pages
    ids = list(range(-(-tokens // block)))
    source = prefixes_of(trace_of([ids, ids], block, [tokens] * 2), policy, granule)
    expected = (tokens - 1) // granule * granule
    assert served(source, 0, tokens) == Served()
    assert served(source, 1, tokens) == Served(expected, 0, expected)


@pytest.mark.parametrize(("tokens", "hit"), [(4_096, 3_840), (4_097, 4_096)])
def test_a_prompt_that_is_sent_again(tmp_path: Path, tokens: int, hit: int) -> None:
    """vLLM hits granules of 256 tokens: of 4,096 all but the last, of 4,097 all that are whole."""
    ids = list(range(-(-tokens // 512)))
    path = tmp_path / "again.jsonl"
    row = {"input_length": tokens, "output_length": 10, "hash_ids": ids}
    path.write_text("".join(json.dumps({"timestamp": t, **row}) + "\n" for t in (0, 60_000)))
    scenario = Scenario(
        name="again",
        model="v4-flash",
        chip="h200",
        parallel=Parallel(tp=8),
        engine="vllm-0.33",
        fidelity="roofline",
        traffic=Traffic(trace=str(path)),
        prefix_cache=PrefixCache(window_policy="vllm:0"),
    )
    found = run_scenario(scenario)
    assert found.requests.column("hit_tokens").tolist() == [0, hit]
    assert np.all(found.requests.column("input_tokens") == tokens)
