"""A user's file of q, k and w: what is read, and one sentence for each fault."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.indexer.index_case import load_case
from workloads.deepseek_v4.config import find_model

CONFIG = find_model("v4-flash")


def good():
    rng = np.random.default_rng(5)
    return {
        "q": rng.standard_normal((2, 64, 128)),
        "k": rng.standard_normal((600, 128)),
        "w": rng.standard_normal((2, 64)),
    }


def saved(tmp_path, **changes):
    path = tmp_path / "real.npz"
    arrays = {name: array for name, array in (good() | changes).items() if array is not None}
    np.savez(path, **arrays)
    return path


def test_a_good_file_is_read_in_float32(tmp_path):
    case = load_case(saved(tmp_path, extra=np.ones(3)), CONFIG)
    assert (case.name, case.queries, case.entries, case.synthetic) == ("real", 2, 600, False)
    for name, array in good().items():
        assert getattr(case, name).dtype == np.float32
        assert np.array_equal(getattr(case, name), array.astype(np.float32))


def test_half_precision_and_integers_are_read(tmp_path):
    case = load_case(
        saved(tmp_path, q=np.ones((2, 64, 128), np.float16), w=np.ones((2, 64), int)), CONFIG
    )
    assert case.q.sum() == 2 * 64 * 128
    assert case.w.sum() == 2 * 64


def broken(name, place, value):
    array = good()[name]
    array[place] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"w": None}, ["no array w", "it holds k, q", "w [queries, heads]"]),
        ({"q": None, "k": None}, ["no array q and no k", "it holds w"]),
        ({"q": np.ones((64, 128))}, ["q has 2 axes [64, 128]", "expected 3"]),
        ({"q": np.ones((2, 32, 128))}, ["32 heads", "the 64 of v4-flash", "32 too few"]),
        ({"k": np.ones((600, 130))}, ["130 dim", "the 128 of v4-flash", "2 too many"]),
        ({"w": np.ones((3, 64))}, ["3 queries", "the 2 of q", "1 too many"]),
        (
            {"q": np.full((2, 64, 128), 1e20), "k": np.full((600, 128), 1e20)},
            ["scores of these q, k and w reach at most", "e+44", "at most 1e+18"],
        ),
        ({"w": np.zeros((2, 64))}, ["reach at most 0, expected more than 0"]),
        ({"k": np.ones((512, 128))}, ["512 entries", "picks 512", "at least 513", "1 more"]),
        ({"q": np.ones((0, 64, 128))}, ["q [0, 64, 128] is empty"]),
        ({"k": np.full((600, 128), 1j)}, ["k has type complex128"]),
        ({"k": np.full((600, 128), "a")}, ["k has type <U1"]),
        (broken("k", (3, 4), np.nan), ["k has 1 values of 76,800", "not finite"]),
        (broken("q", (0, 0), 1e39), ["q has 128 values", "not finite in float32"]),
    ],
)
def test_a_fault_is_one_sentence(tmp_path, changes, words):
    path = saved(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        load_case(path, CONFIG)
    message = caught.value.message
    assert "real.npz" in message
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        (b"", "no .npz file of plain numbers"),
        (b"PK\x03\x04 cut off", "no .npz file of plain numbers"),
        (b"q,k,w\n1,2,3\n", "no .npz file of plain numbers"),
    ],
)
def test_a_file_that_is_no_npz_is_one_sentence(tmp_path, content, words):
    path = tmp_path / "real.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_case(path, CONFIG)


def test_a_bare_array_and_pickled_objects_are_refused(tmp_path):
    path = tmp_path / "bare.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match="one bare array"):
        load_case(path, CONFIG)
    np.savez(tmp_path / "objects.npz", **{**good(), "k": np.array([{}], dtype=object)})
    with pytest.raises(InputError, match="plain numbers"):
        load_case(tmp_path / "objects.npz", CONFIG)
