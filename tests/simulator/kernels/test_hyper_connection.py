"""Hyper-connection kernels: hand arithmetic, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.family import check_families
from simulator.kernels.hyper_connection import FAMILIES
from tests.simulator.kernels.row_support import CHIPS, check_laws, errors_of_rows, fitted, sized

HEADER = "chip,engine,op,kernel,num_sites,hc_mult,hidden_size,num_tokens,latency_us"
# Source: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
ROWS = (
    "h200,vllm-0.24.0,mhc_post,x,2,4,4096,96,6.7",
    "h200,trtllm-1.3.0rc20,mhc_post,x,2,4,7168,64,10.4",
    "h200,sglang-0.5.14,mhc_post,x,2,4,7168,3072,197.2",
    "b200,sglang-0.5.14,mhc_post,x,2,4,4096,49152,1061.7",
    "b200,sglang-0.5.14,mhc_post,x,2,4,7168,512,24.6",
    "b200,vllm-0.24.0,mhc_pre,x,2,4,4096,20480,617.7",
    "h200,trtllm-1.3.0rc20,mhc_pre,x,2,4,4096,192,42.5",
    "h200,sglang-0.5.14,mhc_pre,x,2,4,4096,64,18.4",
    "h200,trtllm-1.3.0rc20,mhc_pre,x,2,4,7168,1024,105.0",
    "b200,sglang-0.5.14,mhc_pre,x,2,4,7168,8192,365.2",
)


VECTOR = find_chip("h200").vector_flops_per_s * 1.98e9 / find_chip("h200").peak_clock_hz


def call(name, tokens=1, hidden=4096, sites=2, iterations=20):
    return sized(
        name,
        num_tokens=tokens,
        hidden_size=hidden,
        hc_mult=4,
        num_sites=sites,
        sinkhorn_iters=iterations,
    )


def test_families_are_registered():
    check_families(FAMILIES)


def test_hand_arithmetic_of_a_cold_expansion():
    chip = find_chip("h200")
    constants = {"start_us": 2.0, "chunk_us": 0.5, "dram_share": 0.8}
    parts = FAMILIES["mhc_post_tilelang"].parts(call("mhc_post_tilelang", 65536), chip, constants)
    # Nine streams of 65,536 x 4,096 x 2 bytes; four chunks of 1,024 values.
    site = 2e-6 + 4 * 0.5e-6 + 9 * 65536 * 4096 * 2 / (4.8e12 * 0.8)
    # Ten operations a value of the four streams run beside, and lengthen it a little.
    spent, worked = 9 * 65536 * 4096 * 2 / (4.8e12 * 0.8), 65536 * 4 * 4096 * 10 / VECTOR
    site += np.hypot(spent, worked) - spent
    assert parts.total[0] == pytest.approx(2 * site, rel=1e-3)
    assert parts.dominant == ["dram_bandwidth"]


def test_hand_arithmetic_of_a_cold_mixing_product():
    chip = find_chip("h200")
    constants = {
        "start_us": 7.0,
        "chunk_us": 0.5,
        "core_bytes_per_clock": 10.0,
        "dram_share": 0.8,
    }
    parts = FAMILIES["mhc_pre_tilelang"].parts(
        call("mhc_pre_tilelang", 12288, 7168, 1), chip, constants
    )
    # 192 tiles of 64 tokens over 132 cores: two waves, each at a core's rate.
    wave = 64 * 4 * 7168 * 2 / (10 * 1.98e9)
    collapse = 5 * 12288 * 7168 * 2 / (4.8e12 * 0.8)
    assert parts.seconds["matrix"][0] == pytest.approx(2 * wave)
    # Sigmoids, softmax and 20 Sinkhorn steps of a token one after another: 1,520 operations.
    gates = 1520 / 1.98e9
    rest = 7e-6 + 7 * 0.5e-6 + 2 * wave + collapse + gates
    assert parts.total[0] == pytest.approx(rest + parts.seconds["vector"][0])
    assert parts.seconds["vector"][0] < 0.02 * rest


def test_few_tiles_are_split_until_the_cores_are_full():
    chip = find_chip("h200")
    constants = {
        "start_us": 7.0,
        "chunk_us": 0.5,
        "core_bytes_per_clock": 5.0,
        "dram_share": 0.8,
    }
    family = FAMILIES["mhc_pre_tilelang"]
    half, whole = (
        family.parts(call(family.name, tokens), chip, constants).seconds["matrix"][0]
        for tokens in (4224, 8448)
    )
    # 66 tiles go in two pieces each, 132 tiles in one: both fill every core once.
    assert whole == pytest.approx(2 * half)


def test_tensorrt_takes_the_vector_kernel_only_for_few_tokens():
    chip = find_chip("h200")
    family = FAMILIES["mhc_pre_trtllm"]
    constants = fitted(family.name, chip)
    causes = [
        family.parts(call(family.name, n), chip, constants).seconds["serial"][0] for n in (4, 1024)
    ]
    gates = 2 * 1520 / 1.98e9
    assert causes[0] == pytest.approx(gates)
    assert causes[1] == pytest.approx(2 * constants["split_us"] * 1e-6 + gates)


def test_sinkhorn_steps_follow_one_another():
    family, chip = FAMILIES["mhc_pre_tilelang"], find_chip("h200")
    constants = fitted(family.name, chip)
    few, many = (
        family.parts(call(family.name, iterations=n), chip, constants).total[0] for n in (20, 200)
    )
    # 180 more, each two sums and two products of 16 values and eight reciprocals, at both sites.
    assert many - few == pytest.approx(2 * 180 * (64 + 8) / 1.98e9, rel=1e-6)


@given(
    family=st.sampled_from(sorted(FAMILIES)),
    chip=st.sampled_from(CHIPS),
    tokens=st.integers(1, 200_000),
    hidden=st.sampled_from([1024, 4096, 7168]),
)
def test_laws(family, chip, tokens, hidden):
    spec = find_chip(chip)
    # The cache serves what it can hold at best; the rest crosses the memory interface once.
    streams = 9 if "post" in family else 5
    bytes_moved = 2 * max(streams * tokens * hidden * 2 - spec.llc_bytes, 0)
    least = bytes_moved / spec.hbm_bandwidth_bytes_per_s
    check_laws(FAMILIES[family], call(family, tokens, hidden), spec, fitted(family, spec), least)


@given(
    family=st.sampled_from(sorted(FAMILIES)),
    tokens=st.integers(1, 100_000),
    more=st.integers(1, 1000),
)
def test_more_tokens_never_take_less(family, tokens, more):
    chip = find_chip("b200")
    constants = fitted(family, chip)
    less, greater = (
        FAMILIES[family].parts(call(family, n), chip, constants).total[0]
        for n in (tokens, tokens + more)
    )
    assert greater >= less * (1 - 1e-12)


def test_carried_rows_are_met():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.06
    assert max(errors) < 0.25
