"""Block files: every payload comes back as it was, and no altered byte passes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from simulator.basis.errors import InputError
from simulator.cache.block_file import DamagedBlockError, decode_block, encode_block, file_name

KEYS = st.text() | st.binary()
ARRAYS = hnp.arrays(
    dtype=st.sampled_from(["<f8", ">f4", "<f2", "<i8", "|u1", "?", "<c8", "<M8[ns]"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
PAYLOADS = st.dictionaries(st.text(max_size=5), ARRAYS | st.binary(max_size=40), max_size=4)


def _file(key, payload):
    return b"".join(encode_block(key, payload))


@given(KEYS, PAYLOADS)
def test_what_goes_in_comes_out(key, payload):
    found_key, found = decode_block(_file(key, payload), file_name(key))
    assert (type(found_key), found_key) == (type(key), key)
    assert list(found) == list(payload)
    for name, value in payload.items():
        if isinstance(value, bytes):
            assert found[name] == value
        else:
            assert found[name].dtype == value.dtype
            assert found[name].shape == value.shape
            assert found[name].tobytes() == value.tobytes()  # NaN payloads and -0.0 included


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_formats_beyond_numpy(dtype):
    rows = np.arange(12.0).reshape(3, 4).astype(dtype).T  # not contiguous
    found = decode_block(_file("k", {"rows": rows}))[1]["rows"]
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.astype(float), np.arange(12.0).reshape(3, 4).T)
    found[0] = 1  # a copy that may be written to


@pytest.mark.parametrize(
    "array",
    [np.array([None]), np.zeros(2, dtype=[("a", "f8")]), np.zeros(2, dtype="V7")],
    ids=["objects", "records", "raw"],
)
def test_what_a_block_cannot_hold_is_a_sentence(array):
    with pytest.raises(InputError, match=r"'x' has dtype .* give an array of plain numbers"):
        encode_block("k", {"x": array})


def test_text_and_bytes_are_different_keys():
    assert file_name("ab") != file_name(b"ab")
    assert file_name("6162") != file_name(b"ab")


SMALL = _file("key", {"a": np.arange(3.0), "b": b"tail"})


def test_every_flipped_bit_is_noticed():
    for bit in range(8 * len(SMALL)):
        damaged = bytearray(SMALL)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedBlockError):
            decode_block(bytes(damaged), file_name("key"))


def test_every_other_length_is_noticed():
    for length in range(len(SMALL)):
        with pytest.raises(DamagedBlockError, match="truncated"):
            decode_block(SMALL[:length])
    with pytest.raises(DamagedBlockError, match="too long"):
        decode_block(SMALL + b"\0")


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"V4BLOCK\n\2\0\0\0" + SMALL[12:], None, "wrong version: 2, expected 1"),
        (b"PK\3\4" + SMALL[4:], None, "no block file"),
        (SMALL, file_name("other"), "wrong name: the block of key 'key'"),
        (SMALL[:-1] + b"\0", None, "checksum differs"),
    ],
)
def test_damage_is_named(data, name, reason):
    with pytest.raises(DamagedBlockError, match=reason):
        decode_block(data, name)
