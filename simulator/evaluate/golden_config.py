"""The `config` text of a golden file, checked key by key.

config = read_config(Path("tiny_7.npz"), '{"vocab_size": 97, ...}')
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from simulator.basis.errors import FileFormatError, UnsupportedError
from simulator.evaluate.dense_reference import INDEXED_RATIO, SUPPORTED

Count = Annotated[int, pydantic.Field(ge=1)]
NonNegative = Annotated[float, pydantic.Field(ge=0)]
Positive = Annotated[float, pydantic.Field(gt=0)]


class Yarn(pydantic.BaseModel, frozen=True, strict=True, allow_inf_nan=False):
    """`rope_scaling` of a config."""

    type: Literal["yarn"] = pydantic.Field(
        validation_alias=pydantic.AliasChoices("type", "rope_type")
    )
    factor: Positive
    beta_fast: Positive
    beta_slow: Positive
    original_max_position_embeddings: Count


class GoldenConfig(pydantic.BaseModel, frozen=True, strict=True, allow_inf_nan=False):
    """The keys that a golden file's config must have; other keys pass unread."""

    vocab_size: Count
    hidden_size: Count
    moe_intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    head_dim: Count
    q_lora_rank: Count
    n_routed_experts: Count
    num_experts_per_tok: Count
    o_groups: Count
    o_lora_rank: Count
    index_n_heads: Count
    index_head_dim: Count
    index_topk: Count
    sliding_window: Count
    hc_mult: Count
    compress_ratios: list[Annotated[int, pydantic.Field(ge=0)]]
    num_hash_layers: Annotated[int, pydantic.Field(ge=0)]
    qk_rope_head_dim: Count
    max_position_embeddings: Count
    rope_theta: Positive
    compress_rope_theta: Positive
    rope_scaling: Yarn | None
    rms_norm_eps: NonNegative
    hc_eps: NonNegative
    hc_sinkhorn_iters: Count
    swiglu_limit: NonNegative
    routed_scaling_factor: NonNegative


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
    try:
        checked = GoldenConfig.model_validate(config)
    except pydantic.ValidationError as invalid:
        raise FileFormatError(f"{path}: config {_sentence(invalid)}") from None
    for problem in _misfits(checked):
        raise FileFormatError(f"{path}: config key {problem}")
    for key, only in SUPPORTED.items():
        if config.get(key, only) != only:
            given = _shown(config[key])
            raise UnsupportedError(f"{path}: config key {key!r}: needs {only!r}, has {given}")
    return config


def _sentence(invalid: pydantic.ValidationError) -> str:
    """The first complaint, and how many keys have one."""
    first, count = invalid.errors()[0], invalid.error_count()
    key = ".".join(str(part) for part in first["loc"])
    others = f" ({count} keys are wrong)" if count > 1 else ""
    if first["type"] == "missing":
        return f"key {key!r} is missing{others}"
    needs = first["msg"].replace("Input should be", "needs")
    return f"key {key!r}: {needs}, has {_shown(first['input'])}{others}"


def _misfits(config: GoldenConfig) -> Iterator[str]:
    """Keys that are fine one by one but not together."""
    layers, ratios = config.num_hidden_layers, config.compress_ratios
    if len(ratios) not in (layers, layers + 1):
        yield (
            f"'compress_ratios': needs {layers} entries, one per layer (one more with a "
            f"prediction layer), has {len(ratios)}"
        )
    heads, groups = config.num_attention_heads, config.o_groups
    if heads % groups:
        yield f"'o_groups': needs a divisor of the {heads} attention heads, has {groups}"
    rope, narrowest = config.qk_rope_head_dim, config.head_dim
    if INDEXED_RATIO in ratios:
        narrowest = min(narrowest, config.index_head_dim)
    if rope % 2 or rope > narrowest:
        yield f"'qk_rope_head_dim': needs an even number up to head dim {narrowest}, has {rope}"
    picked, experts = config.num_experts_per_tok, config.n_routed_experts
    if picked > experts:
        yield f"'num_experts_per_tok': needs at most the {experts} experts there are, has {picked}"


def _shown(value: object) -> str:
    """A value as JSON, short enough for a sentence."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
