"""Whole attention modules: which kernels run, laws, and rows carried from the measured tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.basis.errors import InputError
from simulator.calibration.measured_rows import _lowered, _sizes, calls_of
from simulator.calibration.row_entries import entry_of
from simulator.engine.profile import find_profile
from simulator.kernels.attention_module import FAMILIES
from simulator.kernels.family import check_families
from simulator.kernels.sparse_core import Queries, held_heads, waves
from tests.simulator.kernels.row_support import (
    CHIPS,
    errors_of_rows,
    one,
    parts_of_row,
    with_bandwidth,
    with_clock,
)

HEADER = "chip,engine,op,model,gemm_dtype,local_heads,batch,new_tokens,past_tokens,latency_us"
# Source: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
ROWS = (
    "h200,sglang-0.5.14,csa_prefill_module,v4-pro,fp8_block,16,16,1,128,105.3",
    "h200,sglang-0.5.14,hca_prefill_module,v4-pro,fp8_block,32,256,1,1024,157.9",
    "h200,sglang-0.5.14,csa_prefill_module,v4-flash,bfloat16,64,16,128,262144,4609.8",
    "b200,sglang-0.5.14,csa_prefill_module,v4-pro,fp8_block,16,4,16,128,122.1",
    "b200,sglang-0.5.14,hca_prefill_module,v4-pro,fp8_block,64,1,512,4096,201.1",
    "b200,sglang-0.5.14,hca_prefill_module,v4-flash,bfloat16,8,8,128,1024,157.8",
    "h200,vllm-0.24.0,hca_prefill_module,v4-flash,fp8_block,16,16,16384,0,56652.5",
    "h200,vllm-0.24.0,hca_prefill_module,v4-pro,fp8_block,64,16,2048,0,16066.9",
    "b200,vllm-0.24.0,csa_decode_module,v4-pro,fp8_block,16,8,1,4096,86.2",
    "b200,vllm-0.24.0,csa_decode_module,v4-flash,fp8_block,8,256,1,128,111.6",
    "b200,trtllm-1.3.0rc23,hca_prefill_module,v4-pro,fp8_block,32,512,128,0,9532.0",
    "b200,trtllm-1.3.0rc23,hca_decode_module,v4-flash,fp8_block,64,8,1,1,80.0",
    "b200,trtllm-1.3.0rc23,hca_decode_module,v4-flash,fp8_block,16,32,1,10240,63.2",
)


ENGINES = {"sglang-0.5": "sglang-0.5.14", "vllm-0.33": "vllm-0.24.0", "trtllm-1.3": "trtllm-1.3.0"}


def call(
    op="hca_decode_module",
    engine="sglang-0.5.14",
    model="v4-flash",
    heads=64,
    batch=1,
    new=1,
    past=4096,
    fp8=True,
    **more,
):
    return {
        "op": op,
        "engine": engine,
        "model": model,
        "gemm_dtype": "fp8_block" if fp8 else "bfloat16",
        "local_heads": heads,
        "batch": batch,
        "new_tokens": new,
        "past_tokens": past,
        **more,
    }


def kernels(**row):
    """Kernels of a row by name."""
    row = call(**row)
    entry = entry_of({name: str(v) for name, v in row.items()})
    return {kernel.name: kernel for kernel in _lowered(_sizes(row), entry)}


def seconds(chip, **row):
    return float(parts_of_row(chip=chip, **call(**row)).total[0])


def test_families_are_registered():
    check_families(FAMILIES)


def test_unknown_model_is_refused():
    with pytest.raises(InputError, match="v4-small"):
        kernels(model="v4-small")


def test_heads_that_are_no_whole_groups_are_refused():
    with pytest.raises(InputError, match="12 heads of v4-flash are no whole number of groups"):
        kernels(heads=12)


def test_gemm_weights_are_those_of_the_model():
    found = kernels(op="csa_decode_module", model="v4-pro", heads=128)

    def millions(*names):
        products = (p for name in names for p in found[name].demand.products)
        return sum(p.count * p.columns * p.depth for p in products) / 1e6

    # Published sizes of a layer, in millions of parameters.
    assert millions("qkv_a", "q_b", "o_a", "o_b") == pytest.approx(299.89, abs=0.01)
    assert millions("compressor_gemm") == pytest.approx(14.68, abs=0.01)
    assert millions("indexer_q_b") == pytest.approx(12.58, abs=0.01)
    assert millions("indexer_compressor_gemm") == pytest.approx(3.67, abs=0.01)


@pytest.mark.parametrize(
    ("engine", "chip", "tiles"),
    [
        ("sglang-0.5", "b200", [1, 1, 2, 2]),
        ("vllm-0.33", "h200", [1, 1, 2, 2]),
        ("vllm-0.33", "b300", [1, 1, 1, 1]),
    ],
)
def test_heads_are_padded_to_the_tile_of_the_engine_and_chip(engine, chip, tiles):
    rule = next(k.core for k in find_profile(engine).kernels if k.name == "core")
    held = held_heads(rule.head_tile, find_chip(chip))
    assert np.ceil(np.array([8, 64, 65, 128]) / held).tolist() == tiles


def core_calls(chip, **row):
    """Sizes of the core's calls, by the form that takes them."""
    found = calls_of(call(**row), find_chip(chip))
    return [c for _, c in found if c.constants.family == "sparse_core_flashmla"]


def test_sglang_core_by_hand():
    chip = find_chip("h200")
    (own,) = core_calls("h200", model="v4-pro", heads=128, batch=660, past=1023)
    constants = {"query_cycles": 5000.0, "vector_ops_per_clock": 1e12, "convert_cycles": 0.2}
    # 1,024 tokens: two blocks of the window, one of 8 compressed entries. Two tiles a query leave
    # 66 places: 10 queries of 3 + 5 blocks each, and no cut that is worth its begin.
    matrix = 2 * 512 * 64 / (chip.matrix_flops_per_s("bf16") / 2 / 132 / chip.peak_clock_hz)
    key = np.hypot(matrix, 0.2 * 448)
    core = own.form(one(**dict(own.row)), chip, constants).total[0]
    work = 10 * (5000 + 3 * 64 * key) / 1.98e9
    # Queries and outputs in BF16 and 128 + 8 rows of 584 bytes, more than the L2 keeps.
    moved = 660 * (128 * 512 * 4 + 136 * 584)
    assert moved > 2 * chip.llc_bytes
    loads = moved / chip.hbm_bandwidth_bytes_per_s
    assert core == pytest.approx(chip.launch_gap_s + np.hypot(work, loads), rel=1e-3)


def test_sglang_switches_its_core_above_8192_tokens_on_blackwell():
    few, many = (core_calls("b200", batch=n, new=1024, past=131072) for n in (8, 16))
    assert [c.form.form for c in few] == ["dealt"]
    assert [c.form.form for c in many] == ["gathered"]
    assert seconds("b200", batch=16, new=1024, past=131072) < 2 * seconds(
        "b200", batch=8, new=1024, past=131072
    )


def test_tensor_rt_core_by_hand():
    chip = find_chip("b200")
    found = calls_of(call(engine="trtllm-1.3.0", batch=296, past=8191), chip)
    (own,) = (c for _, c in found if "window" in dict(c.row))
    sizes = one(**dict(own.row))
    matrix = 2 * 512 * 64 / (chip.matrix_flops_per_s("fp8") / 2 / 148 / chip.peak_clock_hz)
    rule = own.form.rule
    core = waves(sizes, chip, {"vector_ops_per_clock": 1e12}, rule, "fp8")
    busy = 2 * 192 * matrix / 1.965e9
    # Queries, outputs and keys pass through the cache beside it.
    q = Queries.of(sizes)
    moved = float(q.operand_bytes[0] + q.cache_bytes[0])
    assert moved == pytest.approx(296 * (64 * 512 * 4 + (127 + 1 + 64) * 512), rel=0.01)
    passing = moved / chip.llc_bandwidth_bytes_per_s
    assert core.total[0] == pytest.approx(chip.launch_gap_s + np.hypot(busy, passing))


def test_short_prefills_leave_the_indexer_out_in_vllm():
    for engine, kept in (("vllm-0.24.0", False), ("sglang-0.5.14", True)):
        found = kernels(op="csa_prefill_module", engine=engine, new=128, past=128)
        assert ("index_score" in found) == kept
        assert ("indexer_q_b" in found) == kept
    assert "indexer_q_b" in kernels(op="csa_prefill_module", engine="trtllm-1", new=128, past=128)


def test_window_layers_have_no_compressor():
    window, hca = (kernels(op=f"{kind}_decode_module") for kind in ("swa", "hca"))
    assert "compressor" not in window
    assert "compressor" in hca
    assert "index_score" not in hca
    assert window["core"].demand.products[0].macs < hca["core"].demand.products[0].macs


def test_few_heads_are_padded_and_several_groups_permuted():
    assert "pad_heads" in kernels(heads=32)
    assert "pad_heads" not in kernels(heads=64)
    assert "regroup" not in kernels(batch=1)
    assert "regroup" in kernels(batch=2)
    assert "regroup" not in kernels(heads=8, batch=2)


def test_cold_weights_come_from_memory():
    own = call(op="hca_decode_module", engine="vllm-0.24.0", heads=8)
    warm, cold = (
        parts_of_row(chip="h200", **own, weights=w).seconds["dram_bandwidth"][0]
        for w in ("warm", "cold")
    )
    assert warm < cold


def test_real_scores_are_cheaper_than_equal_ones():
    flat, real = (
        seconds("h200", op="csa_decode_module", past=32768, scores=s) for s in ("flat", "top_last")
    )
    assert flat == seconds("h200", op="csa_decode_module", past=32768)
    assert flat - real == pytest.approx(78e-6, abs=10e-6)


@settings(max_examples=60)
@given(
    chip=st.sampled_from(CHIPS),
    engine=st.sampled_from(sorted(ENGINES.values())),
    op=st.sampled_from(("csa", "hca")),
    model=st.sampled_from(("v4-flash", "v4-pro")),
    share=st.sampled_from((1, 2, 4, 8)),
    batch=st.integers(1, 512),
    new=st.one_of(st.just(1), st.integers(2, 4096)),
    past=st.integers(0, 1 << 19),
    decode=st.booleans(),
)
def test_laws(chip, engine, op, model, share, batch, new, past, decode):
    spec = find_chip(chip)
    row = call(
        f"{op}_{'decode' if decode else 'prefill'}_module",
        engine,
        model,
        {"v4-flash": 64, "v4-pro": 128}[model] // share,
        batch,
        1 if decode else new,
        past,
    )
    parts = parts_of_row(chip=chip, **row)
    total = parts.total[0]
    assert all(value[0] >= -1e-18 for value in parts.seconds.values())
    assert sum(value[0] for value in parts.seconds.values()) == pytest.approx(total)
    entry = entry_of({name: str(v) for name, v in row.items()})
    macs = sum(p.macs for k in _lowered(_sizes(row), entry) for p in k.demand.products)
    assert total >= 2 * macs / spec.matrix_flops_per_s("fp4" if chip[0] != "h" else "fp8")
    calls = calls_of(row, spec)
    for faster in (with_bandwidth(spec, 1.5), with_clock(spec, 1.25)):
        for _, own in calls:
            sizes = one(**dict(own.row))
            constants = own.constants.values
            before, after = (own.form(sizes, c, constants).total[0] for c in (spec, faster))
            assert after <= before * (1 + 1e-9)


def test_carried_rows():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.1
    assert errors.max() < 0.35
