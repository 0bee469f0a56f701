"""Golden outputs of a small model: config, weights, token ids, logits and activations in one npz.

Keys: `config` (JSON text, Hugging Face names), `input_ids` [1, T], `logits` [1, T, vocab],
optional `logits_chunked` (the same tokens fed in pieces of `config["chunks"]` tokens),
`act/layerI.NAME` and `w/HUGGING_FACE_NAME`. A file is checked completely when it is loaded, so
what a `GoldenFile` holds fits together.

    golden = GoldenFile.load("tiny_7.npz")
    forward(golden.config, golden.weights, golden.input_ids).logits - golden.logits
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError, nearest_name
from simulator.basis.yaml_loader import LineMap
from simulator.evaluate.dense_reference import SUPPORTED, Compression, compression_of
from workloads.deepseek_v4.config import model_from_mapping


class _GoldenLines(LineMap):
    """Names the file and its `config` where a text file would have a line."""

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = FileFormatError
    ) -> InputError:
        return kind(f"{self.path}: config: {sentence}")


def read_config(path: Path, text: str) -> dict[str, Any]:
    """Config from its JSON text.

    Raises FileFormatError naming the file and the key, UnsupportedError for a model variant that
    the dense reference does not define.
    """
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as broken:
        raise FileFormatError(f"{path}: config: not valid JSON ({broken})") from None
    if not isinstance(config, dict):
        raise FileFormatError(f"{path}: config: needs a JSON object, has {_shown(config)}")
    model_from_mapping(config, _GoldenLines(path, {}), name=path.stem)
    for key, only in SUPPORTED.items():
        if config.get(key, only) != only:
            given = _shown(config[key])
            raise UnsupportedError(f"{path}: config: {key!r} needs {only!r}, has {given}")
    return config


def _shown(value: object) -> str:
    """A value as JSON, short enough for a sentence."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


Shape = tuple[int, ...]

TOP_KEYS = ("config", "input_ids", "logits", "logits_chunked")
ACTIVATION_NAMES = ("attn_in", "attn_out", "moe_out", "streams_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """A checked golden file; the batch axis of one is dropped and key prefixes are cut off.

    `chunks` sums to T; it is (T,) in a file without `config["chunks"]`.
    """

    path: Path
    config: dict[str, Any]
    input_ids: np.ndarray
    logits: np.ndarray
    logits_chunked: np.ndarray | None
    chunks: tuple[int, ...]
    activations: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]

    @classmethod
    def load(cls, path: str | Path) -> GoldenFile:
        """Read and check a file.

        Raises FileFormatError naming file and key for wrong content, UnsupportedError for a
        model variant that the dense reference does not define, InputError for a missing file.
        """
        content = _Content(Path(path))
        config = content.config()
        ids = content.input_ids(config)
        T, vocab = len(ids), config["vocab_size"]
        chunked = "logits_chunked" in content.arrays
        return cls(
            path=content.path,
            config=config,
            input_ids=ids,
            logits=content.batch_of_one("logits", (T, vocab)),
            logits_chunked=content.batch_of_one("logits_chunked", (T, vocab)) if chunked else None,
            chunks=content.chunks(config, T, needed=chunked),
            activations=content.activations(config, T),
            weights=content.weights(config),
        )


def load_inputs(path: str | Path) -> tuple[dict[str, Any], np.ndarray, dict[str, np.ndarray]]:
    """(config, token ids, weights) of a file that need not hold outputs; checked alike."""
    content = _Content(Path(path))
    config = content.config()
    return config, content.input_ids(config), content.weights(config)


def expected_weights(config: Mapping[str, Any], *, mtp: bool = False) -> dict[str, Shape]:
    """Hugging Face name -> shape of every weight that a config implies.

    `mtp` adds the multi-token-prediction layers under `model.mtp.N.`.
    """
    d, vocab, layers = config["hidden_size"], config["vocab_size"], config["num_hidden_layers"]
    table: dict[str, Shape] = {"model.embed_tokens.weight": (vocab, d)}
    for i in range(layers):
        layer = _layer_weights(
            config, compression_of(config, i), hashed=i < config["num_hash_layers"]
        )
        table |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    table |= {f"model.{name}": shape for name, shape in _head_weights(config).items()}
    table["lm_head.weight"] = (vocab, d)
    if mtp and config.get("dspark_target_layer_ids"):
        return table | _dspark_weights(config)
    if mtp:
        for stage in range(max(1, config.get("num_nextn_predict_layers") or 1)):
            own: dict[str, Shape] = {"enorm.weight": (d,), "hnorm.weight": (d,)}
            own |= {"e_proj.weight": (d, d), "h_proj.weight": (d, d)}
            block = _layer_weights(config, compression_of(config, layers + stage), hashed=False)
            own |= {f"block.{name}": shape for name, shape in block.items()}
            own |= _head_weights(config)
            table |= {f"model.mtp.{stage}.{name}": shape for name, shape in own.items()}
    return table


def _dspark_weights(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Stages of a DSpark head under `model.mtp.N.`, what joins them to the backbone, its heads."""
    d, stages = config["hidden_size"], len(config["dspark_target_layer_ids"])
    experts = {
        "n_routed_experts": config.get("dspark_n_routed_experts") or config["n_routed_experts"]
    }
    table: dict[str, Shape] = {}
    for stage in range(stages):
        kind = compression_of(config, config["num_hidden_layers"] + stage)
        block = _layer_weights({**config, **experts}, kind, hashed=False)
        table |= {f"model.mtp.{stage}.block.{name}": shape for name, shape in block.items()}
    table |= {
        "model.mtp.0.main_proj.weight": (d, stages * d),
        "model.mtp.0.main_norm.weight": (d,),
    }
    last, rank = f"model.mtp.{stages - 1}.", config["dspark_markov_rank"]
    table |= {f"{last}{name}": shape for name, shape in _head_weights(config).items()}
    for name in ("markov_w1", "markov_w2"):
        table[f"{last}markov_head.{name}.weight"] = (config["vocab_size"], rank)
    if config.get("enable_confidence_head", True):
        width = d + (rank if config.get("confidence_head_with_markov", True) else 0)
        table[f"{last}confidence_head.proj.weight"] = (1, width)
    return table


def _head_weights(config: Mapping[str, Any]) -> dict[str, Shape]:
    n, d = config["hc_mult"], config["hidden_size"]
    hc = {"hc_head.hc_fn": (n, n * d), "hc_head.hc_base": (n,), "hc_head.hc_scale": (1,)}
    return {"norm.weight": (d,), **hc}


def _layer_weights(
    config: Mapping[str, Any], kind: Compression, *, hashed: bool
) -> dict[str, Shape]:
    d, n, inner = config["hidden_size"], config["hc_mult"], config["moe_intermediate_size"]
    E, mixes = config["n_routed_experts"], 2 * n + n * n
    attention = _attention_weights(config, kind)
    table: dict[str, Shape] = {f"self_attn.{name}": s for name, s in attention.items()}
    table["mlp.gate.weight"] = (E, d)
    if hashed:
        table["mlp.gate.tid2eid"] = (config["vocab_size"], config["num_experts_per_tok"])
    else:
        table["mlp.gate.e_score_correction_bias"] = (E,)
    table |= {"mlp.experts.gate_up_proj": (E, 2 * inner, d), "mlp.experts.down_proj": (E, d, inner)}
    for name, shape in (("gate", (inner, d)), ("up", (inner, d)), ("down", (d, inner))):
        table[f"mlp.shared_experts.{name}_proj.weight"] = shape
    table |= {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,)}
    for site in ("attn_hc", "ffn_hc"):
        table[f"{site}.fn"] = (mixes, n * d)
        table |= {f"{site}.base": (mixes,), f"{site}.scale": (3,)}
    return table


def _attention_weights(config: Mapping[str, Any], kind: Compression) -> dict[str, Shape]:
    d, H, c = config["hidden_size"], config["num_attention_heads"], config["head_dim"]
    latent, groups, rank = config["q_lora_rank"], config["o_groups"], config["o_lora_rank"]
    table: dict[str, Shape] = {
        "sinks": (H,),
        "q_a_proj.weight": (latent, d),
        "q_a_norm.weight": (latent,),
        "q_b_proj.weight": (H * c, latent),
        "kv_proj.weight": (c, d),
        "kv_norm.weight": (c,),
        "o_a_proj.weight": (groups * rank, H * c // groups),
        "o_b_proj.weight": (d, groups * rank),
    }
    if kind.ratio:
        table |= _compressor_weights("compressor.", d, c, kind)
    if kind.indexed:
        heads, dim, indexer = (
            config["index_n_heads"],
            config["index_head_dim"],
            "compressor.indexer.",
        )
        table |= _compressor_weights(indexer, d, dim, kind)
        table[f"{indexer}q_b_proj.weight"] = (heads * dim, latent)
        table[f"{indexer}scorer.weights_proj.weight"] = (heads, d)
    return table


def _compressor_weights(prefix: str, d: int, dim: int, kind: Compression) -> dict[str, Shape]:
    wide = 2 * dim if kind.indexed else dim  # overlap: one half for the next block
    return {
        f"{prefix}position_bias": (kind.ratio, wide),
        f"{prefix}kv_proj.weight": (wide, d),
        f"{prefix}gate_proj.weight": (wide, d),
        f"{prefix}kv_norm.weight": (dim,),
    }


class _Content:
    """The arrays of one file; each method checks and returns one part of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays = self._read()

    def config(self) -> dict[str, Any]:
        text = self._array("config")
        if text.dtype.kind != "U" or text.shape:
            self._fail("config", f"needs one JSON text, has {text.dtype} of shape {[*text.shape]}")
        return read_config(self.path, str(text))

    def input_ids(self, config: Mapping[str, Any]) -> np.ndarray:
        ids, most = self._array("input_ids"), config["max_position_embeddings"]
        if ids.ndim != 2 or len(ids) != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
            have = f"{ids.dtype} of shape {[*ids.shape]}"
            self._fail("input_ids", f"needs integers of shape [1, T] with T >= 1, has {have}")
        if ids.size > most:
            problem = f"needs at most max_position_embeddings = {most} tokens, has {ids.size}"
            self._fail("input_ids", f"{problem} ({ids.size - most} too many)")
        self._check_ids("input_ids", ids[0], config["vocab_size"], "tokens of the vocabulary")
        return ids[0].astype(np.int64)

    def chunks(self, config: Mapping[str, Any], T: int, *, needed: bool) -> tuple[int, ...]:
        pieces = config.get("chunks", None if needed else [T])
        what = "config key 'chunks'"
        if not isinstance(pieces, list) or any(type(piece) is not int for piece in pieces):
            self._fail(what, f"needs a list of token counts, has {pieces!r}")
        for place, piece in enumerate(pieces):
            if piece <= 0:
                self._fail(what, f"needs counts > 0, has {piece} at position {place}")
        if sum(pieces) != T:
            self._fail(what, f"needs a sum of {T} input tokens, has {sum(pieces)}")
        return tuple(pieces)

    def batch_of_one(self, key: str, shape: Shape) -> np.ndarray:
        """A finite array [1, *shape], without its first axis."""
        array = self._array(key)
        self._check_shape(key, array, (1, *shape))
        self._check_finite(key, array)
        return array[0]

    def activations(self, config: Mapping[str, Any], T: int) -> dict[str, np.ndarray]:
        d, n, layers = config["hidden_size"], config["hc_mult"], config["num_hidden_layers"]
        found = {}
        for name in self._names("act/"):
            match = re.fullmatch(r"layer(0|[1-9][0-9]*)\.(\w+)", name)
            if not match or int(match[1]) >= layers or match[2] not in ACTIVATION_NAMES:
                allowed = f"layerI with I < {layers} and one of {', '.join(ACTIVATION_NAMES)}"
                self._fail(f"act/{name}", f"unknown activation; known are {allowed}")
            shape = (T, n, d) if match[2] == "streams_out" else (T, d)
            found[name] = self.batch_of_one(f"act/{name}", shape)
        return found

    def weights(self, config: Mapping[str, Any]) -> dict[str, np.ndarray]:
        names = self._names("w/")
        mtp = (config.get("num_nextn_predict_layers") or 0) > 0
        mtp = mtp or bool(config.get("dspark_target_layer_ids"))
        mtp = mtp and any(name.startswith("model.mtp.") for name in names)
        expected = expected_weights(config, mtp=mtp)
        missing = [name for name in expected if name not in names]
        if missing:
            self._fail(
                f"w/{missing[0]}", f"missing ({len(missing)} of {len(expected)} weights are)"
            )
        for name in names:
            if name not in expected:
                near = nearest_name(name, expected)
                hint = f"; nearest is {near!r}" if near else ""
                self._fail(f"w/{name}", f"the config implies no such weight{hint}")
            self._check_weight(f"w/{name}", expected[name], config["n_routed_experts"])
        return {name: self.arrays[f"w/{name}"] for name in expected}

    def _check_weight(self, key: str, shape: Shape, experts: int) -> None:
        array = self.arrays[key]
        self._check_shape(key, array, shape)
        if key.endswith("tid2eid"):
            self._check_ids(key, array.reshape(-1), experts, "experts")
        else:
            self._check_finite(key, array)

    def _check_shape(self, key: str, array: np.ndarray, shape: Shape) -> None:
        if array.shape != shape:
            self._fail(key, f"needs shape {[*shape]}, has {[*array.shape]}")

    def _check_finite(self, key: str, array: np.ndarray) -> None:
        if array.dtype.kind != "f":
            self._fail(key, f"needs floating-point numbers, has {array.dtype}")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            share = f"{len(bad)} of {array.size} values are NaN or infinite"
            self._fail(key, f"{share}, the first at {bad[0].tolist()}")

    def _check_ids(self, key: str, ids: np.ndarray, count: int, of: str) -> None:
        if ids.dtype.kind not in "iu":
            self._fail(key, f"needs integers, has {ids.dtype}")
        bad = np.flatnonzero((ids < 0) | (ids >= count))
        if len(bad):
            have = f"has {ids[bad[0]]} at position {bad[0]} ({len(bad)} outside)"
            self._fail(key, f"needs ids of {count} {of}, 0 to {count - 1}, {have}")

    def _names(self, prefix: str) -> list[str]:
        return [key[len(prefix) :] for key in self.arrays if key.startswith(prefix)]

    def _array(self, key: str) -> np.ndarray:
        if key not in self.arrays:
            self._fail(key, f"missing; the file has {len(self.arrays)} other keys")
        return self.arrays[key]

    def _read(self) -> dict[str, np.ndarray]:
        if not self.path.is_file():
            raise InputError(f"{self.path}: no such file; needs a golden .npz file")
        key, arrays = "file", {}
        if not zipfile.is_zipfile(self.path):
            self._fail(key, "not an .npz archive of arrays")
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                for key in archive.files:
                    self._check_known(key)
                for key in archive.files:
                    arrays[key] = archive[key]
        except InputError:
            raise
        except Exception as broken:  # numpy's readers raise whatever a damaged header leads to
            needs = "not an .npz archive" if key == "file" else "not a readable array"
            self._fail(
                key, f"{needs} ({str(broken).splitlines()[0] if str(broken) else 'cut off'})"
            )
        for key, array in arrays.items():
            if not isinstance(array, np.ndarray):
                self._fail(key, "not a readable array (no .npy header)")
        return arrays

    def _check_known(self, key: str) -> None:
        if key not in TOP_KEYS and not key.startswith(("act/", "w/")):
            self._fail(key, f"unknown key; known are {', '.join(TOP_KEYS)}, act/... and w/...")

    def _fail(self, what: str, problem: str) -> NoReturn:
        raise FileFormatError(f"{self.path}: {what}: {problem}")
