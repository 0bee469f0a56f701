"""The living definition of DeepSeek-V4: whole prompt at once, no cache, no graph, only numpy.

Every faster path is compared with this file, so it shares no code with them and prefers the plain
loop (over tokens, entries, experts) to the clever array. Config keys and weights have their
Hugging Face names; quantisers are left out. Layer kinds by compress ratio: 0 sees only the sliding
window, 4 (CSA) adds the `index_topk` best compressed entries, any other (HCA) adds all of them.
Axes: T tokens (position = index), d hidden size, n streams (`hc_mult`), H heads, c head dim.

    forward(config, weights, [5, 3, 8]).logits[-1].argmax()
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulator.basis.errors import UnsupportedError

Array = np.ndarray
Config = Mapping[str, Any]
Weights = Mapping[str, Array]
Picks = list[list[int]]

# Without `layer_types`, layers of up to this many tokens an entry overlap and have an indexer.
LARGEST_INDEXED_RATIO = 32
INDEXED_TYPE, WINDOW_TYPE = "compressed_sparse_attention", "sliding_attention"
"""The ratio whose compressors overlap and whose entries are picked by an indexer."""

SUPPORTED = dict(
    scoring_func="sqrtsoftplus", n_shared_experts=1, num_key_value_heads=1, norm_topk_prob=True
)
"""Config keys whose only value this definition knows; an absent key means the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseResult:
    """Logits [T, vocab], the last streams [T, n, d] (for the MTP layer), and what led to them.

    `activations` holds `layerI.attn_in`, `.attn_out`, `.moe_out` [T, d] and `.streams_out`
    [T, n, d]. `topk_ids[I][t]` are the compressed entries that query t of CSA layer I attends to,
    best first; `expert_ids[I]` [T, experts per token]. Ties go to the lowest id in both.
    """

    logits: Array
    streams: Array
    activations: dict[str, Array]
    topk_ids: dict[int, Picks]
    expert_ids: dict[int, Array]


def forward(
    config: Config,
    weights: Weights,
    token_ids: Sequence[int] | Array,
    *,
    dtype: type[np.floating] = np.float64,
    clamp_shared_expert: bool = True,
) -> DenseResult:
    """Run the backbone over one sequence of token ids [T].

    `clamp_shared_expert` applies `swiglu_limit` to the shared expert as well, as published engines
    do and the official inference code does not. Raises UnsupportedError, see `SUPPORTED`.
    """
    config, w = _prepare(config, weights, dtype, clamp_shared_expert)
    ids = np.asarray(token_ids, dtype=np.int64)
    X = np.repeat(w["model.embed_tokens.weight"][ids][:, None, :], config["hc_mult"], axis=1)
    activations: dict[str, Array] = {}
    topk_ids: dict[int, Picks] = {}
    expert_ids: dict[int, Array] = {}
    for i in range(config["num_hidden_layers"]):
        kind, hashed = compression_of(config, i), i < config["num_hash_layers"]
        layer = _under(w, f"model.layers.{i}.")
        X, notes, topk, expert_ids[i] = _block(config, layer, kind, hashed, X, ids)
        activations |= {f"layer{i}.{name}": value for name, value in notes.items()}
        if kind.indexed:
            topk_ids[i] = topk
    hidden = _head(config, _under(w, "model.hc_head."), w["model.norm.weight"], X)
    logits = hidden @ w["lm_head.weight"].T
    return DenseResult(
        logits=logits, streams=X, activations=activations, topk_ids=topk_ids, expert_ids=expert_ids
    )


def mtp_forward(
    config: Config,
    weights: Weights,
    next_ids: Sequence[int] | Array,
    streams: Array,
    *,
    dtype: type[np.floating] = np.float64,
    clamp_shared_expert: bool = True,
) -> Array:
    """Logits [T, vocab] of the multi-token-prediction layer: token t + 2 seen from position t.

    `next_ids[t]` is token t + 1; `streams` [T, n, d] is the backbone's `DenseResult.streams`.
    x[i] = e_proj . enorm(embed(next id)) + h_proj . hnorm(streams[i]), then one whole block with
    learned routing and an own head; embedding and `lm_head` are the backbone's.
    """
    return mtp_stage_forward(
        config,
        weights,
        0,
        next_ids,
        streams,
        dtype=dtype,
        clamp_shared_expert=clamp_shared_expert,
    )[0]


def mtp_stage_forward(
    config: Config,
    weights: Weights,
    stage: int,
    next_ids: Sequence[int] | Array,
    streams: Array,
    *,
    dtype: type[np.floating] = np.float64,
    clamp_shared_expert: bool = True,
) -> tuple[Array, Array]:
    """Logits [T, vocab] and streams [T, n, d] of one of several MTP layers, as `mtp_forward` has.

    `next_ids[t]` is token t + 1 + stage; `streams` are those of the layer before it.
    """
    config, w = _prepare(config, weights, dtype, clamp_shared_expert)
    mtp, eps = _under(w, f"model.mtp.{stage}."), config["rms_norm_eps"]
    ids = np.asarray(next_ids, dtype=np.int64)
    e = _rms(w["model.embed_tokens.weight"][ids], eps) * mtp["enorm.weight"]
    h = _rms(np.asarray(streams, dtype=dtype), eps) * mtp["hnorm.weight"]
    X = (e @ mtp["e_proj.weight"].T)[:, None, :] + h @ mtp["h_proj.weight"].T
    kind = compression_of(config, config["num_hidden_layers"] + stage)
    X = _block(config, _under(mtp, "block."), kind, False, X, ids)[0]
    hidden = _head(config, _under(mtp, "hc_head."), mtp["norm.weight"], X)
    return hidden @ w["lm_head.weight"].T, X


class Compression(NamedTuple):
    """Tokens that make one entry (0: window only); `indexed` entries overlap and are picked."""

    ratio: int
    indexed: bool


def compression_of(config: Config, layer: int) -> Compression:
    """Compression of a layer (the one after the last is the MTP layer's)."""
    types, rates = config.get("layer_types"), config.get("compress_rates") or {}
    named = types[layer] if types and layer < len(types) else None
    ratios = config.get("compress_ratios") or [rates.get(name, 0) for name in types or ()]
    ratio = ratios[layer] if layer < len(ratios) else 0
    if ratio <= 1 or named == WINDOW_TYPE:
        return Compression(0, False)
    return Compression(ratio, named == INDEXED_TYPE if named else ratio <= LARGEST_INDEXED_RATIO)


def _prepare(config: Config, weights: Weights, dtype: Any, clamp: bool) -> tuple[Config, Weights]:
    """Config with the switch added, weights in the working precision."""
    for key, only in SUPPORTED.items():
        if config.get(key, only) != only:
            needs = f"the dense reference needs {only!r}, has {config[key]!r}"
            raise UnsupportedError(f"config key {key!r}: {needs}")
    cast = {k: a if a.dtype.kind in "iu" else a.astype(dtype) for k, a in weights.items()}
    return {**config, "clamp_shared_expert": clamp}, cast


def _under(weights: Weights, prefix: str) -> Weights:
    """Weights below a prefix, named without it."""
    return {k[len(prefix) :]: a for k, a in weights.items() if k.startswith(prefix)}


def _block(
    config: Config, layer: Weights, kind: Compression, hashed: bool, X: Array, ids: Array
) -> tuple[Array, dict[str, Array], Picks, Array]:
    """One layer, streams [T, n, d] -> [T, n, d], with its activations and its choices."""
    eps = config["rms_norm_eps"]
    collapsed, post, mix = _hyper_connection(config, _under(layer, "attn_hc."), X)
    attn_in = _rms(collapsed, eps) * layer["input_layernorm.weight"]
    attn_out, topk = _attention(config, _under(layer, "self_attn."), kind, attn_in)
    X = post[:, :, None] * attn_out[:, None, :] + np.einsum("tjk,tjd->tkd", mix, X)
    collapsed, post, mix = _hyper_connection(config, _under(layer, "ffn_hc."), X)
    moe_in = _rms(collapsed, eps) * layer["post_attention_layernorm.weight"]
    moe_out, experts = _moe(config, _under(layer, "mlp."), moe_in, ids, hashed)
    X = post[:, :, None] * moe_out[:, None, :] + np.einsum("tjk,tjd->tkd", mix, X)
    notes = {"attn_in": attn_in, "attn_out": attn_out, "moe_out": moe_out, "streams_out": X}
    return X, notes, topk, experts


def _rms(x: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _softmax(x: Array, axis: int) -> Array:
    p = np.exp(x - x.max(axis=axis, keepdims=True))
    return p / p.sum(axis=axis, keepdims=True)


def _hyper_connection(config: Config, hc: Weights, X: Array) -> tuple[Array, Array, Array]:
    """Block input [T, d], weight of the block output per stream [T, n], stream mix [T, n, n]."""
    n, eps, scale, base = config["hc_mult"], config["hc_eps"], hc["scale"], hc["base"]
    z = _rms(X.reshape(len(X), -1), config["rms_norm_eps"]) @ hc["fn"].T
    pre = _sigmoid(z[:, :n] * scale[0] + base[:n]) + eps
    post = 2 * _sigmoid(z[:, n : 2 * n] * scale[1] + base[n : 2 * n])
    mix = (z[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(len(X), n, n)
    mix = _softmax(mix, axis=-1) + eps
    mix = mix / (mix.sum(axis=-2, keepdims=True) + eps)
    for _ in range(config["hc_sinkhorn_iters"] - 1):
        mix = mix / (mix.sum(axis=-1, keepdims=True) + eps)
        mix = mix / (mix.sum(axis=-2, keepdims=True) + eps)
    return np.einsum("ti,tid->td", pre, X), post, mix


def _head(config: Config, hc: Weights, norm: Array, X: Array) -> Array:
    """Streams [T, n, d] -> normed hidden state [T, d] for `lm_head`."""
    z = _rms(X.reshape(len(X), -1), config["rms_norm_eps"]) @ hc["hc_fn"].T
    pre = _sigmoid(z * hc["hc_scale"] + hc["hc_base"]) + config["hc_eps"]
    return _rms(np.einsum("ti,tid->td", pre, X), config["rms_norm_eps"]) * norm


def _frequencies(config: Config, ratio: int) -> Array:
    """Angle per position of each rotary pair; YaRN belongs to compressed layers only."""
    dim = config["qk_rope_head_dim"]
    theta = config["compress_rope_theta"] if ratio else config["rope_theta"]
    pair = np.arange(dim // 2, dtype=np.float64)
    plain = theta ** (-2 * pair / dim)
    yarn = config.get("rope_scaling")
    if not ratio or not yarn:
        return plain
    # The pairs that turn beta_fast and beta_slow times within the original context.
    turn = yarn["original_max_position_embeddings"] / (2 * math.pi)
    fast = dim * math.log(turn / yarn["beta_fast"]) / (2 * math.log(theta))
    slow = dim * math.log(turn / yarn["beta_slow"]) / (2 * math.log(theta))
    low, high = max(math.floor(fast), 0), min(math.ceil(slow), dim - 1)
    stretched = np.clip((pair - low) / (high - low or 0.001), 0, 1)
    return plain * (1 - stretched) + plain / yarn["factor"] * stretched


def _rotate(x: Array, positions: Array, freq: Array) -> Array:
    """Rotate the last 2 * len(freq) dims of x [T, ..., dim] in interleaved pairs."""
    angle = positions.reshape(-1, *[1] * (x.ndim - 1)) * freq
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first = x.shape[-1] - 2 * len(freq)
    even, odd = x[..., first::2], x[..., first + 1 :: 2]
    out = x.copy()
    out[..., first::2] = even * cos - odd * sin
    out[..., first + 1 :: 2] = even * sin + odd * cos
    return out


def _attention(config: Config, attn: Weights, kind: Compression, x: Array) -> tuple[Array, Picks]:
    """x [T, d] -> output [T, d] and, per query, the compressed entries it attended to."""
    T, H, c = len(x), config["num_attention_heads"], config["head_dim"]
    ratio = kind.ratio
    eps, positions, freq = config["rms_norm_eps"], np.arange(T), _frequencies(config, ratio)
    latent = _rms(x @ attn["q_a_proj.weight"].T, eps) * attn["q_a_norm.weight"]
    q = _rms((latent @ attn["q_b_proj.weight"].T).reshape(T, H, c), eps)
    q = _rotate(q, positions, freq)
    kv = _rotate(_rms(x @ attn["kv_proj.weight"].T, eps) * attn["kv_norm.weight"], positions, freq)
    entries, seen = kv[:0], [list(range((t + 1) // ratio if ratio else 0)) for t in range(T)]
    if ratio:
        entries = _compress(config, _under(attn, "compressor."), kind, x)
    if kind.indexed:
        seen = _index(config, _under(attn, "compressor.indexer."), kind, x, latent)

    out = np.empty_like(q)
    for t in range(T):
        window = kv[max(0, t + 1 - config["sliding_window"]) : t + 1]
        keys = np.concatenate([window, entries[seen[t]]])
        # The sink takes part in the softmax as one more score whose value vector is zero.
        scores = np.column_stack([q[t] @ keys.T / math.sqrt(c), attn["sinks"]])
        out[t] = _softmax(scores, axis=-1)[:, :-1] @ keys
    out = _rotate(out, -positions, freq)

    groups = config["o_groups"]
    o_a = attn["o_a_proj.weight"].reshape(groups, config["o_lora_rank"], H * c // groups)
    low = np.einsum("tgi,gri->tgr", out.reshape(T, groups, -1), o_a)
    return low.reshape(T, -1) @ attn["o_b_proj.weight"].T, seen


def _compress(config: Config, comp: Weights, kind: Compression, x: Array) -> Array:
    """Compressed entries [T // ratio, dim]: entry i stands for the block starting at ratio * i."""
    ratio = kind.ratio
    dim, count = len(comp["kv_norm.weight"]), len(x) // ratio
    whole = x[: ratio * count]  # tokens of an unfinished block wait for its end
    kv, gate = whole @ comp["kv_proj.weight"].T, whole @ comp["gate_proj.weight"].T
    gate = gate + np.tile(comp["position_bias"], (count, 1))
    pooled = np.empty((count, dim), dtype=x.dtype)
    for i in range(count):
        own, before = slice(ratio * i, ratio * (i + 1)), slice(ratio * (i - 1), ratio * i)
        values, scores = kv[own, -dim:], gate[own, -dim:]
        if kind.indexed and i > 0:
            # The first half of a token's projection serves the block after its own.
            values = np.concatenate([kv[before, :dim], values])
            scores = np.concatenate([gate[before, :dim], scores])
        pooled[i] = (_softmax(scores, axis=0) * values).sum(axis=0)
    normed = _rms(pooled, config["rms_norm_eps"]) * comp["kv_norm.weight"]
    return _rotate(normed, ratio * np.arange(count), _frequencies(config, ratio))


def _index(config: Config, indexer: Weights, kind: Compression, x: Array, latent: Array) -> Picks:
    """The `index_topk` best of the visible entries for every query."""
    T, heads, dim = len(x), config["index_n_heads"], config["index_head_dim"]
    q = (latent @ indexer["q_b_proj.weight"].T).reshape(T, heads, dim)
    q = _rotate(q, np.arange(T), _frequencies(config, kind.ratio))
    keys = _compress(config, indexer, kind, x)
    head_weight = x @ indexer["scorer.weights_proj.weight"].T / math.sqrt(heads * dim)
    picked = []
    for t in range(T):
        visible = keys[: (t + 1) // kind.ratio]
        scores = head_weight[t] @ np.maximum(q[t] @ visible.T, 0)
        picked.append(_best(scores, config["index_topk"]).tolist())
    return picked


def _best(scores: Array, count: int) -> Array:
    """Ids of the highest scores, best first; a stable sort gives ties to the lowest id."""
    return np.argsort(-scores, kind="stable")[:count]


def _moe(config: Config, mlp: Weights, x: Array, ids: Array, hashed: bool) -> tuple[Array, Array]:
    """x [T, d] -> shared plus routed experts [T, d], and the experts chosen [T, k]."""
    k, limit = config["num_experts_per_tok"], config.get("swiglu_limit") or math.inf
    affinity = np.sqrt(np.logaddexp(0, x @ mlp["gate.weight"].T))
    if hashed:
        chosen = mlp["gate.tid2eid"][ids]
    else:
        chosen = np.array([_best(s, k) for s in affinity + mlp["gate.e_score_correction_bias"]])
    out = np.zeros_like(x)
    for t in range(len(x)):
        weight = affinity[t, chosen[t]]
        weight = weight / (weight.sum() + 1e-20) * config["routed_scaling_factor"]
        for share, e in zip(weight, chosen[t], strict=True):
            gate, up = np.split(mlp["experts.gate_up_proj"][e] @ x[t], 2)
            out[t] += share * (mlp["experts.down_proj"][e] @ _swiglu(gate, up, limit))
    shared = _under(mlp, "shared_experts.")
    gate, up = x @ shared["gate_proj.weight"].T, x @ shared["up_proj.weight"].T
    inner = _swiglu(gate, up, limit if config["clamp_shared_expert"] else math.inf)
    return out + inner @ shared["down_proj.weight"].T, chosen


def _swiglu(gate: Array, up: Array, limit: float) -> Array:
    gate = np.minimum(gate, limit)
    return gate * _sigmoid(gate) * np.clip(up, -limit, limit)
