"""DeepSeek-V3.2 whole, without cache or absorption: keys and values of every head are made.

Loops over tokens, heads and experts; weights under the graph's names, config as Hugging Face's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def rms(x: Array, weight: Array, eps: float) -> Array:
    return x / math.sqrt(float((x * x).mean()) + eps) * weight


def rotate(x: Array, position: int, config: Mapping[str, Any]) -> Array:
    """Interleaved pairs; YaRN blends frequencies between the turns of beta_fast and beta_slow."""
    dims, theta, yarn = len(x), config["rope_theta"], config["rope_scaling"]
    out = np.empty_like(x)
    for i in range(dims // 2):
        freq = theta ** (-2 * i / dims)
        if yarn:

            def at(turns: float) -> float:
                length = yarn["original_max_position_embeddings"]
                return dims * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

            low = max(math.floor(at(yarn["beta_fast"])), 0)
            high = min(math.ceil(at(yarn["beta_slow"])), dims - 1)
            share = min(max((i - low) / max(high - low, 0.001), 0.0), 1.0)
            freq = freq / yarn["factor"] * share + freq * (1 - share)
        c, s = math.cos(position * freq), math.sin(position * freq)
        out[2 * i] = x[2 * i] * c - x[2 * i + 1] * s
        out[2 * i + 1] = x[2 * i] * s + x[2 * i + 1] * c
    return out


def forward(config: Mapping[str, Any], w: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """Logits [tokens, vocab]."""
    eps = config["rms_norm_eps"]
    x = [w["embed/table"][i].copy() for i in ids]
    for layer in range(config["num_hidden_layers"]):
        own = {k.partition("/")[2]: v for k, v in w.items() if k.startswith(f"layer{layer:02d}/")}
        normed = [rms(row, own["attn/norm"], eps) for row in x]
        x = [row + y for row, y in zip(x, attention(config, own, normed), strict=True)]
        if layer < config["first_k_dense_replace"]:
            x = [
                row + ffn(rms(row, own["mlp/norm"], eps), own["mlp/w13"], own["mlp/w2"])
                for row in x
            ]
        else:
            x = [row + moe(config, own, rms(row, own["moe/norm"], eps)) for row in x]
    return np.stack([w["head/weight"] @ rms(row, w["head/norm"], eps) for row in x])


def attention(config: Mapping[str, Any], w: Mapping[str, Array], x: Sequence[Array]) -> list[Array]:
    eps, heads = config["rms_norm_eps"], config["num_attention_heads"]
    nope, rope = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    yarn = config["rope_scaling"]
    scale = (nope + rope) ** -0.5
    if yarn:
        scale *= (0.1 * yarn["mscale_all_dim"] * math.log(yarn["factor"]) + 1) ** 2
    latents = [rms(w["attn/wkv_a"] @ row, w["attn/kv_norm"], eps) for row in x]
    k_rope = [rotate(w["attn/wk_rope"] @ row, t, config) for t, row in enumerate(x)]
    lows = [rms(w["attn/wq_a"] @ row, w["attn/q_norm"], eps) for row in x]
    seen = [picks(config, w, x, lows, t) for t in range(len(x))]
    out = []
    for t in range(len(x)):
        parts = []
        for h in range(heads):
            q = w["attn/wq_b_nope"][h] @ lows[t]
            q_r = rotate(w["attn/wq_b_rope"][h] @ lows[t], t, config)
            # The key of a head is its up-projection of the latent; `w_uk` is its transpose.
            scores = np.array([
                (float(q @ (w["attn/w_uk"][h].T @ latents[s])) + float(q_r @ k_rope[s])) * scale
                for s in seen[t]
            ])  # fmt: skip
            share = np.exp(scores - scores.max())
            share /= share.sum()
            value = sum(
                p * (w["attn/w_uv"][h] @ latents[s]) for p, s in zip(share, seen[t], strict=True)
            )
            parts.append(value)
        out.append(np.einsum("dhv,hv->d", w["attn/wo"], np.stack(parts)))
    return out


def picks(config: Mapping[str, Any], w: Mapping[str, Array], x: Sequence[Array],
          lows: Sequence[Array], t: int) -> list[int]:  # fmt: skip
    heads, dim, rope = config["index_n_heads"], config["index_head_dim"], config["qk_rope_head_dim"]

    def turned(values: Array, position: int) -> Array:
        return np.concatenate([values[:-rope], rotate(values[-rope:], position, config)])

    weights = w["attn/indexer/weights"] @ x[t] * heads**-0.5 * dim**-0.5
    q = [turned(w["attn/indexer/wq_b"][h] @ lows[t], t) for h in range(heads)]
    scores = []
    for s in range(t + 1):
        k = w["attn/indexer/wk"] @ x[s]
        k = (k - k.mean()) / math.sqrt(float(k.var()) + 1e-6)
        k = turned(k * w["attn/indexer/k_norm_weight"] + w["attn/indexer/k_norm_bias"], s)
        scores.append(sum(float(weights[h]) * max(float(q[h] @ k), 0.0) for h in range(heads)))
    best = sorted(range(t + 1), key=lambda s: (-scores[s], s))
    return sorted(best[: config["index_topk"]])


def ffn(x: Array, w13: Array, w2: Array) -> Array:
    gate, up = w13[0] @ x, w13[1] @ x
    return w2 @ (gate / (1 + np.exp(-gate)) * up)


def moe(config: Mapping[str, Any], w: Mapping[str, Array], x: Array) -> Array:
    scores = 1 / (1 + np.exp(-(w["moe/gate"] @ x)))
    chosen = scores + w["moe/bias"]
    size = len(chosen) // config["n_group"]
    worth = [sum(sorted(chosen[g * size : (g + 1) * size])[-2:]) for g in range(config["n_group"])]
    kept = sorted(range(config["n_group"]), key=lambda g: (-worth[g], g))[: config["topk_group"]]
    inside = [e for g in kept for e in range(g * size, (g + 1) * size)]
    best = sorted(inside, key=lambda e: (-chosen[e], e))[: config["num_experts_per_tok"]]
    total = sum(scores[e] for e in best) + 1e-20
    out = ffn(x, w["moe/shared/w13"], w["moe/shared/w2"])
    for e in best:
        share = scores[e] / total * config["routed_scaling_factor"]
        out = out + share * ffn(x, w["moe/w13"][e], w["moe/w2"][e])
    return out
