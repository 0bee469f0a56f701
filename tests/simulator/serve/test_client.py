"""What benchmark tools send: lengths by their own definitions."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.serve.client import Aiperf, SglangBench, VllmBench
from simulator.serve.like import scenario_like
from simulator.serve.run import run_scenario
from simulator.serve.traffic import client_trace


def test_sglang_draws_with_the_legacy_generator_inputs_first() -> None:
    client = SglangBench(kind="sglang-bench", input_tokens=8192, output_tokens=1024, prompts=32)
    inputs, outputs = client.lengths()
    np.random.seed(1)
    assert inputs.tolist() == np.random.randint(1, 8193, 32).tolist()
    assert outputs.tolist() == np.random.randint(1, 1025, 32).tolist()


def test_a_ratio_means_what_each_tool_means_by_it() -> None:
    sglang = {
        ratio: SglangBench(kind="sglang-bench", input_tokens=1000, range_ratio=ratio).lengths()[0]
        for ratio in (0.0, 0.8, 1.0)
    }
    assert abs(sglang[0.0].mean() - 500) < 30
    assert sglang[0.8].min() >= 800
    assert set(sglang[1.0].tolist()) == {1000}
    vllm = {
        ratio: VllmBench(kind="vllm-bench", input_tokens=1000, range_ratio=ratio).lengths()[0]
        for ratio in (0.0, 0.5)
    }
    assert set(vllm[0.0].tolist()) == {1000}
    assert vllm[0.5].min() >= 500
    assert 1400 < vllm[0.5].max() <= 1500


def test_aiperf_is_normal_around_the_mean() -> None:
    exact = Aiperf(kind="aiperf", input_tokens=550, prompts=10)
    assert set(exact.lengths()[0].tolist()) == {550}
    spread = Aiperf(kind="aiperf", input_tokens=550, input_stddev=100, prompts=1000)
    assert abs(spread.lengths()[0].std() - 100) < 10
    assert spread.lengths()[0].min() >= 1


def test_prompts_share_no_prefix_and_arrive_by_the_loop() -> None:
    closed = client_trace(SglangBench(kind="sglang-bench", prompts=20, concurrency=4))
    assert (closed.arrival_ns < 0).all()
    ends = closed.run_first + closed.run_count
    assert (closed.run_first[1:] == ends[:-1]).all()
    at_once = client_trace(SglangBench(kind="sglang-bench", prompts=20))
    assert set(at_once.arrival_ns.tolist()) == {0}
    rate = VllmBench(kind="vllm-bench", prompts=2000, rate_per_s=10.0)
    assert client_trace(rate).arrival_ns[-1] == pytest.approx(200e9, rel=0.1)


def test_like_serves_the_tool_s_prompts() -> None:
    scenario = scenario_like(
        "sglang-bench",
        model="v4-flash",
        chip="b200",
        count=4,
        input_tokens=512,
        output_tokens=64,
        concurrency=4,
        prompts=12,
    )
    run = run_scenario(scenario)
    assert run.requests.finished.all()
    assert run.trace.input_tokens.tolist() == scenario.traffic.client.lengths()[0].tolist()  # type: ignore[union-attr]


def test_bad_command_lines_are_sentences() -> None:
    asked = {"model": "v4-flash", "chip": "b200"}
    with pytest.raises(InputError, match="benchmark client 'wrk'"):
        scenario_like("wrk", **asked)
    with pytest.raises(InputError, match="dp 3 does not divide the 4 chips"):
        scenario_like("vllm-bench", count=4, dp=3, **asked)
    with pytest.raises(InputError, match="aiperf has no range ratio"):
        scenario_like("aiperf", range_ratio=0.5, **asked)
    with pytest.raises(InputError, match="either rate_per_s"):
        scenario_like("vllm-bench", concurrency=4, rate_per_s=1.0, **asked)
