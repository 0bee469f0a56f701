"""Served prompts that come again hit to the last whole granule, however steps cut them."""

import json

import pytest

from simulator.serve.run import run_scenario
from simulator.serve.scenario import (
    FixedShape,
    PrefixCache,
    Scheduler,
    Speculation,
    Traffic,
)
from tests.simulator.serve.run_cases import scenario_of


def hits(tmp_path, tokens, step, **keys):
    """Tokens that the second of two equal prompts hits."""
    ids = list(range(-(-tokens // 512)))
    rows = [
        {"timestamp": at, "input_length": tokens, "output_length": 4, "hash_ids": ids}
        for at in (0, 60_000)
    ]
    path = tmp_path / "twice.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    scenario = scenario_of(
        parallel={"tp": 8},
        engine="vllm-0.33",
        traffic=Traffic(trace=str(path)),
        prefix_cache=PrefixCache(window_policy="vllm:0"),
        scheduler=Scheduler(step_tokens=step),
        **keys,
    )
    run = run_scenario(scenario)
    assert run.requests.column("input_tokens").tolist() == [tokens, tokens]
    return run.requests.column("hit_tokens").tolist()


@pytest.mark.parametrize("step", [512, 8192])
@pytest.mark.parametrize("tokens", [256, 257, 4096, 4097, 5000])
def test_an_equal_prompt_hits_its_granules(tmp_path, tokens, step):
    """floor((L - 1) / 256) 256; lengths are those of the trace."""
    assert hits(tmp_path, tokens, step) == [0, (tokens - 1) // 256 * 256]


def test_drafts_take_a_granule(tmp_path):
    """By the rule of vLLM's profile."""
    drafts = Speculation(draft_tokens=1, accepted=(1.8,))
    assert hits(tmp_path, 4097, 8192, speculation=drafts) == [0, 4096 - 256]


def test_a_shared_prefix_may_be_the_whole_prompt():
    """Lengths stay as asked; from the second request on all but the last granule is hit."""
    made = FixedShape(
        input_tokens=8192, output_tokens=1, requests=2, rate_per_s=0.01, shared_prefix_tokens=8192
    )
    scenario = scenario_of(
        parallel={"tp": 8},
        engine="vllm-0.33",
        traffic=Traffic(made=made),
        prefix_cache=PrefixCache(window_policy="vllm:0"),
    )
    log = run_scenario(scenario).requests
    assert log.column("input_tokens").tolist() == [8192, 8192]
    assert log.column("hit_tokens").tolist() == [0, 8192 - 256]
