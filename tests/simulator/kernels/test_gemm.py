"""GEMM families: the program by hand, its laws, and a handful of measured rows.

Measured rows: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip, list_chips
from simulator.basis.errors import InputError
from simulator.calibration.row_entries import entry_of
from simulator.kernels.constants_file import check_constants, constants_for, read_constants
from simulator.kernels.family import check_families
from simulator.kernels.gemm import FAMILIES
from simulator.kernels.gemm_tiles import FORMATS, FP8_TENSORRT_GEMM, GemmKernel, Tiling
from simulator.kernels.gemm_time import Gemm, gemm_family_parts, gemm_parts
from tests.simulator.kernels.row_support import fitted, one, parts_of_row

CONSTANTS = {
    "floor": 4.0,
    "stream": 0.9,
    "flop_energy": 0.05,
    "block_wait": 99.0,
    "join": 2.0,
    "move": 16.0,
}
ONE_TILE = Tiling((128,), (128,))
FP8 = GemmKernel("fp8_block", ONE_TILE, ONE_TILE, quantises=True)
FAMILY_OF = {
    "bfloat16": "gemm_bf16",
    "fp8_block": "gemm_fp8_deepgemm",
    "nvfp4": "gemm_nvfp4_sglang",
}
NVIDIA = ("h100", "h200", "b200", "b300", "gb200", "gb300")
CASES = [
    (chip, dtype) for chip in NVIDIA for dtype in FORMATS if dtype != "nvfp4" or chip[0] != "h"
]

sizes = st.integers(1, 40_000)
depths = st.integers(1, 20_000)


def own(dtype, chip):
    return constants_for(FAMILY_OF[dtype], chip).values


def faster(chip, part, name, factor=1.3):
    number = getattr(getattr(chip, part), name)
    number = number.model_copy(update={"value": number.value * factor})
    return chip.model_copy(update={part: getattr(chip, part).model_copy(update={name: number})})


def test_two_waves_of_tiles_by_hand():
    chip = find_chip("h200")
    n = 128 * 132  # one column of tiles a core: two waves with two rows of tiles
    parts = gemm_parts(256, n, 1024, "fp8_block", chip, CONSTANTS, kernel=FP8)
    block = 2 * 128**3 / (1979e12 / 132)
    wait = 99 / 1980e6
    epilogue = 128 * 128 * 2 / (16 * 1980e6)
    loop = 2 * (8 * (block + wait) + epilogue)
    memory = n * 1024 * (1 + 4 / 128**2) / (4800e9 * 0.9)
    both = np.hypot(loop, memory)
    assert parts.total[0] == pytest.approx(4e-6 + both)
    assert parts.seconds["dram_bandwidth"][0] == pytest.approx(memory**2 / both)
    assert parts.seconds["matrix"][0] == pytest.approx(16 * block * loop / both)
    assert parts.seconds["serial"][0] == pytest.approx(16 * wait * loop / both)
    assert parts.seconds["llc"][0] == pytest.approx(2 * epilogue * loop / both)
    assert parts.seconds["tail"][0] == pytest.approx(0.0, abs=1e-15)


def test_one_row_more_is_a_wave_more_and_its_emptiness_is_tail():
    chip = find_chip("h200")
    full, over = (
        gemm_parts(m, 128 * 132, 1024, "fp8_block", chip, CONSTANTS, weights_warm=1, kernel=FP8)
        for m in (128, 129)
    )
    block = 8 * 2 * 128**3 / (1979e12 / 132)
    assert over.seconds["tail"][0] == pytest.approx(block * 127 / 128)
    assert over.total[0] - full.total[0] == pytest.approx(
        block + 8 * 99 / 1980e6 + 128 * 128 * 2 / (16 * 1980e6)
    )


def test_quantise_kernel_by_hand():
    chip = find_chip("h200")
    without, with_quantise = (
        gemm_parts(256, 4096, 1024, "fp8_block", chip, CONSTANTS, quantise=q, kernel=FP8)
        for q in (False, True)
    )
    moved = 256 * 1024 * (2 + 1 + 4 / 128)
    assert with_quantise.total[0] - without.total[0] == pytest.approx(
        1.37e-6 + moved / (16 * 132 * 1980e6)
    )


def test_the_power_limit_stretches_time_by_the_root_of_the_power():
    chip = find_chip("h200")
    free = gemm_parts(8192, 8192, 8192, "fp8_block", chip, CONSTANTS, kernel=FP8)
    hot = {**CONSTANTS, "flop_energy": 2.0}
    limited = gemm_parts(8192, 8192, 8192, "fp8_block", chip, hot, kernel=FP8)
    power = 2 * 8192**3 * 2e-12 / free.total[0]
    assert "power" in free.seconds
    assert free.seconds["power"][0] == 0
    assert power > 700
    assert limited.total[0] == pytest.approx(free.total[0] * (power / 700) ** 0.5)


def test_few_tiles_are_split_along_a_long_k():
    chip = find_chip("h200")
    whole = GemmKernel("bfloat16", ONE_TILE, ONE_TILE, False, overlaps_epilogue=True)
    split_tiles = Tiling((128,), (128,), splits=(1, 8))
    split = GemmKernel("bfloat16", split_tiles, split_tiles, False, overlaps_epilogue=True)
    for k, gains in ((256, False), (16384, True)):
        slow, fast = (
            gemm_parts(64, 256, k, "bfloat16", chip, CONSTANTS, weights_warm=1, kernel=kernel)
            for kernel in (whole, split)
        )
        assert (fast.total[0] < slow.total[0]) == gains


def test_few_blocks_in_flight_hide_matrix_work_under_the_wait():
    chip = find_chip("b200")
    late = GemmKernel("nvfp4", ONE_TILE, ONE_TILE, True, waits="latency")
    slow = {**CONSTANTS, "block_wait": 900.0}
    parts = gemm_parts(128, 128, 2560, "nvfp4", chip, slow, weights_warm=1, kernel=late)
    assert parts.total[0] == pytest.approx(4e-6 + 10 * 900 / 1965e6 + 128 * 128 * 2 / (16 * 1965e6))


@given(case=st.sampled_from(CASES), m=sizes, n=sizes, k=depths, warm=st.floats(0, 1))
@settings(max_examples=150)
def test_no_call_beats_the_roofs_and_parts_add_up(case, m, n, k, warm):
    chip, dtype = find_chip(case[0]), case[1]
    form = FORMATS[dtype]
    parts = gemm_parts(m, n, k, dtype, chip, own(dtype, chip), weights_warm=warm)
    total = parts.total[0]
    assert total >= 2 * m * n * k / chip.matrix_flops_per_s(form.matrix_dtype)
    cold = n * k * form.weight_bytes * (1 - warm)
    assert total >= cold / chip.hbm_bandwidth_bytes_per_s
    assert all((part >= 0).all() for part in parts.seconds.values())
    assert sum(part[0] for part in parts.seconds.values()) == pytest.approx(total)


@given(case=st.sampled_from(CASES), m=sizes, n=sizes, k=depths)
@settings(max_examples=100)
def test_a_better_chip_is_never_slower(case, m, n, k):
    chip, dtype = find_chip(case[0]), case[1]
    constants = own(dtype, chip)
    quantise = "move" in constants
    total = gemm_parts(m, n, k, dtype, chip, constants, quantise=quantise).total[0]
    for part, name in (
        ("memory", "bandwidth"),
        ("llc", "read_bandwidth"),
        ("cores", "clock"),
        ("power", "tdp"),
        ("matrix", FORMATS[dtype].matrix_dtype),
    ):
        better = faster(chip, part, name)
        quick = gemm_parts(m, n, k, dtype, better, constants, quantise=quantise).total[0]
        assert quick <= total * (1 + 1e-12), name


@given(case=st.sampled_from(CASES), m=sizes, n=sizes, k=depths, axis=st.sampled_from("mnk"))
@settings(max_examples=150)
def test_a_larger_call_is_never_faster(case, m, n, k, axis):
    chip, dtype = find_chip(case[0]), case[1]
    size = {"m": m, "n": n, "k": k}
    larger = {**size, axis: size[axis] + 1 + size[axis] // 7}
    small, large = (
        gemm_parts(**s, dtype=dtype, chip=chip, constants=own(dtype, chip)).total[0]
        for s in (size, larger)
    )
    assert large >= small * (1 - 1e-12)


@pytest.mark.parametrize("name", list_chips())
def test_every_chip_with_the_unit_has_a_time(name):
    chip = find_chip(name)
    parts = gemm_parts([1, 4096], 4096, 4096, "bfloat16", chip, own("bfloat16", chip))
    assert (parts.total > 1e-6).all()
    assert parts.total[0] < parts.total[1]


def test_a_chip_without_the_unit_is_an_error():
    chip = find_chip("h200")
    with pytest.raises(InputError, match="h200 has no fp4 matrix unit"):
        gemm_parts(1, 4096, 4096, "nvfp4", chip, CONSTANTS)


def test_families_have_at_most_five_constants_and_a_file_each():
    check_families(FAMILIES)
    for name, family in FAMILIES.items():
        check_constants(read_constants(name), family.constants, name)


def test_rows_have_one_family():
    rows = [
        {"op": "gemm", "engine": engine, "gemm_dtype": dtype}
        for engine in ("sglang-0.5.14", "trtllm-1.3.0rc20", "vllm-0.24.0")
        for dtype in FORMATS
    ]
    judged = [entry.judged if (entry := entry_of(row)) else None for row in rows]
    # Quantised GEMMs of vLLM are bound by the host.
    assert judged == [
        "gemm_bf16",
        "gemm_fp8_deepgemm",
        "gemm_nvfp4_sglang",
        "gemm_bf16",
        "gemm_fp8_trtllm",
        "gemm_nvfp4_trtllm",
        "gemm_bf16",
        None,
        None,
    ]


def test_twice_the_multiply_adds_take_twice_the_matrix_time():
    chip = find_chip("h200")
    sizes = {"rows": 256.0, "columns": 128.0 * 132, "depth": 1024.0, "weight_bytes": 1.0}
    sizes |= {"quantised": 1.0, "warm": 0.0, "replayed": 0.0}
    once = sizes["rows"] * sizes["columns"] * sizes["depth"]
    parts = [
        gemm_family_parts(FP8, one(**sizes, macs=n * once), chip, CONSTANTS).seconds for n in (1, 2)
    ]
    assert parts[1]["matrix"][0] == pytest.approx(2 * parts[0]["matrix"][0])


MEASURED = [
    ("h200", "sglang-0.5.14", "bfloat16", 7, 6144, 7168, 23.709),
    ("h200", "vllm-0.24.0", "bfloat16", 15, 512, 7168, 7.03),
    ("b200", "trtllm-1.3.0rc20", "bfloat16", 769, 2048, 7168, 20.982),
    ("b200", "vllm-0.24.0", "bfloat16", 80, 7168, 7168, 20.865),
    ("h200", "sglang-0.5.14", "fp8_block", 192, 4096, 2048, 9.004),
    ("h200", "trtllm-1.3.0rc20", "fp8_block", 13, 7168, 3072, 11.067),
    ("b200", "sglang-0.5.14", "fp8_block", 8, 65536, 7168, 75.277),
    ("b200", "trtllm-1.3.0rc20", "fp8_block", 3585, 6144, 7168, 120.947),
    ("b200", "sglang-0.5.14", "nvfp4", 161, 4096, 4096, 8.066),
    ("b200", "trtllm-1.3.0rc20", "nvfp4", 1536, 256, 4096, 18.975),
]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: "-".join(map(str, row[:3])))
def test_measured_rows_are_near(row):
    chip, engine, dtype, m, n, k, microseconds = row
    sizes = {"engine": engine, "gemm_dtype": dtype, "m": m, "n": n, "k": k}
    total = parts_of_row(chip=chip, op="gemm", **sizes).total[0]
    assert total == pytest.approx(microseconds * 1e-6, rel=0.25)


def tile_by_the_rule(m, n, cores):
    """TensorRT-LLM's choice on Hopper, shape by shape: rows, columns of C; exchanged if few rows.

    Source: get_best_gemm_config of its DeepGEMM.
    """
    if m < 32:
        columns, rows = tile_by_the_rule_of_long_side(n, m, cores)
        return rows, columns
    return tile_by_the_rule_of_long_side(m, n, cores)


def tile_by_the_rule_of_long_side(m, n, cores):
    long = 64 if m <= 64 else 128
    best = None
    for short in range(16, 129, 8):
        tiles = -(-m // long) * -(-n // short)
        waves, last = -(-tiles // cores), tiles % cores or cores
        if best is None or (waves, -last) < best[:2]:
            best = (waves, -last, short)
    return long, best[2]


@given(m=st.integers(1, 9000), n=st.integers(16, 9000))
def test_tensorrt_tiles_follow_the_published_rule(m, n):
    chip = find_chip("h200")
    sizes = (np.array([float(v)]) for v in (m, n, 4096))
    unit = np.ones(1)
    constants = fitted("gemm_fp8_trtllm", chip)
    gemm = Gemm(*sizes, FP8_TENSORRT_GEMM, chip, constants, unit * n * 4096, unit)
    assert gemm.shape(np.zeros(1))[:2] == tile_by_the_rule(m, n, chip.core_count)


def test_one_row_beyond_a_tile_costs_its_empty_rows():
    chip = find_chip("h200")
    full, more, nearly = (
        gemm_parts(
            m,
            1536,
            7168,
            "fp8_block",
            chip,
            fitted("gemm_fp8_trtllm", chip),
            kernel=FP8_TENSORRT_GEMM,
        ).total[0]
        for m in (64, 65, 128)
    )
    # Measured on H200: 12.2, 24.7 us and, with a tile that is full again, some 13 us.
    assert more > 1.5 * full
    assert nearly < 1.2 * full
