"""The configuration of DeepSeek-V3.2, under the names of its Hugging Face config.json."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file
from simulator.basis.yaml_loader import (
    KeyFaultError,
    StrictModel,
    compose_yaml,
    load_json_mapping,
    validate_data,
)
from workloads.deepseek_v4.known_unused import KNOWN_UNUSED

Positive = Annotated[int, Field(gt=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
_MODELS = Path(__file__).parent / "models"
# Keys of the published file that change nothing here.
_UNUSED = {
    *KNOWN_UNUSED,
    "attention_bias",
    "hidden_act",
    "num_key_value_heads",
    "quantization_config",
    "tie_word_embeddings",
}


class YarnScaling(StrictModel):
    """YaRN with the attention factor of V3: `mscale` raises the scale of the scores."""

    type: Literal["yarn"]
    factor: PositiveNumber
    original_max_position_embeddings: Positive
    beta_fast: PositiveNumber = 32
    beta_slow: PositiveNumber = 1
    mscale: float = 1.0
    mscale_all_dim: float = 1.0

    @property
    def score_factor(self) -> float:
        """What the scale of the scores is multiplied with."""
        return (0.1 * self.mscale_all_dim * math.log(self.factor) + 1.0) ** 2


class V32Config(StrictModel):
    """One model of V3.2's shape; every field but `name` is Hugging Face's."""

    name: str = "custom"
    model_type: Literal["deepseek_v32"] = "deepseek_v32"
    vocab_size: Positive
    hidden_size: Positive
    intermediate_size: Positive
    first_k_dense_replace: Annotated[int, Field(ge=0)]
    moe_layer_freq: Literal[1] = 1
    num_hidden_layers: Positive
    num_nextn_predict_layers: Annotated[int, Field(ge=0)] = 0
    num_attention_heads: Positive
    q_lora_rank: Positive
    kv_lora_rank: Positive
    qk_nope_head_dim: Positive
    qk_rope_head_dim: Positive
    v_head_dim: Positive
    index_n_heads: Positive
    index_head_dim: Positive
    index_topk: Positive
    n_routed_experts: Positive
    n_shared_experts: Positive
    num_experts_per_tok: Positive
    moe_intermediate_size: Positive
    n_group: Positive = 8
    topk_group: Positive = 4
    scoring_func: Literal["sigmoid"] = "sigmoid"
    topk_method: Literal["noaux_tc"] = "noaux_tc"
    norm_topk_prob: Literal[True] = True
    routed_scaling_factor: PositiveNumber = 2.5
    rms_norm_eps: PositiveNumber = 1e-6
    max_position_embeddings: Positive = 163840
    rope_theta: Annotated[float, Field(gt=1)] = 10000
    rope_scaling: YarnScaling | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_routed_experts % self.n_group:
            raise KeyFaultError(
                ("n_group",),
                f"n_group is {self.n_group}, expected a divisor of the {self.n_routed_experts} of "
                "n_routed_experts",
            )
        for name, most in (("topk_group", "n_group"), ("qk_rope_head_dim", "index_head_dim")):
            if getattr(self, name) > getattr(self, most):
                raise KeyFaultError(
                    (name,),
                    f"{name} is {getattr(self, name)}, expected at most the "
                    f"{getattr(self, most)} of {most}",
                )
        if self.first_k_dense_replace > self.num_hidden_layers:
            raise KeyFaultError(
                ("first_k_dense_replace",),
                f"first_k_dense_replace is {self.first_k_dense_replace}, expected at most the "
                f"{self.num_hidden_layers} of num_hidden_layers",
            )
        return self

    @property
    def score_scale(self) -> float:
        """Scale of attention scores."""
        plain = (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5
        return plain * (self.rope_scaling.score_factor if self.rope_scaling else 1.0)


def find_v32(name_or_path: str | Path = "v3.2") -> V32Config:
    """The model that ships, or one of a YAML file or config.json of V3.2's."""
    path = find_data_file("model", name_or_path, _MODELS)
    data, lines = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    kept = {k: v for k, v in data.items() if k not in _UNUSED or k in V32Config.model_fields}
    return validate_data({"name": path.stem} | kept, lines, V32Config)
