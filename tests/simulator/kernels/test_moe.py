import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator import kernels
from simulator.basis.errors import UnsupportedError
from simulator.calibration.fit import absolute_errors
from simulator.calibration.row_entries import entry_of
from simulator.kernels.architecture import core_architecture
from simulator.kernels.family import check_families
from simulator.kernels.moe import FAMILIES
from tests.simulator.kernels.row_support import parts_of_row

CONSTANTS = Path(kernels.__file__).parent / "constants"
# aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0
MEASURED = """\
chip,engine,op,kernel,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency_us
h200,sglang-0.5.14,moe,sglang_fused_moe_triton,fp8_block,1,7168,3072,6,384,2,1,power_law_1.2,81.302
h200,sglang-0.5.14,moe,sglang_fused_moe_triton,fp8_block,16384,7168,3072,6,384,4,1,balanced,5741.305
h200,vllm-0.24.0,moe,vllm_fp8moe_triton_tritonexperts,fp8_block,4096,4096,2048,6,256,8,1,balanced,741.488
h200,vllm-0.24.0,moe,vllm_fp8moe_triton_tritonexperts,fp8_block,32,4096,2048,6,256,16,1,balanced,129.109
b200,vllm-0.24.0,moe,vllm_fp8moe_flashinfer_trtllm_trtllmfp8expertsmodular,fp8_block,512,7168,3072,6,384,2,1,balanced,1825.877
b200,vllm-0.24.0,moe,vllm_compressedtensorsw4a4nvfp4moe_flashinfer_trtllm_trtllmnvfp4expertsmodular,nvfp4,4096,7168,3072,6,384,16,1,power_law_1.2,488.954
b200,vllm-0.24.0,moe,vllm_mxfp4moe_flashinfer_trtllm_mxfp4_mxfp8_trtllmmxfp4expertsmodular,w4a8_mxfp4_mxfp8,4096,4096,2048,6,256,2,1,power_law_1.2,647.776
b200,sglang-0.5.14,moe,sglang_mxfp4_flashinfer_trtllm_moe,w4a8_mxfp4_mxfp8,64,4096,2048,6,256,4,1,balanced,150.885
b200,trtllm-1.3.0rc20,moe,deepgemm,fp8_block,80,7168,3072,6,384,4,1,power_law_1.01,807.584
h200,trtllm-1.3.0rc20,moe,moe_torch_flow_cutlass,fp8_block,1024,4096,2048,6,256,8,1,power_law_1.01,592.806
h200,trtllm-1.3.0rc20,moe,moe_torch_flow_cutlass,fp8_block,2048,7168,3072,6,384,1,1,power_law_1.2,7800.986
"""
ROWS = list(csv.DictReader(io.StringIO(MEASURED)))
TEXT = ("chip", "engine", "op", "kernel", "moe_dtype", "distribution")
CHIPS = ("h100", "h200", "b200", "b300", "gb200", "gb300")


def fitted(name):
    found = yaml.safe_load((CONSTANTS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert found["family"] == name
    return found["architectures"]


def one_call(tokens, hidden, inter, experts, topk, distribution, tp=1, ep=1, weight_bytes=1.0):
    inner, slots = inter / tp, tokens * topk / ep
    numbers = {
        "tokens": tokens,
        "own_tokens": tokens,
        "hidden": hidden,
        "inner": inner,
        "per_token": topk,
        "experts": experts,
        "held": experts // ep,
        "slots": slots,
        "up_columns": 2 * inner,
        "up_macs": slots * 2 * inner * hidden,
        "down_macs": slots * inner * hidden,
        "up_bytes": weight_bytes,
        "down_bytes": weight_bytes,
        "vector_ops": 0,
    }
    columns = {name: np.array([float(value)]) for name, value in numbers.items()}
    return columns | {"distribution": np.array([distribution])}


def changed(chip, part, name, factor):
    """The chip with one number of one part scaled."""
    old = getattr(getattr(chip, part), name)
    new = type(old).model_validate(old.model_dump() | {"value": old.value * factor})
    update = {part: getattr(chip, part).model_copy(update={name: new})}
    return chip.model_copy(update=update)


def test_families_are_named_and_have_few_constants():
    check_families(FAMILIES)
    for name, family in FAMILIES.items():
        for found in fitted(name).values():
            assert set(found["constants"]) == {c.name for c in family.constants}
            for constant in family.constants:
                value = found["constants"][constant.name]
                assert constant.low <= value <= constant.high, (name, constant.name)


def test_every_row_belongs_to_one_family():
    for row in ROWS:
        text = {name: row[name] for name in TEXT}
        assert entry_of(text).judged in FAMILIES
    assert entry_of({name: ROWS[0][name] for name in TEXT} | {"kernel": "other"}) is None


def test_carried_rows_are_predicted_to_a_quarter():
    errors = []
    for row in ROWS:
        columns = {key: value if key in TEXT else float(value) for key, value in row.items()}
        predicted = parts_of_row(**columns).total[0]
        errors.append(math.log(predicted * 1e6 / float(row["latency_us"])))
    found = absolute_errors(np.array(errors))
    assert np.median(found) < 0.08
    assert found.max() < 0.25


def by_hand(chip, constants, stream_factor):
    """64 tokens, 2 of 4 experts each, 256 x 128 weights a side, with tiles of 64 tokens."""
    cores, clock = chip.core_count, chip.clock_hz
    seconds = {"launch": 10e-6, "dram_bandwidth": 0.0, "llc": 0.0, "serial": 0.0, "tail": 0.0}
    for columns, depth in ((2 * 128, 256), (256, 128)):
        # 32 tokens an expert are one tile of tokens, for 2 tiles of columns: 8 of all experts.
        column_tiles, steps = 2, depth / 128
        step_bytes = 128 * 128 + 64 * 128
        step = step_bytes / constants["operand_bytes_per_clock"] / clock
        drain = constants["tile_clocks"] / clock
        stream = columns * depth / (stream_factor * chip.hbm_bandwidth_bytes_per_s)
        share = column_tiles / cores
        if stream >= share * (steps * step + drain):
            seconds["dram_bandwidth"] += 4 * stream
        else:
            seconds["llc"] += 4 * share * steps * step
            seconds["serial"] += 4 * share * drain
        seconds["tail"] += (1 - 8 / cores) * (steps * step + drain)
    passes = 5 * 64 * 256 + 128 * (2 * 256 + 9 * 128)
    seconds["vector"] = passes / (constants["elementwise_bytes_per_clock"] * cores * clock)
    return seconds


@pytest.mark.parametrize("tile_clocks", [100.0, 1e5])
def test_hand_arithmetic_of_the_program(tile_clocks):
    chip = find_chip("h200")
    constants = {
        "launch_us": 10.0,
        "stream_bytes_per_clock": 30.0,
        "operand_bytes_per_clock": 40.0,
        "tile_clocks": tile_clocks,
        "elementwise_bytes_per_clock": 4.0,
    }
    asked = 30.0 * chip.clock_hz * chip.core_count * 2 / 3 / chip.hbm_bandwidth_bytes_per_s
    factor = (asked**-4 + 0.94**-4) ** -0.25
    calls = one_call(64, 256, 128, 4, 2, "balanced")
    parts = FAMILIES["moe_triton_sglang"].parts(calls, chip, constants)
    expected = by_hand(chip, constants, factor)
    for cause, value in parts.seconds.items():
        assert value[0] == pytest.approx(expected.get(cause, 0.0), rel=1e-9), cause
    assert (expected["serial"] > 0) == (tile_clocks > 1000)


@pytest.mark.parametrize(
    ("name", "tokens", "mean", "tile"),
    [
        ("moe_triton_sglang", 1, 0.1, 64),
        ("moe_triton_vllm", 64, 2, 16),
        ("moe_triton_vllm", 65, 2, 64),
        ("moe_generated_nvfp4", 64, 0.1, 8),
        ("moe_generated_nvfp4", 64, 64, 32),
        ("moe_generated_nvfp4", 64, 65, 64),
        ("moe_generated_nvfp4", 64, 4096, 128),
        ("moe_generated_fp8", 64, 4096, 64),
        ("moe_deepgemm", 64, 1, 128),
        ("moe_cutlass", 64, 17, 32),
        ("moe_cutlass", 64, 32, 128),
    ],
)
def test_tiles_of_the_engines(name, tokens, mean, tile):
    found = FAMILIES[name].tile_tokens(np.array([float(tokens)]), np.array([float(mean)]))
    assert found.tolist() == [tile]


def test_padded_weights_cost_what_full_ones_do():
    family, chip = FAMILIES["moe_generated_mxfp4_vllm"], find_chip("b200")
    constants = fitted(family.name)["blackwell"]["constants"]
    small, padded = (
        family.parts(one_call(64, 4096, 2048, 256, 6, "balanced", tp=tp), chip, constants)
        for tp in (32, 8)
    )
    assert small.total[0] == pytest.approx(padded.total[0])


SHAPES = st.fixed_dictionaries(
    {
        "tokens": st.integers(1, 20000),
        "hidden": st.sampled_from([512, 4096, 7168]),
        "inter": st.sampled_from([256, 2048, 3072]),
        "experts": st.sampled_from([8, 64, 256]),
        "topk": st.integers(1, 8),
        "distribution": st.sampled_from(["balanced", "power_law_1.01", "power_law_1.2"]),
        "tp": st.sampled_from([1, 2, 8]),
    }
)


def pairings():
    """Each family with each chip that its constants are for."""
    return [
        (name, chip)
        for name in FAMILIES
        for chip in CHIPS
        if core_architecture(find_chip(chip)) in fitted(name)
    ]


@given(pairing=st.sampled_from(pairings()), shape=SHAPES, factor=st.floats(1.01, 4.0))
@settings(max_examples=200)
def test_laws(pairing, shape, factor):
    name, chip_name = pairing
    family, chip = FAMILIES[name], find_chip(chip_name)
    constants = fitted(name)[core_architecture(chip)]["constants"]
    calls = one_call(**shape)
    parts = family.parts(calls, chip, constants)
    total = parts.total[0]
    assert all(value[0] >= 0 for value in parts.seconds.values())
    assert total == pytest.approx(sum(value[0] for value in parts.seconds.values()))

    inner = shape["inter"] / shape["tp"]
    work = 6.0 * shape["tokens"] * shape["topk"] * shape["hidden"] * inner
    assert total >= work / chip.matrix_flops_per_s(family.operands.matrix_type)
    # At least one token's experts are read, and tokens come in and go out.
    weights = shape["topk"] * 3 * shape["hidden"] * inner
    ends = 4 * shape["tokens"] * shape["hidden"]
    assert total >= (weights + ends) / chip.hbm_bandwidth_bytes_per_s

    for part, number in (("memory", "bandwidth"), ("cores", "clock")):
        better = family.parts(calls, changed(chip, part, number, factor), constants)
        assert better.total[0] <= total * (1 + 1e-9), number


@pytest.mark.parametrize("pairing", pairings())
def test_more_of_anything_takes_longer(pairing):
    name, chip_name = pairing
    family, chip = FAMILIES[name], find_chip(chip_name)
    constants = fitted(name)[core_architecture(chip)]["constants"]
    base = {"hidden": 4096, "inter": 2048, "experts": 256, "topk": 6, "distribution": "balanced"}

    def total(**changes):
        return family.parts(one_call(**(base | changes)), chip, constants).total[0]

    # Steps of four in tokens: the tile grows at most that much.
    by_tokens = [total(tokens=4**i) for i in range(8)]
    assert by_tokens == sorted(by_tokens)
    assert total(tokens=256) < total(tokens=256, hidden=8192) < total(tokens=256, hidden=16384)
    assert total(tokens=256) < total(tokens=256, inter=4096)
    assert total(tokens=256, tp=2) < total(tokens=256)


def test_calls_do_not_change_one_another():
    family, chip = FAMILIES["moe_triton_sglang"], find_chip("h200")
    constants = fitted(family.name)["hopper"]["constants"]
    single = [one_call(n, 4096, 2048, 256, 6, "power_law_1.2") for n in (1, 100, 5000)]
    both = {name: np.concatenate([c[name] for c in single]) for name in single[0]}
    alone = [family.parts(c, chip, constants).total[0] for c in single]
    assert family.parts(both, chip, constants).total == pytest.approx(alone)


def test_chips_without_the_matrix_type_are_refused():
    family = FAMILIES["moe_generated_nvfp4"]
    with pytest.raises(UnsupportedError, match="h200 has no fp4"):
        family.parts(one_call(8, 512, 256, 8, 2, "balanced"), find_chip("h200"), family.starts)
