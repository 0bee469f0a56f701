"""Sparse attention core: hand arithmetic, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.engine.profile import find_profile
from simulator.kernels.core_rates import core_rate
from simulator.kernels.family import check_families
from simulator.kernels.sparse_core import FAMILIES, padded_extra, two_lists
from tests.simulator.kernels.row_support import (
    CHIPS,
    check_laws,
    errors_of_rows,
    fitted,
    sized,
)

HEADER = "chip,engine,op,kernel,scores,model,batch,new_tokens,past_tokens,latency_us"
# Source: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
ROWS = (
    "h200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,2,512,16,103.9",
    "h200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,1,1536,10240,155.0",
    "h200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,8,1,4096,13.7",
    "h200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,2,64,512,23.5",
    "h200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,128,16,3072,393.4",
    "b200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,32,8,6144,59.9",
    "b200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,4,1024,12288,275.2",
    "b200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,4,2048,512,466.5",
    "b200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,16,8,64,33.4",
    "b200,vllm-0.24.0,hca_attention_core,FLASHMLA_SPARSE_DSV4,,v4-flash,4,4,128,21.2",
)
FAMILY = FAMILIES["sparse_core_flashmla"]
CONSTANTS = {
    "launch": 4e-6,
    "gather": 1e-6,
    "query_cycles": 8000.0,
    "vector_ops_per_clock": 1e12,
    "convert_cycles": 0.1,
}
RULE = next(k.core for k in find_profile("vllm-0.33").kernels if k.name == "core")
# Multiply-adds of a key for 64 heads at the BF16 rate of a core; 448 values converted beside.
MATRIX = 2 * 512 * 64 / core_rate(find_chip("h200"), "bf16").macs_per_clock
CONVERTED = np.hypot(MATRIX, 0.1 * 448)


def passing(queries, rows):
    """Seconds of 64 heads' queries and outputs in BF16, and rows of 584 bytes, from the L2."""
    return (queries * 64 * 512 * 4 + rows * 584) / find_chip("h200").llc_bandwidth_bytes_per_s


def call(**columns):
    return sized(FAMILY.name, **columns)


def parts_of(chip, constants, **columns):
    return two_lists(call(**columns), chip, constants, RULE, "bf16")


def test_families_are_registered():
    check_families(FAMILIES)


@pytest.mark.parametrize(("past", "new"), [(0, 1), (0, 127), (0, 128), (16000, 9000), (7, 40000)])
def test_compressed_ids_are_padded_row_by_row(past, new):
    ids = np.arange(past + 1, past + new + 1) // 128
    mean = (np.ceil(ids / 128) * 128).mean()
    assert padded_extra(*(np.array([float(n)]) for n in (past, new, 128)))[0] == pytest.approx(mean)


def test_hand_arithmetic_of_prefill():
    chip = find_chip("h200")
    parts = parts_of(chip, CONSTANTS, batch=3, new_tokens=88, past_tokens=1000)
    # 264 queries are two waves; 128 window keys and one padded block of compressed ids.
    tiles = 2 * (8000 + 256 * MATRIX) / 1.98e9
    # A request reads 215 rows of the window and 8 compressed ones.
    busy = np.hypot(3e-6 + tiles, passing(264, 3 * 223))
    assert parts.total[0] == pytest.approx(4e-6 + 3 * 1.37e-6 + busy)


def test_hand_arithmetic_of_decode():
    chip = find_chip("h200")
    parts = parts_of(chip, CONSTANTS, batch=2, new_tokens=1, past_tokens=1000)
    # Four blocks of 64 keys stay on one core; 128 + 7 rows a request.
    work = (8000 + 256 * CONVERTED) / 1.98e9
    assert parts.total[0] == pytest.approx(4e-6 + np.hypot(work, passing(2, 2 * 135)))


def test_long_rows_of_few_requests_are_split():
    chip = find_chip("h200")
    parts = parts_of(chip, CONSTANTS, batch=1, new_tokens=1, past_tokens=131072)
    # 18 blocks, in parts of five; 128 + 1,024 rows.
    work = (8000 + 5 * 64 * CONVERTED) / 1.98e9
    assert parts.total[0] == pytest.approx(4e-6 + np.hypot(work, passing(1, 1152)))


@given(
    chip=st.sampled_from(CHIPS),
    batch=st.integers(1, 1024),
    new=st.one_of(st.just(1), st.integers(2, 8192)),
    past=st.integers(0, 1 << 20),
)
def test_laws(chip, batch, new, past):
    spec = find_chip(chip)
    extra = max(0, past // 128)
    flops = batch * new * (min(past, 128) + extra) * 4 * 64 * 512
    moved = batch * new * 4 * 64 * 512
    cold = moved / spec.hbm_bandwidth_bytes_per_s if moved > 2 * spec.llc_bytes else 0.0
    least = max(cold, flops / spec.matrix_flops_per_s("bf16"))
    calls = call(batch=batch, new_tokens=new, past_tokens=past)
    check_laws(FAMILY, calls, spec, fitted(FAMILY.name, spec), least)


def test_carried_rows():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.1
    assert errors.max() < 0.4
