"""The dense reference against golden outputs, and against arithmetic where those are silent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator.evaluate
from simulator.basis.errors import UnsupportedError
from simulator.evaluate.dense_reference import DenseResult, forward, mtp_forward
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.random_weights import random_weights

GOLDEN = Path(simulator.evaluate.__file__).parent / "data" / "tiny_7.npz"

ONE_LAYER: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 24,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "head_dim": 16,
    "q_lora_rank": 12,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "o_groups": 2,
    "o_lora_rank": 8,
    "index_n_heads": 32,
    "index_head_dim": 8,
    "index_topk": 3,
    "sliding_window": 10,
    "hc_mult": 3,
    "compress_ratios": [0],
    "num_hash_layers": 0,
    "qk_rope_head_dim": 4,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 256,
    },
    "rms_norm_eps": 1e-6,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
}


@pytest.fixture(scope="module")
def golden() -> GoldenFile:
    return GoldenFile.load(GOLDEN)


@pytest.fixture(scope="module")
def result(golden: GoldenFile) -> DenseResult:
    return forward(golden.config, golden.weights, golden.input_ids)


def test_golden_logits(golden: GoldenFile, result: DenseResult) -> None:
    assert golden.logits_chunked is not None
    np.testing.assert_allclose(result.logits, golden.logits, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.logits, golden.logits_chunked, rtol=0, atol=1e-9)


def test_golden_activations(golden: GoldenFile, result: DenseResult) -> None:
    assert len(golden.activations) == 13
    for name, stored in golden.activations.items():
        scale = np.abs(stored).max()
        np.testing.assert_allclose(
            result.activations[name], stored, rtol=0, atol=1e-6 * scale, err_msg=name
        )


def test_activations_name_every_layer(result: DenseResult) -> None:
    names = ("attn_in", "attn_out", "moe_out", "streams_out")
    assert list(result.activations) == [f"layer{i}.{name}" for i in range(5) for name in names]
    assert result.streams is result.activations["layer4.streams_out"]


def test_golden_choices_are_well_formed(golden: GoldenFile, result: DenseResult) -> None:
    assert set(result.topk_ids) == {2, 4}
    for picks in result.topk_ids.values():
        for t, ids in enumerate(picks):
            assert len(ids) == len(set(ids)) == min((t + 1) // 4, 8)
            assert all(0 <= i < (t + 1) // 4 for i in ids)
    table = golden.weights["model.layers.0.mlp.gate.tid2eid"]
    np.testing.assert_array_equal(result.expert_ids[0], table[golden.input_ids])
    assert all(result.expert_ids[i].shape == (299, 2) for i in range(5))


@pytest.mark.parametrize("ratio", [0, 4, 128])
def test_number_of_visible_keys(ratio: int) -> None:
    """All keys equal and all scores zero: the output is (keys seen) / (keys seen + 1) of one value.

    The sink's score is zero too, which adds the 1. One token id everywhere, rotary dims zeroed.
    """
    config = ONE_LAYER | {"compress_ratios": [ratio]}
    weights = random_weights(config, 1)
    attn = "model.layers.0.self_attn."
    weights[attn + "q_b_proj.weight"][:] = 0
    weights[attn + "sinks"][:] = 0
    weights[attn + "kv_norm.weight"][-4:] = 0
    if ratio:
        kv = weights[attn + "kv_proj.weight"]
        weights[attn + "compressor.kv_proj.weight"] = np.tile(kv, (2 if ratio == 4 else 1, 1))
        weights[attn + "compressor.kv_norm.weight"] = weights[attn + "kv_norm.weight"]
    out = forward(config, weights, [5] * 300).activations["layer0.attn_out"]
    share = out[:, 0] / out[0, 0] / 2  # the first query sees itself only: a share of 1/2
    seen = share / (1 - share)
    expected = {
        0: {0: 1, 8: 9, 9: 10, 10: 10, 299: 10},
        4: {0: 1, 2: 3, 3: 4 + 1, 7: 8 + 2, 10: 10 + 2, 11: 10 + 3, 15: 10 + 3, 299: 10 + 3},
        128: {0: 1, 126: 10, 127: 10 + 1, 254: 10 + 1, 255: 10 + 2, 299: 10 + 2},
    }
    for t, count in expected[ratio].items():
        assert seen[t] == pytest.approx(count, rel=1e-6), t


@pytest.mark.parametrize("ratio", [0, 4, 128])
def test_reach_of_one_token(ratio: int) -> None:
    """Changing token 20 of 300 moves exactly the queries that can see it."""
    config = ONE_LAYER | {"compress_ratios": [ratio], "index_topk": 100}
    weights = random_weights(config, 2)
    ids = np.arange(300) % 11
    other = ids.copy()
    other[20] = (ids[20] + 1) % 11
    change = forward(config, weights, ids).logits - forward(config, weights, other).logits
    reached = set(np.flatnonzero(np.abs(change).max(axis=1) > 1e-12))
    window = set(range(20, 30))
    compressed = {0: set(), 4: set(range(23, 300)), 128: set(range(127, 300))}
    assert reached == window | compressed[ratio]


def test_ties_go_to_the_lowest_id() -> None:
    config = ONE_LAYER | {"compress_ratios": [4]}
    weights = random_weights(config, 3)
    weights["model.layers.0.self_attn.compressor.indexer.q_b_proj.weight"][:] = 0
    weights["model.layers.0.mlp.gate.weight"][:] = 0
    weights["model.layers.0.mlp.gate.e_score_correction_bias"][:] = 0
    found = forward(config, weights, np.arange(40) % 11)
    assert found.topk_ids[0][39] == [0, 1, 2]
    assert found.topk_ids[0][7] == [0, 1]
    assert (found.expert_ids[0] == [0, 1]).all()


@pytest.mark.parametrize("clamped", [True, False])
def test_swiglu_clamp_by_hand(clamped: bool) -> None:
    """Hidden size 1 and no attention output: every expert's input is exactly 1."""
    config = ONE_LAYER | {
        "hidden_size": 1,
        "moe_intermediate_size": 2,
        "n_routed_experts": 1,
        "num_experts_per_tok": 1,
        "rms_norm_eps": 0.0,
    }
    weights = random_weights(config, 4)
    layer = "model.layers.0."
    weights["model.embed_tokens.weight"][:] = 1
    weights[layer + "self_attn.o_b_proj.weight"][:] = 0
    weights[layer + "post_attention_layernorm.weight"][:] = 1
    weights[layer + "mlp.experts.gate_up_proj"][0, :, 0] = [20, -12, 15, -25]
    weights[layer + "mlp.experts.down_proj"][0, 0] = [1, 1e5]
    weights[layer + "mlp.shared_experts.gate_proj.weight"][:, 0] = [12, -1]
    weights[layer + "mlp.shared_experts.up_proj.weight"][:, 0] = [-14, 30]
    weights[layer + "mlp.shared_experts.down_proj.weight"][0] = [1, 10]

    def silu(x: float) -> float:
        return x / (1 + math.exp(-x))

    routed = silu(10) * 10 + 1e5 * silu(-12) * -10  # the gate has no lower limit
    shared = silu(10) * -10 + 10 * silu(-1) * 10
    unclamped = silu(12) * -14 + 10 * silu(-1) * 30
    found = forward(config, weights, [3, 4], clamp_shared_expert=clamped)
    expected = 1.5 * routed + (shared if clamped else unclamped)
    np.testing.assert_allclose(found.activations["layer0.moe_out"], expected, rtol=1e-12)


@pytest.mark.parametrize("ratios", [[0], [4], [128], [8], [0, 4, 128, 4]])
def test_a_prefix_does_not_depend_on_what_follows(ratios: list[int]) -> None:
    config = ONE_LAYER | {"compress_ratios": ratios, "num_hidden_layers": len(ratios)}
    config |= {"num_hash_layers": 1}
    weights = random_weights(config, 5)
    ids = np.random.default_rng(5).integers(0, 11, 261)
    whole = forward(config, weights, ids).logits
    for length in (1, 3, 4, 128, 135, 256):
        prefix = forward(config, weights, ids[:length]).logits
        np.testing.assert_allclose(prefix, whole[:length], rtol=0, atol=1e-12)


def test_yarn_stretches_only_slow_pairs_of_compressed_layers() -> None:
    """Factor 1 turns YaRN off; a window-only layer never had it; a ratio-128 layer changes."""
    plain = ONE_LAYER | {"rope_scaling": None}
    factor_one = ONE_LAYER | {"rope_scaling": ONE_LAYER["rope_scaling"] | {"factor": 1}}
    ids = np.arange(140) % 11
    for ratio, same in ((0, True), (128, False)):
        ratios = {"compress_ratios": [ratio]}
        weights = random_weights(plain | ratios, 6)
        logits = forward(plain | ratios, weights, ids).logits
        np.testing.assert_allclose(forward(factor_one | ratios, weights, ids).logits, logits)
        stretched = forward(ONE_LAYER | ratios, weights, ids).logits
        assert np.allclose(stretched, logits, rtol=0, atol=1e-12) is same


@pytest.mark.parametrize("ratio", [0, 4])
@pytest.mark.parametrize("path", ["e_proj", "h_proj"])
def test_mtp_block_equals_a_backbone_layer_on_the_same_input(path: str, ratio: int) -> None:
    """Identity projection, unit norms: the MTP layer then starts as the backbone's layer does."""
    config = ONE_LAYER | {"num_nextn_predict_layers": 1, "compress_ratios": [ratio, ratio]}
    config |= {"rms_norm_eps": 1e-12}
    weights = random_weights(config, 7, mtp=True)
    embed = weights["model.embed_tokens.weight"]
    embed /= np.sqrt((embed**2).mean(axis=1, keepdims=True))
    for name in ("enorm", "hnorm"):
        weights[f"model.mtp.0.{name}.weight"][:] = 1
    for name in ("e_proj", "h_proj"):
        weights[f"model.mtp.0.{name}.weight"] = np.eye(24) * (name == path)
    for name in [n for n in weights if n.startswith("model.mtp.0.block.")]:
        weights[name] = weights[name.replace("mtp.0.block.", "layers.0.")]
    for name in ("norm.weight", "hc_head.hc_fn", "hc_head.hc_base", "hc_head.hc_scale"):
        weights[f"model.mtp.0.{name}"] = weights[f"model.{name}"]
    ids = np.arange(30) % 11
    streams = np.repeat(7 * embed[ids][:, None, :], 3, axis=1)  # hnorm takes the 7 away
    next_ids = ids if path == "e_proj" else ids[::-1]
    found = mtp_forward(config, weights, next_ids, streams)
    np.testing.assert_allclose(found, forward(config, weights, ids).logits, rtol=0, atol=1e-9)


def test_mtp_adds_the_token_to_every_stream() -> None:
    """Streams are normed one by one: scaling one of them changes nothing, swapping two does."""
    config = ONE_LAYER | {"num_nextn_predict_layers": 1, "rms_norm_eps": 1e-12}
    weights = random_weights(config, 8, mtp=True)
    streams = np.random.default_rng(8).standard_normal((20, 3, 24))
    logits = mtp_forward(config, weights, np.arange(20) % 11, streams)
    assert logits.shape == (20, 11)
    scaled = streams * np.array([1, 5, 0.5])[:, None]
    np.testing.assert_allclose(mtp_forward(config, weights, np.arange(20) % 11, scaled), logits)
    assert not np.allclose(
        mtp_forward(config, weights, np.arange(20) % 11, streams[:, ::-1]), logits
    )


def test_float32_runs_in_float32() -> None:
    weights = random_weights(ONE_LAYER, 9)
    exact = forward(ONE_LAYER, weights, np.arange(20) % 11)
    rough = forward(ONE_LAYER, weights, np.arange(20) % 11, dtype=np.float32)
    assert {a.dtype for a in rough.activations.values()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(rough.logits, exact.logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("key", "value"),
    [("scoring_func", "sigmoid"), ("n_shared_experts", 2), ("norm_topk_prob", False)],
)
def test_refuses_what_it_does_not_define(key: str, value: object) -> None:
    weights = random_weights(ONE_LAYER, 0)
    with pytest.raises(UnsupportedError, match=f"'{key}'.*has {value!r}"):
        forward(ONE_LAYER | {key: value}, weights, [1])
