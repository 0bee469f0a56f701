"""Index logits: hand arithmetic, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.family import check_families
from simulator.kernels.index_logits import (
    FAMILIES,
    FLOPS_PER_PAIR,
    KEY_BYTES,
    _tokens_at,
    _units_before,
)
from tests.simulator.kernels.attention_support import (
    CHIPS,
    check_laws,
    errors_of_rows,
    fitted,
    one,
)

HEADER = "chip,engine,op,kernel,scores,model,batch,new_tokens,past_tokens,latency_us"
# Source: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
ROWS = (
    "h200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,1,8192,8192,548.014",
    "h200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,128,8,0,9.854",
    "h200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,1,256,262144,334.186",
    "h200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,4,64,8192,15.2",
    "h200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,2,1,64,3.9",
    "h200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,32,64,2048,40.2",
    "b200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,16,512,16384,383.003",
    "b200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,32,32,32,8.236",
    "b200,sglang-0.5.14,indexer_logits,deep_gemm.fp8_paged_mqa_logits,,v4-flash,8,256,16,12.356",
    "b200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,4,8,256,6.6",
    "b200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,1,3072,3072,51.7",
    "b200,vllm-0.24.0,indexer_logits,vllm.utils.deep_gemm.fp8_fp4_paged_mqa_logits,,v4-flash,64,64,8192,125.8",
)


def test_families_are_registered():
    check_families(FAMILIES)


def test_units_of_rows_count_256_keys_each():
    tokens = np.arange(1, 6000)
    direct = np.cumsum(np.maximum(1, np.ceil(tokens // 4 / 256)))
    assert np.array_equal(_units_before(tokens.astype(float)), direct)
    back = _tokens_at(_units_before(tokens.astype(float)))
    assert np.abs(back - tokens).max() < 3


def test_hand_arithmetic_of_one_decode_row():
    chip = find_chip("h200")
    constants = {"launch": 3e-6, "key_cycles": 5.0, "row_cycles": 400.0}
    calls = one(batch=264, new_tokens=1, past_tokens=1023)
    parts = FAMILIES["index_logits_sglang"].parts(calls, chip, constants)
    # 264 rows of one unit over 132 cores: 2 units and 2 rows a core; the launch covers one begin.
    busy = (2 * 256 * 5.0 + 400.0) / 1.98e9
    # Beside it 256 keys of 132 bytes, scores and 64 heads of 132 bytes a row come from the cache.
    memory = 264 * (256 * 132 + 1023.5 + 64 * 132) / 9.666e12
    assert parts.total[0] == pytest.approx(3e-6 + (busy**2 + memory**2) ** 0.5)


def test_short_rows_crowd_the_first_core():
    family, chip = FAMILIES["index_logits_sglang"], find_chip("b200")
    constants = fitted(family.name, chip)
    ramp = family.parts(one(batch=1, new_tokens=8192, past_tokens=0), chip, constants)
    assert ramp.seconds["vector"][0] > ramp.seconds["matrix"][0] / 2


def test_scan_of_the_scheduler_grows_with_the_square_of_rows():
    family, chip = FAMILIES["index_logits_vllm"], find_chip("h200")
    constants = {**fitted(family.name, chip), "row_cycles": 1e-3, "key_cycles": 1e-3}
    times = [
        family.parts(one(batch=n, new_tokens=132, past_tokens=0), chip, constants) for n in (16, 32)
    ]
    small, large = (t.seconds["serial"][0] for t in times)
    assert large == pytest.approx(4 * small, rel=1e-3)


@given(
    chip=st.sampled_from(CHIPS),
    name=st.sampled_from(sorted(FAMILIES)),
    batch=st.integers(1, 1024),
    new=st.integers(1, 16384),
    past=st.integers(0, 1 << 20),
)
def test_laws(chip, name, batch, new, past):
    spec, family = find_chip(chip), FAMILIES[name]
    calls = one(batch=batch, new_tokens=new, past_tokens=past)
    pairs = batch * new * max(0, past / 4 + new / 8 - 1)
    work = pairs * FLOPS_PER_PAIR / spec.matrix_flops_per_s("fp8")
    keys = batch * (past + new) / 4 * KEY_BYTES + 4 * pairs
    cold = keys / spec.hbm_bandwidth_bytes_per_s if keys > 2 * spec.llc_bytes else 0.0
    check_laws(family, calls, spec, fitted(name, spec), max(work, cold))


@given(batch=st.integers(1, 64), new=st.integers(1, 4096), past=st.integers(0, 1 << 18))
def test_more_rows_take_no_less(batch, new, past):
    family, chip = FAMILIES["index_logits_sglang"], find_chip("h200")
    constants = fitted(family.name, chip)
    few = family.parts(one(batch=batch, new_tokens=new, past_tokens=past), chip, constants)
    many = family.parts(one(batch=4 * batch, new_tokens=new, past_tokens=past), chip, constants)
    assert many.total[0] >= few.total[0] * 0.999


def test_carried_rows():
    errors = errors_of_rows(FAMILIES, HEADER, ROWS)
    assert np.median(errors) < 0.12
    assert errors.max() < 0.5
