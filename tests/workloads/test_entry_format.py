"""Packed bytes of cache entries, and the law of their rounding.

The grids are written out here from the formats' definitions: every value of e4m3, e2m1 and bf16
is sign x mantissa x power of two, and rounding takes the nearest, ties to the even mantissa.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.entry_format import (
    Bf16Entry,
    Fp8KvEntry,
    PlainEntry,
)
from workloads.index_entry import Fp4IndexEntry, Fp8IndexEntry, hadamard
from workloads.kv_entry import Fp8UniformKvEntry, Mxfp4KvEntry, Nvfp4KvEntry

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E4M3 = [m / 8 * 2**-6 for m in range(8)] + [
    (1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8) if (e, m) != (15, 7)
]

# Small and odd dimensions beside those of V4; partial blocks of scales; rotary part or none.
FORMATS = [
    Fp8KvEntry(448, 64),
    Fp8KvEntry(24, 8),
    Fp8KvEntry(70, 2),
    Fp8KvEntry(0, 4),
    Fp4IndexEntry(128),
    Fp4IndexEntry(33),
    Fp4IndexEntry(7),
    Fp8IndexEntry(128),
    Fp8IndexEntry(130),
    Fp8IndexEntry(5),
    Bf16Entry(512),
    Bf16Entry(3),
    Mxfp4KvEntry(448, 64),
    Mxfp4KvEntry(33, 4),
    Nvfp4KvEntry(448, 64),
    Nvfp4KvEntry(17, 2),
    Fp8UniformKvEntry(448, 64),
]


def stored(entry, values):
    """Values as they read back."""
    return entry.decode(entry.encode(values))


@st.composite
def rows(draw, entry):
    """Two vectors: from zeros and subnormals to the largest, of one size or of many."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, entry.dim))
    low = draw(st.integers(-145, 120))
    spread = draw(st.integers(0, 20))
    values = values * 2.0 ** rng.integers(low, min(low + spread, 120) + 1, size=values.shape)
    values[rng.random(values.shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = 0.0
    return values.astype(draw(st.sampled_from([np.float32, np.float64])))


ENTRY_AND_ROWS = st.sampled_from(FORMATS).flatmap(lambda e: st.tuples(st.just(e), rows(e)))


@pytest.mark.parametrize(
    ("entry", "nbytes"),
    [
        (Fp8KvEntry(448, 64), 584),  # 448 + 2 x 64 + 7 scales padded to 8
        (Fp4IndexEntry(128), 68),  # 64 + 4 scales
        (Fp8IndexEntry(128), 132),  # 128 + 4 bytes of scale
        (Bf16Entry(512), 1024),
        (Mxfp4KvEntry(448, 64), 368),  # 224 + 128 + 14 scales, padded to 8
        (Nvfp4KvEntry(448, 64), 384),  # 224 + 128 + 28 scales, padded to 16
        (Fp8UniformKvEntry(448, 64), 512),
        (Bf16Entry(128), 256),
        (Fp8KvEntry(64, 64), 64 + 128 + 8),
        (Fp8KvEntry(576, 64), 576 + 128 + 16),  # 9 scales padded to 16
        (Fp8KvEntry(0, 4), 8),
        (Fp4IndexEntry(33), 17 + 2),
        (Fp8IndexEntry(130), 130 + 8),
        (PlainEntry(7), 28),
        (PlainEntry(7, "float64"), 56),
        (PlainEntry(2 * 2 * 512), 8192),  # values and scores of both halves
    ],
)
def test_bytes_of_an_entry(entry, nbytes):
    assert entry.nbytes == nbytes
    packed = entry.encode(np.ones((3, entry.dim)))
    assert packed.shape == (3, nbytes)
    assert packed.dtype == np.uint8
    assert entry.decode(packed).shape == (3, entry.dim)


@pytest.mark.parametrize("entry", [*FORMATS, PlainEntry(4)], ids=str)
def test_no_entries_are_no_bytes(entry):
    none = np.zeros((0, entry.dim))
    assert entry.encode(entry.rotate(none)).shape == (0, entry.nbytes)
    assert stored(entry, none).shape == (0, entry.dim)
    assert entry.half_step(none).shape == (0, entry.dim)


@given(ENTRY_AND_ROWS)
def test_rounding_is_within_half_a_step(case):
    entry, values = case
    error = np.abs(stored(entry, values) - values.astype(np.float64))
    # One part in 2^23 for an index scale, which is itself rounded to float32.
    assert (error <= entry.half_step(values) * (1 + 2**-23)).all()


def of_coarse_scales(entry, values):
    """Whether values belong to a scale of NVFP4 that is subnormal in e4m3.

    Such a scale may be so much larger than wanted that the largest value of its block reads back as
    4 steps of it, of which another rounding makes a smaller scale.
    """
    found = np.zeros(values.shape, dtype=bool)
    if isinstance(entry, Nvfp4KvEntry):
        for first in range(0, entry.nope, entry.block):
            own = slice(first, min(first + entry.block, entry.nope))
            wanted = np.abs(values[:, own]).max(axis=1, keepdims=True) / 6
            found[:, own] = wanted < 2.0**-6
    return found


@given(ENTRY_AND_ROWS)
def test_rounding_twice_is_rounding_once(case):
    entry, values = case
    fine = ~of_coarse_scales(entry, values)
    once = stored(entry, values)
    assert stored(entry, once)[fine].tolist() == once[fine].tolist()
    if fine.all():
        assert entry.encode(once).tolist() == entry.encode(stored(entry, once)).tolist()


def test_a_scale_of_nvfp4_that_is_subnormal_may_shrink_when_rounded_again():
    entry = Nvfp4KvEntry(16, 0)
    values = np.full((1, 16), 9 * 2.0**-9)  # 6 steps of 1.5 x 2^-9, which is stored as 2 x 2^-9
    once = stored(entry, values)
    assert once.tolist() == np.full((1, 16), 8 * 2.0**-9).tolist()
    # 6 steps of 4/3 x 2^-9, which is stored as 2^-9: six of them are the most.
    assert stored(entry, once).tolist() == np.full((1, 16), 6 * 2.0**-9).tolist()


@given(ENTRY_AND_ROWS)
def test_rounding_is_odd_and_keeps_zeros_and_order_of_size(case):
    entry, values = case
    once = stored(entry, values)
    assert stored(entry, -values).tolist() == (-once).tolist()
    assert not once[values == 0].any()
    assert np.isfinite(once).all()


def nearest(x, grid):
    """Nearest of the grid by exact fractions, ties to the even place (its mantissa is even)."""
    best = min(range(len(grid)), key=lambda i: (abs(Fraction(grid[i]) - abs(Fraction(x))), i % 2))
    return math.copysign(grid[best], x)


@given(st.lists(st.floats(-6, 6), min_size=6, max_size=6))
def test_fp4_takes_the_nearest_of_eight_magnitudes(values):
    entry = Fp4IndexEntry(7)
    (once,) = stored(entry, np.array([[*values, 6.0]]))  # the 6 makes the scale 1
    assert once[:6].tolist() == [nearest(v, E2M1) for v in values]


@given(st.lists(st.floats(-448, 448), min_size=6, max_size=6), st.integers(-8, 8))
def test_fp8_takes_the_nearest_value_of_e4m3(values, exponent):
    scale = 2.0**exponent
    x = np.array([[*values, 448.0, 0.0, 0.0]]) * scale
    (once,) = stored(Fp8KvEntry(7, 2), x)
    assert (once[:6] / scale).tolist() == [nearest(v, E4M3) for v in (x[0, :6] / scale)]


@pytest.mark.parametrize(
    ("entry", "tie", "step"),
    [
        (Bf16Entry(1), 1 + 2**-8, 2**-7),
        (Fp8KvEntry(2, 0), 1 + 2**-4, 2**-3),
        (Fp4IndexEntry(2), 1.25, 0.5),
    ],
)
def test_a_hair_off_a_tie_decides(entry, tie, step):
    """Rounding to float32 in between would lose the hair."""
    largest = {Fp8KvEntry: [448.0], Fp4IndexEntry: [6.0]}.get(type(entry), [])
    hair = 2.0**-40
    for offset, expected in ((-hair, 1.0), (0.0, 1.0), (hair, 1.0 + step)):
        assert stored(entry, np.array([[tie + offset, *largest]]))[0, 0] == expected


@pytest.mark.parametrize(
    ("largest", "kept", "scale"),
    [
        (448.0, 448.0, 1), (449.0, 448.0, 2), (896.0, 896.0, 2), (448 * 2.0**-9, 0.875, 2**-9),
        (224.0, 224.0, 0.5), (225.0, 224.0, 1), (240.0, 240.0, 1),
    ],
)  # fmt: skip
def test_block_maxima_never_overflow_and_scales_are_the_smallest_powers_of_two(
    largest, kept, scale
):
    entry = Fp8KvEntry(64, 0)
    x = np.zeros((1, 64))
    x[0, 5] = -largest
    assert stored(entry, x)[0, 5] == -kept
    exponent = entry.encode(x)[0, 64]
    assert 2.0 ** (int(exponent) - 127) == scale


@pytest.mark.parametrize("largest", [6.0, 6.5, 11.9, 12.0, 3.0, 3.1])
def test_fp4_maxima_are_kept_within_half_a_step(largest):
    scale = 2.0 ** math.ceil(math.log2(largest / 6))
    kept = stored(Fp4IndexEntry(32), np.full((1, 32), largest))
    assert kept[0, 0] == nearest(largest / scale, E2M1) * scale


@pytest.mark.parametrize("largest", [1e-45, 1e-40, 1e-30, 0.3, 448.0, 449.0, 3e38])
def test_fp8_index_maxima_map_to_the_largest_code(largest):
    entry = Fp8IndexEntry(4)
    x = np.array([[largest, -largest, largest / 2, 0.0]])
    back = stored(entry, x)[0]
    if largest > 1e-35:
        assert entry.encode(x)[0, :2].tolist() == [0x7E, 0xFE]  # +448 and -448
        assert back == pytest.approx(x[0], rel=2**-4)
    assert np.abs(back - x[0]).max() <= max(largest / 16, 2.0**-126 * 2**-10)


def test_scales_are_a_block_s_own():
    x = np.zeros((1, 128))
    x[0, 0], x[0, 64] = 448 * 2.0**10, 448 * 2.0**-10
    entry = Fp8KvEntry(128, 0)
    assert entry.encode(x)[0, 128:130].tolist() == [127 + 10, 127 - 10]
    assert stored(entry, x)[0, [0, 64]].tolist() == [448 * 2.0**10, 448 * 2.0**-10]


def test_layout_of_a_key_value_row():
    entry = Fp8KvEntry(64, 2)
    x = np.zeros((1, 66))
    x[0, 0], x[0, 1], x[0, 64], x[0, 65] = 448.0, -1.0, 1.0, -2.0
    packed = entry.encode(x)[0]
    assert packed[:3].tolist() == [0x7E, 0xB8, 0x00]  # e4m3: 448, -1, 0
    assert packed[64:68].tolist() == [0x80, 0x3F, 0x00, 0xC0]  # bf16 little-endian: 1, -2
    assert packed[68:].tolist() == [127] + [0] * 7  # ue8m0 of scale 1, then padding


def test_layout_of_an_fp4_key_has_the_even_value_in_the_low_nibble():
    x = np.zeros((1, 33))
    x[0, :4] = [0.5, -1.0, 6.0, 3.0]
    x[0, 32] = 12.0
    packed = Fp4IndexEntry(33).encode(x)[0]
    # Codes: 0.5 = 1, -1 = 8 + 2, 6 = 7, 3 = 5; the last block scales 12 to 6.
    assert packed[:2].tolist() == [1 | (10 << 4), 7 | (5 << 4)]
    assert packed[16] == 7
    assert packed[17:].tolist() == [127, 128]


def test_layout_of_an_fp8_key_ends_in_a_float32_scale():
    packed = Fp8IndexEntry(2).encode(np.array([[448.0 * 3, 0.0]]))[0]
    assert packed.tolist() == [0x7E, 0x00, *np.array([3.0], dtype="<f4").tobytes()]


def test_bf16_has_eight_bits_of_mantissa():
    x = np.array([[1 + 2**-7, 1 + 2**-8, 1 + 3 * 2**-8]])
    assert stored(Bf16Entry(3), x).tolist() == [[1 + 2**-7, 1.0, 1 + 2**-6]]


def test_plain_values_are_untouched():
    x = np.array([[1 / 3, 1e300]])
    entry = PlainEntry(2, "float64")
    assert stored(entry, x).tolist() == x.tolist()
    assert entry.rotate(x) is x
    assert not entry.half_step(x).any()


@pytest.mark.parametrize("dim", [1, 2, 3, 12, 96, 128])
def test_hadamard_is_orthonormal(dim):
    matrix = hadamard(np.eye(dim))
    assert matrix @ matrix.T == pytest.approx(np.eye(dim), abs=1e-14)
    size = dim & -dim  # rotated in blocks of the largest power of two that divides it
    assert set(np.round(np.abs(matrix) * math.sqrt(size), 12).reshape(-1).tolist()) <= {0.0, 1.0}
    assert np.count_nonzero(matrix) == dim * size


def test_hadamard_of_four_by_hand():
    (y,) = hadamard(np.array([[1.0, 2.0, 3.0, 4.0]]))
    assert y.tolist() == [10 / 2, -2 / 2, -4 / 2, 0 / 2]


@given(
    seed=st.integers(0, 2**32 - 1), entry=st.sampled_from([Fp4IndexEntry(24), Fp8IndexEntry(128)])
)
def test_rotation_of_index_keys_keeps_dot_products(seed, entry):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, 5, entry.dim))
    rotated = entry.rotate(q) @ entry.rotate(k).T
    assert rotated == pytest.approx(q @ k.T, rel=1e-12, abs=1e-12)
    assert np.abs(entry.rotate(q) - q).max() > 1e-3


def test_key_value_rows_are_not_rotated():
    x = np.arange(512.0)[None]
    assert Fp8KvEntry(448, 64).rotate(x) is x
    assert Bf16Entry(512).rotate(x) is x
