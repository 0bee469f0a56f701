"""Attention modules: stages and cores by hand, laws, and rows carried from the measured tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.basis.errors import InputError
from simulator.kernels import (
    attention_module_sglang,
    attention_module_trtllm,
    attention_module_vllm,
)
from simulator.kernels.attention_calls import attention_calls
from simulator.kernels.attention_gemms import gemm_shapes, module_gemms
from simulator.kernels.attention_module import core_tiles_of
from simulator.kernels.attention_stages import either, longest, only
from simulator.kernels.family import check_families
from simulator.kernels.parts import Parts
from tests.simulator.kernels.attention_support import (
    CHIPS,
    check_laws,
    errors_of_rows,
    fitted,
    one,
)

FAMILIES = {
    **attention_module_sglang.FAMILIES,
    **attention_module_vllm.FAMILIES,
    **attention_module_trtllm.FAMILIES,
}
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


def call(op="hca_decode_module", model="v4-flash", heads=64, batch=1, new=1, past=4096, fp8=True):
    return one(
        op=op,
        model=model,
        gemm_dtype="fp8_block" if fp8 else "bfloat16",
        local_heads=heads,
        batch=batch,
        new_tokens=new,
        past_tokens=past,
    )


def test_families_are_registered():
    check_families(FAMILIES)


def test_unknown_model_is_refused():
    with pytest.raises(InputError, match="v4-tiny"):
        attention_calls(call(model="v4-tiny"))


def test_gemm_weights_are_those_of_the_model():
    shapes = gemm_shapes(attention_calls(call(op="csa_decode_module", model="v4-pro", heads=128)))
    count = {name: float((n * k)[0]) for name, (n, k) in shapes.items()}
    trunk = sum(count[n] for n in ("down", "query", "output_group", "output"))
    # Published sizes of a layer, in millions of parameters.
    assert trunk / 1e6 == pytest.approx(299.89, abs=0.01)
    assert count["compressor_gemm"] / 1e6 == pytest.approx(14.68, abs=0.01)
    assert count["index_query"] / 1e6 == pytest.approx(12.58, abs=0.01)
    assert count["index_compressor_gemm"] / 1e6 == pytest.approx(3.67, abs=0.01)


def test_longest_branch_owns_the_time():
    short = Parts({"matrix": np.array([1.0, 4.0])})
    long = Parts({"vector": np.array([2.0, 3.0])})
    both = longest(short, long)
    assert both.total.tolist() == [2.0, 4.0]
    assert both.seconds["matrix"].tolist() == [0.0, 4.0]
    rows = np.array([True, False])
    assert only(rows, short).total.tolist() == [1.0, 0.0]
    assert either(rows, short, long).total.tolist() == [1.0, 3.0]


def test_heads_are_padded_to_the_tile_of_the_engine_and_chip():
    for name, chip, tiles in (
        ("attention_module_sglang", "b200", [1, 1, 2, 2]),
        ("attention_module_vllm", "h200", [1, 1, 2, 2]),
        ("attention_module_vllm", "b300", [1, 1, 1, 1]),
    ):
        decisions = FAMILIES[name].decisions
        calls = replace(attention_calls(call()), heads=np.array([8.0, 64.0, 65.0, 128.0]))
        assert core_tiles_of(calls, find_chip(chip), decisions).tolist() == tiles


def test_sglang_core_by_hand():
    family, chip = FAMILIES["attention_module_sglang"], find_chip("h200")
    constants = {"move": 12.0, "core_query_cycles": 5000.0, "core_key_cycles": 80.0}
    calls = attention_calls(call(model="v4-pro", heads=128, batch=660, past=1023))
    # 1,024 tokens: two blocks of the window, one of 8 compressed entries. Two tiles a query leave
    # 66 places: 10 queries of 3 + 5 blocks each, and no cut that is worth its begin.
    core = family.core(calls, chip, constants).total[0]
    assert core == pytest.approx(chip.launch_gap_s + 10 * (5000 + 3 * 64 * 80) / 1.98e9)


def test_sglang_switches_its_core_above_8192_tokens_on_blackwell():
    family, chip = FAMILIES["attention_module_sglang"], find_chip("b200")
    constants = fitted(family.name, chip)
    few, many = (
        family.core(attention_calls(call(batch=n, new=1024, past=131072)), chip, constants)
        for n in (8, 16)
    )
    assert few.seconds["vector"][0] == 0 < many.seconds["vector"][0]
    assert many.total[0] < 2 * few.total[0]


def test_tensor_rt_core_by_hand():
    family, chip = FAMILIES["attention_module_trtllm"], find_chip("b200")
    calls = attention_calls(call(batch=296, past=8191))
    core = family.core(calls, chip, {"core_key_cycles": 100.0}).total[0]
    assert core == pytest.approx(chip.launch_gap_s + 2 * 192 * 100.0 / 1.965e9)
    # With free keys, queries, outputs and keys pass through the cache.
    moved = 296 * (64 * 512 * 3 + (127 + 1 + 64) * 584)
    free = family.core(calls, chip, {"core_key_cycles": 1e-9}).total[0]
    assert free == pytest.approx(chip.launch_gap_s + moved / chip.llc_bandwidth_bytes_per_s)


def test_short_prefills_leave_the_indexer_out_in_vllm():
    chip = find_chip("h200")
    for name, kept in (("attention_module_vllm", False), ("attention_module_sglang", True)):
        family = FAMILIES[name]
        calls = attention_calls(call(op="csa_prefill_module", new=128, past=128))
        kernels = family.kernels(calls, chip, fitted(name, chip))
        assert (kernels["index_logits"].total[0] > 0) == kept


def test_cold_weights_come_from_memory():
    family, chip = FAMILIES["attention_module_vllm"], find_chip("h200")
    columns = call(op="hca_decode_module", heads=8)
    warm, cold = (
        family.parts({**columns, **one(weights=w)}, chip, fitted(family.name, chip)).seconds
        for w in ("warm", "cold")
    )
    assert warm["dram_bandwidth"][0] < cold["dram_bandwidth"][0]


def test_window_layers_have_no_compressor():
    family, chip = FAMILIES["attention_module_sglang"], find_chip("h200")
    window, hca = (
        family.kernels(attention_calls(call(op=op)), chip, fitted(family.name, chip))
        for op in ("swa_decode_module", "hca_decode_module")
    )
    assert window["compressor"].total[0] == window["compressor_gemm"].total[0] == 0
    assert hca["compressor"].total[0] > 0
    assert hca["index_logits"].total[0] == 0
    assert window["core"].total[0] < hca["core"].total[0]


def test_real_scores_are_cheaper_than_equal_ones():
    family, chip = FAMILIES["attention_module_sglang"], find_chip("h200")
    columns = call(op="csa_decode_module", past=32768)
    flat, real = (
        family.parts({**columns, **one(scores=s)}, chip, fitted(family.name, chip)).total[0]
        for s in ("flat", "top_last")
    )
    assert flat == family.parts(columns, chip, fitted(family.name, chip)).total[0]
    assert flat - real == pytest.approx(78e-6, abs=10e-6)


def test_weights_that_fit_the_cache_are_warm():
    small, large = (
        attention_calls(call(op="hca_decode_module", model=model, heads=heads, fp8=True))
        for model, heads in (("v4-flash", 8), ("v4-pro", 128))
    )
    chip = find_chip("h200")
    for calls, cold in ((small, False), (large, True)):
        bf16, fp8 = fitted("gemm_bf16", chip), fitted("gemm_fp8_deepgemm", chip)
        output = module_gemms(calls, chip, bf16, fp8, True)["output"]
        assert (output.seconds["dram_bandwidth"][0] > 0) == cold


@settings(max_examples=60)
@given(
    chip=st.sampled_from(CHIPS),
    name=st.sampled_from(sorted(FAMILIES)),
    op=st.sampled_from(("csa", "hca")),
    model=st.sampled_from(("v4-flash", "v4-pro")),
    share=st.sampled_from((1, 2, 4, 8)),
    batch=st.integers(1, 512),
    new=st.one_of(st.just(1), st.integers(2, 4096)),
    past=st.integers(0, 1 << 20),
    decode=st.booleans(),
)
def test_laws(chip, name, op, model, share, batch, new, past, decode):
    spec, family = find_chip(chip), FAMILIES[name]
    if name == "attention_module_trtllm" and spec.architecture == "hopper":
        spec = find_chip("b200")
    heads = {"v4-flash": 64, "v4-pro": 128}[model] // share
    kind = "decode" if decode else "prefill"
    calls = call(f"{op}_{kind}_module", model, heads, batch, 1 if decode else new, past)
    sizes = attention_calls(calls)
    products = sum((n * k)[0] for n, k in list(gemm_shapes(sizes).values())[:4])
    work = 2 * products * sizes.tokens[0] / spec.matrix_flops_per_s("fp8")
    check_laws(family, calls, spec, fitted(name, spec), work)


def test_carried_rows():
    errors = errors_of_rows(FAMILIES, HEADER, ROWS)
    assert np.median(errors) < 0.1
    assert errors.max() < 0.35
