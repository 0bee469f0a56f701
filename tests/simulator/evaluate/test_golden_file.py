"""Each way in which a golden file can be wrong, and the sentence that says so."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator.evaluate
from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.evaluate.golden_file import GoldenFile, expected_weights
from simulator.evaluate.random_weights import random_weights

GOLDEN = Path(simulator.evaluate.__file__).parent / "data" / "tiny_7.npz"
Q_A = "w/model.layers.2.self_attn.q_a_proj.weight"

Arrays = dict[str, Any]
Edit = Callable[[Arrays], object]


@pytest.fixture(scope="module")
def pristine() -> Arrays:
    with np.load(GOLDEN) as archive:
        return {key: archive[key] for key in archive.files}


@pytest.fixture
def arrays(pristine: Arrays) -> Arrays:
    return dict(pristine)


def edit_config(arrays: Arrays, change: dict[str, Any], drop: str | None = None) -> None:
    config = json.loads(str(arrays["config"])) | change
    config.pop(drop, None)
    arrays["config"] = np.array(json.dumps(config))


def load(arrays: Arrays, tmp_path: Path) -> GoldenFile:
    path = tmp_path / "edited.npz"
    np.savez(path, **arrays)
    return GoldenFile.load(path)


def complaint(arrays: Arrays, tmp_path: Path) -> str:
    """The message without the file's name, which it must start with."""
    with pytest.raises(FileFormatError) as caught:
        load(arrays, tmp_path)
    start = f"{tmp_path / 'edited.npz'}: "
    assert caught.value.message.startswith(start)
    assert all(line.startswith(start) for line in caught.value.message.split("\n"))
    return caught.value.message.removeprefix(start)


def test_loads_the_packaged_file() -> None:
    golden = GoldenFile.load(str(GOLDEN))
    assert golden.input_ids.shape == (299,)
    assert golden.chunks == (130, 1, 1, 40, 3, 1, 123)
    assert golden.logits.shape == (299, 97)
    assert golden.logits_chunked is not None
    assert golden.activations["layer2.streams_out"].shape == (299, 4, 64)
    assert {name: a.shape for name, a in golden.weights.items()} == expected_weights(golden.config)


def test_logits_chunked_and_chunks_are_optional(arrays: Arrays, tmp_path: Path) -> None:
    del arrays["logits_chunked"]
    edit_config(arrays, {}, drop="chunks")
    golden = load(arrays, tmp_path)
    assert golden.logits_chunked is None
    assert golden.chunks == (299,)


def test_prediction_layer_is_expected_where_config_and_file_have_it(
    arrays: Arrays, tmp_path: Path
) -> None:
    edit_config(arrays, {"num_nextn_predict_layers": 1, "compress_ratios": [0, 128, 4, 128, 4, 0]})
    assert not any("mtp" in name for name in load(arrays, tmp_path).weights)
    config = json.loads(str(arrays["config"]))
    mtp = {n: a for n, a in random_weights(config, 0, mtp=True).items() if ".mtp." in n}
    arrays |= {f"w/{name}": array for name, array in mtp.items()}
    assert set(mtp) <= set(load(arrays, tmp_path).weights)
    del arrays["w/model.mtp.0.block.mlp.gate.weight"]
    assert complaint(arrays, tmp_path).startswith("w/model.mtp.0.block.mlp.gate.weight: missing")
    edit_config(arrays, {"num_nextn_predict_layers": 0})
    assert "the config implies no such weight" in complaint(arrays, tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz: no such file"):
        GoldenFile.load(tmp_path / "none.npz")


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps([1]), b"PK\x03\x04 cut off"])
def test_not_an_npz(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "wrong.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"wrong\.npz: file: not an \.npz archive"):
        GoldenFile.load(path)


def test_single_array(tmp_path: Path) -> None:
    path = tmp_path / "one.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(FileFormatError, match=r"not an \.npz archive of arrays"):
        GoldenFile.load(path)


def test_corrupt_member_is_named(tmp_path: Path) -> None:
    content = bytearray(GOLDEN.read_bytes())
    place = content.index(b"input_ids.npy") + 2000
    content[place : place + 40] = bytes(40)
    path = tmp_path / "corrupt.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"corrupt\.npz: \S+: not a readable array"):
        GoldenFile.load(path)


def test_pickled_member_is_refused(arrays: Arrays, tmp_path: Path) -> None:
    arrays["logits"] = np.array([{"a": 1}], dtype=object)
    assert complaint(arrays, tmp_path).startswith("logits: not a readable array")


CONFIG_CASES: dict[str, dict[str, Any]] = {
    "config: missing key 'head_dim'": {"drop": "head_dim"},
    "config: 'head_dim' is 0": {"head_dim": 0},
    "config: 'head_dim' is 32.5": {"head_dim": 32.5},
    "config: 'hc_mult' is true": {"hc_mult": True},
    "config: 'rms_norm_eps' is nan": {"rms_norm_eps": float("nan")},
    "config: compress_ratios[1] is -4, expected 0 or 1": {"compress_ratios": [0, -4, 4, 128, 4]},
    "config: compress_ratios has 4 entries, expected 5 or 6": {"compress_ratios": [0, 128, 4, 128]},
    "config: missing key 'rope_scaling.factor'": {"rope_scaling": {"type": "yarn"}},
    "config: o_groups is 3, expected a divisor of the 4": {"o_groups": 3},
    "config: qk_rope_head_dim is 18, expected at most the 16": {"qk_rope_head_dim": 18},
    "config: num_experts_per_tok is 9, expected at most the 8": {"num_experts_per_tok": 9},
    "config: unknown key 'hc_mul'": {"hc_mul": 4},
    "config key 'chunks': needs a sum of 299 input tokens, has 298": {"chunks": [130, 168]},
    "config key 'chunks': needs counts > 0, has 0 at position 1": {"chunks": [299, 0]},
    "config key 'chunks': needs counts > 0, has -1 at position 1": {"chunks": [300, -1]},
    "config key 'chunks': needs a list of token counts, has '299'": {"chunks": "299"},
    "config key 'chunks': needs a list of token counts, has None": {"drop": "chunks"},
}


@pytest.mark.parametrize("sentence", CONFIG_CASES)
def test_config_keys(sentence: str, arrays: Arrays, tmp_path: Path) -> None:
    change = dict(CONFIG_CASES[sentence])
    edit_config(arrays, change, drop=change.pop("drop", None))
    assert complaint(arrays, tmp_path).startswith(sentence)


def test_unsupported_variant(arrays: Arrays, tmp_path: Path) -> None:
    edit_config(arrays, {"n_shared_experts": 2})
    with pytest.raises(UnsupportedError, match="config: 'n_shared_experts' needs 1, has 2"):
        load(arrays, tmp_path)


def set_value(key: str, place: tuple[int, ...], value: float) -> Edit:
    """Edit that overwrites one value of one array."""

    def edit(arrays: Arrays) -> None:
        arrays[key] = arrays[key].copy()
        arrays[key][place] = value

    return edit


def replace(key: str, array: object) -> Edit:
    return lambda arrays: arrays.update({key: np.asarray(array)})


def drop(key: str) -> Edit:
    return lambda arrays: arrays.pop(key)


ZEROS = np.zeros
TID = "w/model.layers.0.mlp.gate.tid2eid"

ARRAY_CASES: list[tuple[Edit, str]] = [
    (drop("config"), r"config: missing; the file has 165 other keys"),
    (replace("config", "{broken"), r"config: not valid JSON \(Expecting property name.*\)"),
    (replace("config", "[1, 2]"), r"config: needs a JSON object, has \[1, 2\]"),
    (replace("config", [1.0]), r"config: needs one JSON text, has float64 of shape \[1\]"),
    (drop("input_ids"), r"input_ids: missing.*"),
    (
        replace("input_ids", ZEROS((2, 299), int)),
        r"input_ids: needs integers of shape \[1, T\] .*, has int64 of shape \[2, 299\]",
    ),
    (replace("input_ids", ZEROS((1, 0), int)), r"input_ids: needs integers .*shape \[1, 0\]"),
    (replace("input_ids", ZEROS((1, 299))), r"input_ids: needs integers .*has float64.*"),
    (
        set_value("input_ids", (0, 12), 97),
        r"input_ids: needs ids of 97 tokens .*, 0 to 96, has 97 at position 12 \(1 outside\)",
    ),
    (set_value("input_ids", (0, 3), -1), r"input_ids: .*has -1 at position 3.*"),
    (
        replace("input_ids", ZEROS((1, 4100), int)),
        r"input_ids: needs at most max_position_embeddings = 4096 tokens, has 4100 \(4 too many\)",
    ),
    (drop("logits"), r"logits: missing.*"),
    (
        replace("logits", ZEROS((1, 299, 96))),
        r"logits: needs shape \[1, 299, 97\], has \[1, 299, 96\]",
    ),
    (replace("logits_chunked", ZEROS((299, 97))), r"logits_chunked: needs shape \[1, 299, 97\].*"),
    (set_value("logits", (0, 1, 2), np.nan), r"logits: 1 of 29003 values are NaN or infinite.*"),
    (drop(Q_A), rf"{Q_A}: missing \(1 of 149 weights are\)"),
    (replace(Q_A, ZEROS((24, 63))), rf"{Q_A}: needs shape \[24, 64\], has \[24, 63\]"),
    (replace(Q_A, ZEROS((24, 64), int)), rf"{Q_A}: needs floating-point numbers, has int64"),
    (
        replace(Q_A, np.full((24, 64), np.inf)),
        rf"{Q_A}: 1536 of 1536 values are NaN or infinite, the first at \[0, 0\]",
    ),
    (
        set_value(Q_A, (3, 5), np.nan),
        rf"{Q_A}: 1 of 1536 values are NaN or infinite, the first at \[3, 5\]",
    ),
    (
        replace("w/model.layers.2.self_attn.q_a_proj.wieght", ZEROS(1)),
        r"w/model.*wieght: the config implies no such weight; nearest is '.*q_a_proj\.weight'",
    ),
    (set_value(TID, (2, 1), 8), rf"{TID}: needs ids of 8 experts, 0 to 7, has 8 at position 5.*"),
    (replace(TID, ZEROS((97, 2))), rf"{TID}: needs integers, has float64"),
    (replace("act/layer5.attn_in", ZEROS((1, 299, 64))), r"act/layer5.attn_in: unknown activat.*"),
    (replace("act/layer0.q", ZEROS((1, 299, 64))), r"act/layer0.q: unknown activation; known .*"),
    (
        replace("act/layer0.attn_in", ZEROS((1, 298, 64))),
        r"act/layer0\.attn_in: needs shape \[1, 299, 64\], has \[1, 298, 64\]",
    ),
    (replace("logit", ZEROS(1)), r"logit: unknown key; known are config, input_ids, .*"),
]


@pytest.mark.parametrize(("edit", "sentence"), ARRAY_CASES, ids=[s for _, s in ARRAY_CASES])
def test_arrays(edit: Edit, sentence: str, arrays: Arrays, tmp_path: Path) -> None:
    edit(arrays)
    found = complaint(arrays, tmp_path)
    assert re.fullmatch(sentence, found), found
