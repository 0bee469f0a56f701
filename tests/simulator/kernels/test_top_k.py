"""Top-k kernels: hand arithmetic, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.family import check_families
from simulator.kernels.top_k import FAMILIES, searched_rows
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
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v1,flat,v4-flash,64,1,6144,8.046",
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v1,flat,v4-flash,2,1024,4096,54.43",
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v1,flat,v4-pro,32,64,10240,101.008",
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v2,flat,v4-flash,2,1,65536,84.948",
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v2,flat,v4-pro,8,1,12288,82.564",
    "h200,sglang-0.5.14,indexer_topk,topk_transform_v2,top_last,v4-flash,256,1,4096,3.745",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v1,top_last,v4-flash,8,128,10000,10.293",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v1,top_last,v4-flash,32,4,16384,3.64",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v1,top_last,v4-flash,2,256,10240,7.228",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v2,top_last,v4-pro,8,1,10240,3.124",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v2,flat,v4-flash,16,1,16384,65.61",
    "b200,sglang-0.5.14,indexer_topk,topk_transform_v2,flat,v4-flash,4,1,32768,66.117",
)


def call(name, model="v4-flash", scores="top_last", batch=1, new_tokens=1, past_tokens=4095):
    return sized(
        name,
        model=model,
        scores=scores,
        batch=batch,
        new_tokens=new_tokens,
        past_tokens=past_tokens,
    )


def test_families_are_registered():
    check_families(FAMILIES)


def test_searched_rows_have_more_entries_than_k():
    new, past, k = 4000, 500, 512
    entries = np.arange(past + 1, past + new + 1) // 4
    rows, keys = searched_rows(*(np.array([float(v)]) for v in (3, new, past, k, 4)))
    assert rows[0] == 3 * (entries > k).sum()
    assert keys[0] == pytest.approx(entries[entries > k].mean(), abs=1)


def test_hand_arithmetic_of_full_cores():
    chip = find_chip("h200")
    constants = {
        "launch": 1e-6,
        "id_cycles": 1.0,
        "op_cycles": 0.25,
        "tie_id_cycles": 10.0,
        "tie_key_cycles": 2.0,
    }
    calls = call("top_k_v1", "v4-pro", batch=1320, past_tokens=16383)
    parts = FAMILIES["top_k_v1"].parts(calls, chip, constants)
    # 10 rows a core; 1,024 ids pass twice, 4,096 scores once.
    assert parts.total[0] == pytest.approx(1e-6 + 10 * (2 * 1024 + 0.5 * 4096) / 1.98e9)


def test_rows_that_need_no_search_ignore_their_scores():
    chip = find_chip("b200")
    for family in FAMILIES.values():
        constants = fitted(family.name, chip)
        flat, last = (
            family.parts(
                call(family.name, scores=s, batch=64, past_tokens=1000), chip, constants
            ).total[0]
            for s in ("flat", "top_last")
        )
        assert flat == last


def test_equal_scores_cost_nothing_in_rows_split_over_a_cluster():
    family, chip = FAMILIES["top_k_v2"], find_chip("h200")
    constants = fitted(family.name, chip)
    for past, ratio in ((65535, 5), (262143, 1)):
        flat = family.parts(
            call(family.name, scores="flat", past_tokens=past), chip, constants
        ).total[0]
        last = family.parts(call(family.name, past_tokens=past), chip, constants).total[0]
        assert flat >= ratio * last


@given(
    chip=st.sampled_from(CHIPS),
    name=st.sampled_from(sorted(FAMILIES)),
    model=st.sampled_from(("v4-flash", "v4-pro")),
    scores=st.sampled_from(("flat", "top_last")),
    batch=st.integers(1, 256),
    new=st.integers(1, 16384),
    past=st.integers(0, 1 << 20),
)
def test_laws(chip, name, model, scores, batch, new, past):
    spec, family = find_chip(chip), FAMILIES[name]
    read = batch * new * max(0, past / 4 - 1) * 4 * (past > 8192)
    cold = read / spec.hbm_bandwidth_bytes_per_s if read > 2 * spec.llc_bytes else 0.0
    check_laws(family, call(name, model, scores, batch, new, past), spec, fitted(name, spec), cold)


def test_carried_rows():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.12
    assert errors.max() < 0.5
