"""A DSpark head's pass, token by token and key by key, without graph, cache or batch.

Written from the description of the head: taps of finished layers, one row a token for all stages,
window of committed rows and the whole block as keys, then a chain of drafts. Parts of a layer that
the backbone has as well come from the dense reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.evaluate.dense_reference import (
    _frequencies,
    _head,
    _hyper_connection,
    _moe,
    _rms,
    _rotate,
    _under,
    forward,
)

Array = np.ndarray


def draft(
    config: Mapping[str, Any],
    weights: Mapping[str, Array],
    committed: Sequence[int],
    anchor: int,
    first_known: int = 0,
) -> tuple[list[int], Array, Array]:
    """(drafts, logits [block, vocab], confidence [block]) after `committed` tokens and an anchor.

    Rows of tokens before `first_known` are not there for the stages.
    """
    config = {**config, "clamp_shared_expert": True}
    targets, gamma = config["dspark_target_layer_ids"], config["dspark_block_size"]
    acts = forward(config, weights, committed).activations
    rows = []
    for t in range(len(committed)):
        taps = [acts[f"layer{i}.streams_out"][t].mean(axis=0) for i in targets]
        projected = weights["model.mtp.0.main_proj.weight"] @ np.concatenate(taps)
        normed = projected / math.sqrt(float(np.mean(projected**2)) + config["rms_norm_eps"])
        rows.append(normed * weights["model.mtp.0.main_norm.weight"])
    p = len(committed)
    ids = [anchor] + [config["dspark_noise_token_id"]] * (gamma - 1)
    X = np.stack([
        np.repeat(weights["model.embed_tokens.weight"][i][None], config["hc_mult"], 0) for i in ids
    ])  # fmt: skip
    seen = range(max(first_known, p - config["sliding_window"]), p)
    for stage in range(len(targets)):
        X = _stage(config, _under(weights, f"model.mtp.{stage}.block."), X, rows, seen, p)
    last = _under(weights, f"model.mtp.{len(targets) - 1}.")
    hc = _under(last, "hc_head.")
    z = _rms(X.reshape(gamma, -1), config["rms_norm_eps"]) @ hc["hc_fn"].T
    gate = 1 / (1 + np.exp(-(z * hc["hc_scale"] + hc["hc_base"]))) + config["hc_eps"]
    hidden = np.einsum("ti,tid->td", gate, X)
    base = _head(config, hc, last["norm.weight"], X) @ weights["lm_head.weight"].T
    w1, w2 = (last[f"markov_head.markov_w{n}.weight"] for n in (1, 2))
    previous, drafts, logits, sure = anchor, [], [], []
    for i in range(gamma):
        row = base[i] + np.array([float(w2[v] @ w1[previous]) for v in range(len(w2))])
        both = np.concatenate([hidden[i], w1[previous]])
        sure.append(1 / (1 + math.exp(-float(last["confidence_head.proj.weight"][0] @ both))))
        previous = int(np.argmax(row))
        drafts.append(previous)
        logits.append(row)
    return drafts, np.stack(logits), np.array(sure)


def _stage(
    config: Mapping[str, Any], w: Mapping[str, Array], X: Array, rows: Sequence[Array],
    seen: range, p: int,
) -> Array:  # fmt: skip
    eps = config["rms_norm_eps"]
    x, post, mix = _hyper_connection(config, _under(w, "attn_hc."), X)
    out = _attention(config, _under(w, "self_attn."), _rms(x, eps) * w["input_layernorm.weight"],
                     rows, seen, p)  # fmt: skip
    X = post[:, :, None] * out[:, None] + np.einsum("tjk,tjd->tkd", mix, X)
    x, post, mix = _hyper_connection(config, _under(w, "ffn_hc."), X)
    normed = _rms(x, eps) * w["post_attention_layernorm.weight"]
    own = {
        **config,
        "num_experts_per_tok": config.get("dspark_num_experts_per_tok")
        or config["num_experts_per_tok"],
    }
    out, _ = _moe(own, _under(w, "mlp."), normed, np.zeros(len(X), dtype=int), False)
    return post[:, :, None] * out[:, None] + np.einsum("tjk,tjd->tkd", mix, X)


def _attention(
    config: Mapping[str, Any], w: Mapping[str, Array], x: Array, rows: Sequence[Array],
    seen: range, p: int,
) -> Array:  # fmt: skip
    H, c, eps, freq = (
        config["num_attention_heads"], config["head_dim"], config["rms_norm_eps"],
        _frequencies(config, 0),
    )  # fmt: skip

    def key(value: Array, position: int) -> Array:
        kv = _rms((w["kv_proj.weight"] @ value)[None], eps) * w["kv_norm.weight"]
        return _rotate(kv, np.array([position]), freq)[0]

    keys = [key(rows[t], t) for t in seen] + [key(x[i], p + i) for i in range(len(x))]
    out = np.empty((len(x), H, c))
    for i in range(len(x)):
        latent = _rms((w["q_a_proj.weight"] @ x[i])[None], eps)[0] * w["q_a_norm.weight"]
        q = _rms((w["q_b_proj.weight"] @ latent).reshape(H, c), eps)
        q = _rotate(q[None], np.array([p + i]), freq)[0]
        for h in range(H):
            scores = [float(q[h] @ k) / math.sqrt(c) for k in keys] + [float(w["sinks"][h])]
            top = max(scores)
            share = [math.exp(s - top) for s in scores]
            total = sum(share)
            out[i, h] = sum(s / total * k for s, k in zip(share, keys, strict=False))
    out = _rotate(out, -(p + np.arange(len(x))), freq)
    g = config["o_groups"]
    o_a = w["o_a_proj.weight"].reshape(g, config["o_lora_rank"], H * c // g)
    low = np.einsum("tgi,gri->tgr", out.reshape(len(x), g, -1), o_a)
    return low.reshape(len(x), -1) @ w["o_b_proj.weight"].T
