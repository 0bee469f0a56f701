"""Index logits: hand arithmetic, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.core_rates import core_rate
from simulator.kernels.family import check_families
from simulator.kernels.index_logits import FAMILIES, Rows, padded_share
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
    rows = Rows(*(np.array([float(v)]) for v in (1, 1, 0, 4)))
    units = rows.units_before(tokens.astype(float))
    assert np.array_equal(units, direct)
    back = rows.tokens_at(units)
    assert np.abs(back - tokens).max() < 3


def test_hand_arithmetic_of_one_decode_row():
    chip = find_chip("h200")
    constants = {"launch": 3e-6, "vector_ops_per_clock": 64.0, "row_cycles": 400.0}
    calls = sized("index_logits_sglang", batch=264, new_tokens=1, past_tokens=1023)
    parts = FAMILIES["index_logits_sglang"].parts(calls, chip, constants)
    # 264 rows of one unit over 132 cores: 2 units and 2 rows a core; the launch covers one begin.
    # A key: 64 heads of 128 multiply-adds at the core's FP8 rate, and three operations a head.
    key = 64 * 128 / core_rate(chip, "fp8").macs_per_clock + 3 * 64 / 64.0
    busy = (2 * 256 * key + 400.0) / 1.98e9
    # Beside it 256 keys of 132 bytes, scores and 64 heads of 132 bytes a row come from the cache.
    memory = 264 * (256 * 132 + 1023.5 + 64 * 132) / 9.666e12
    assert parts.total[0] == pytest.approx(3e-6 + (busy**2 + memory**2) ** 0.5)


def test_short_rows_crowd_the_first_core():
    family, chip = FAMILIES["index_logits_sglang"], find_chip("b200")
    constants = fitted(family.name, chip)
    ramp = family.parts(
        sized(family.name, batch=1, new_tokens=8192, past_tokens=0), chip, constants
    )
    assert ramp.seconds["vector"][0] > ramp.seconds["matrix"][0] / 2


def test_scan_of_the_scheduler_grows_with_the_square_of_rows():
    family, chip = FAMILIES["index_logits_vllm"], find_chip("h200")
    constants = {**fitted(family.name, chip), "row_cycles": 1e-3, "vector_ops_per_clock": 1e9}
    free = {"macs": np.zeros(1)}
    times = [
        family.parts(
            sized(family.name, batch=n, new_tokens=132, past_tokens=0) | free, chip, constants
        )
        for n in (16, 32)
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
    calls = sized(name, batch=batch, new_tokens=new, past_tokens=past)
    pairs = batch * new * max(0, past / 4 + new / 8 - 1)
    work = pairs * 2 * 64 * 128 / spec.matrix_flops_per_s("fp8")
    keys = batch * (past + new) / 4 * 132 + 4 * pairs
    cold = keys / spec.hbm_bandwidth_bytes_per_s if keys > 2 * spec.llc_bytes else 0.0
    check_laws(family, calls, spec, fitted(name, spec), max(work, cold))


@given(batch=st.integers(1, 64), new=st.integers(1, 4096), past=st.integers(0, 1 << 18))
def test_more_rows_take_no_less(batch, new, past):
    family, chip = FAMILIES["index_logits_sglang"], find_chip("h200")
    constants = fitted(family.name, chip)
    few = family.parts(
        sized(family.name, batch=batch, new_tokens=new, past_tokens=past), chip, constants
    )
    many = family.parts(
        sized(family.name, batch=4 * batch, new_tokens=new, past_tokens=past), chip, constants
    )
    assert many.total[0] >= few.total[0] * 0.999


def test_carried_rows():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.12
    assert errors.max() < 0.5


def test_pages_that_are_no_multiple_of_a_tile_leave_it_part_empty():
    rows = np.array([16.0, 32.0, 48.0, 64.0, 128.0])
    assert padded_share(rows, find_chip("h200")).tolist() == [4, 2, 64 / 48, 1, 1]
    # Blackwell has tiles of 32 keys as well.
    assert padded_share(rows, find_chip("b200")).tolist() == [2, 1, 64 / 48, 1, 1]


def test_keys_in_fp4_take_half_the_matrix_work_or_a_conversion():
    family = FAMILIES["index_logits_sglang"]
    fp8 = sized(family.name, batch=8, new_tokens=4, past_tokens=32767)
    fp4 = fp8 | {"math": np.array(["fp4_index"]), "key_bytes": np.array([68.0])}
    # Hopper unpacks FP4 keys to FP8 for every row; these fit the cache.
    for chip, faster in (("b200", True), ("h200", False)):
        spec = find_chip(chip)
        times = [family.parts(c, spec, fitted(family.name, spec)).total[0] for c in (fp8, fp4)]
        assert (times[1] < times[0]) == faster
