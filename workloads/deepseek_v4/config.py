"""The configuration of a DeepSeek-V4 model, under the names of its Hugging Face config.json.

`find_model("v4-pro")` reads a file that ships here; a path to a YAML file or to a config.json
works as well. What V4 inference cannot do as stated is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file, is_path, list_data_names, named_after
from simulator.basis.errors import UnsupportedError
from simulator.basis.yaml_loader import (
    KeyFaultError,
    LineMap,
    StrictModel,
    compose_yaml,
    load_json_mapping,
    validate_data,
)
from workloads.deepseek_v4.known_unused import KNOWN_UNUSED
from workloads.deepseek_v4.layer_kinds import (
    LARGEST_CSA_RATIO,
    PUBLISHED_RATIOS,
    TYPE_OF_KIND,
    LayerAttention,
    LayerKind,
    LayerType,
    check_ratios,
    layer_attention,
    ratios_of_types,
)

# Far beyond any model, and small enough that products of a few of them stay exact.
LARGEST = 2**31
Positive = Annotated[int, Field(gt=0, le=LARGEST)]
AtLeastZero = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveNumber = Annotated[float, Field(gt=0)]

_MODELS = Path(__file__).parent / "models"

# Settings of which only one value is implemented: the key, that value, and what else exists.
_ONLY: dict[str, tuple[object, str]] = {
    "scoring_func": ("sqrtsoftplus", "expert scores"),
    "hidden_act": ("silu", "expert activation"),
    "tie_word_embeddings": (False, "embedding and head as one tensor"),
    "attention_bias": (False, "biases in attention projections"),
    "topk_method": ("noaux_tc", "expert selection"),
    "n_group": (1, "group-limited routing"),
    "topk_group": (1, "group-limited routing"),
    "num_key_value_heads": (1, "key-value heads"),
}


class RopeScaling(StrictModel):
    """YaRN: how rotary frequencies stretch from the trained length, in ratio-4 and -128 layers."""

    type: Literal["yarn"]
    factor: PositiveNumber
    original_max_position_embeddings: Positive
    beta_fast: PositiveNumber = 32
    beta_slow: PositiveNumber = 1


class QuantizationConfig(StrictModel):
    """How linear weights are stored; the defaults are those of every published checkpoint."""

    quant_method: Literal["fp8"] = "fp8"
    fmt: Literal["e4m3"] = "e4m3"
    scale_fmt: Literal["ue8m0"] = "ue8m0"
    activation_scheme: Literal["dynamic"] = "dynamic"
    weight_block_size: Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)] = (
        128,
        128,
    )


class ModelConfig(StrictModel):
    """One DeepSeek-V4 model; every field but `name` is Hugging Face's."""

    name: str = "custom"
    vocab_size: Positive
    hidden_size: Positive
    num_hidden_layers: Positive
    num_attention_heads: Positive
    num_key_value_heads: Literal[1] = 1
    head_dim: Positive
    qk_rope_head_dim: Positive
    q_lora_rank: Positive
    o_groups: Positive
    o_lora_rank: Positive
    sliding_window: Positive
    compress_ratios: tuple[int, ...]
    layer_types: tuple[LayerType, ...] | None = None
    index_n_heads: Positive
    index_head_dim: Positive
    index_topk: Positive
    n_routed_experts: Positive
    n_shared_experts: Positive = 1
    num_experts_per_tok: Positive
    moe_intermediate_size: Positive
    num_hash_layers: AtLeastZero
    num_nextn_predict_layers: AtLeastZero = 0
    scoring_func: Literal["sqrtsoftplus"] = "sqrtsoftplus"
    norm_topk_prob: bool = True
    routed_scaling_factor: PositiveNumber
    swiglu_limit: PositiveNumber
    hidden_act: Literal["silu"] = "silu"
    hc_mult: Positive
    hc_sinkhorn_iters: Annotated[int, Field(gt=0, le=1000)]
    hc_eps: PositiveNumber
    rms_norm_eps: PositiveNumber
    max_position_embeddings: Positive
    rope_theta: Annotated[float, Field(gt=1)]
    compress_rope_theta: Annotated[float, Field(gt=1)]
    rope_scaling: RopeScaling | None = None
    attention_bias: Literal[False] = False
    tie_word_embeddings: Literal[False] = False
    expert_dtype: Literal["fp4", "fp8"] = "fp4"
    quantization_config: QuantizationConfig = QuantizationConfig()

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_ratios()
        self._check_heads()
        if self.num_experts_per_tok > self.n_routed_experts:
            raise KeyFaultError(
                ("num_experts_per_tok",),
                f"num_experts_per_tok is {self.num_experts_per_tok}, expected at most the "
                f"{self.n_routed_experts} of n_routed_experts",
            )
        for name in ("sliding_window", "index_topk"):
            if getattr(self, name) > self.max_position_embeddings:
                raise KeyFaultError(
                    (name,),
                    f"{name} is {getattr(self, name)}, expected at most the "
                    f"{self.max_position_embeddings} of max_position_embeddings",
                )
        if self.num_hash_layers > self.num_hidden_layers:
            raise KeyFaultError(
                ("num_hash_layers",),
                f"num_hash_layers is {self.num_hash_layers}, expected at most the "
                f"{self.num_hidden_layers} of num_hidden_layers",
            )
        return self

    def _check_ratios(self) -> None:
        check_ratios(self.compress_ratios, self.layer_types)
        given, backbone = len(self.compress_ratios), self.num_hidden_layers
        # Published lists carry one entry more than the backbone, for the MTP layer.
        allowed = sorted({backbone, backbone + 1, backbone + self.num_nextn_predict_layers})
        if given not in allowed:
            raise KeyFaultError(
                ("compress_ratios",),
                f"compress_ratios has {given} entries, expected {' or '.join(map(str, allowed))} "
                f"(num_hidden_layers, and one for every MTP layer)",
            )
        types = self.layer_types
        if types is not None and not backbone <= len(types) <= given:
            raise KeyFaultError(
                ("layer_types",),
                f"layer_types has {len(types)} entries, expected the {backbone} of "
                "num_hidden_layers",
            )

    def _check_heads(self) -> None:
        if self.num_attention_heads % self.o_groups:
            raise KeyFaultError(
                ("o_groups",),
                f"o_groups is {self.o_groups}, expected a divisor of the "
                f"{self.num_attention_heads} of num_attention_heads",
            )
        if self.qk_rope_head_dim % 2:
            raise KeyFaultError(
                ("qk_rope_head_dim",),
                f"qk_rope_head_dim is {self.qk_rope_head_dim}, expected an even number: "
                "rotation works on pairs",
            )
        for name in ("head_dim", "index_head_dim"):
            if self.qk_rope_head_dim > getattr(self, name):
                raise KeyFaultError(
                    ("qk_rope_head_dim",),
                    f"qk_rope_head_dim is {self.qk_rope_head_dim}, expected at most the "
                    f"{getattr(self, name)} of {name}",
                )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the configuration leaves open, taken as published ones have it."""
        notes = []
        if "expert_dtype" not in self.model_fields_set:
            notes.append(
                f"the configuration of {self.name} has no expert_dtype: routed experts are taken "
                f"as stored in {self.expert_dtype}, as in the published checkpoints"
            )
        typed = len(self.layer_types or ())
        unnamed = {r for r in self.compress_ratios[typed:] if r > 1} - set(PUBLISHED_RATIOS)
        if unnamed:
            each = ", ".join(
                f"{ratio} as {layer_attention(ratio).kind.upper()}" for ratio in sorted(unnamed)
            )
            notes.append(
                f"the configuration of {self.name} has no layer_types: compression ratios of up to "
                f"{LARGEST_CSA_RATIO} are taken as CSA (with an indexer), those above as HCA, "
                f"so {each}"
            )
        return tuple(notes)

    @property
    def layers(self) -> tuple[LayerAttention, ...]:
        """Attention of every backbone layer."""
        return self._attention(0, self.num_hidden_layers)

    @property
    def layer_ratios(self) -> tuple[int, ...]:
        """Compression ratio of every backbone layer, 0 for window only."""
        return tuple(layer.ratio for layer in self.layers)

    @property
    def mtp_stages(self) -> tuple[LayerAttention, ...]:
        """Attention of every MTP layer; window only where the list has no entry."""
        first = self.num_hidden_layers
        return self._attention(first, first + self.mtp_layers)

    def _attention(self, first: int, stop: int) -> tuple[LayerAttention, ...]:
        ratios, types = self.compress_ratios, self.layer_types or ()
        return tuple(
            layer_attention(
                ratios[i] if i < len(ratios) else 0, types[i] if i < len(types) else None
            )
            for i in range(first, stop)
        )

    def cut(self, layers: Sequence[int], **changes: object) -> ModelConfig:
        """The model with these of its layers alone (MTP layers count on from the backbone).

        `changes` are other fields to set, `num_hidden_layers` where not all are of the backbone.
        """
        types = (*(self.layer_types or ()), *(None for _ in self.compress_ratios))
        ratios = (*self.compress_ratios, *(0 for _ in range(self.mtp_layers)))
        kept: dict[str, object] = {
            "num_hidden_layers": len(layers),
            "compress_ratios": tuple(ratios[i] for i in layers),
        }
        if self.layer_types is not None:
            kinds = [layer_attention(ratios[i], types[i]).kind for i in layers]
            kept["layer_types"] = tuple(TYPE_OF_KIND[kind] for kind in kinds)
        return self.model_copy(update={**kept, **changes})

    @property
    def mtp_layers(self) -> int:
        """Layers that predict a further token (multi-token prediction), after the backbone."""
        return self.num_nextn_predict_layers

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Kind of every backbone layer's attention."""
        return tuple(layer.kind for layer in self.layers)

    @property
    def nope_head_dim(self) -> int:
        """Dimensions of a head without rotary position; they come first."""
        return self.head_dim - self.qk_rope_head_dim


def list_models() -> list[str]:
    """Names of the V4 models that ship with the package."""
    return [name for name in list_data_names(_MODELS) if name != "v3.2"]


def find_model(name_or_path: str | Path) -> ModelConfig:
    """Model by name (`v4-pro`), by path to a YAML file, or by path to a config.json.

    The user's own file of a shipped model's name is named after the file too.
    """
    if str(name_or_path).lower() == "v3.2":
        raise UnsupportedError(
            "v3.2 is a counted reference only (see reference_v32), it has no graph: "
            f"give one of {', '.join(list_models())}"
        )
    path = find_data_file("model", name_or_path, _MODELS)
    data, lines = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    config = model_from_mapping(data, lines, name=path.parent.name if _is_hf(path) else path.stem)
    if is_path(name_or_path) and config.name.lower() in list_data_names(_MODELS):
        return config.model_copy(update={"name": named_after(config.name, path)})
    return config


def _is_hf(path: Path) -> bool:
    return path.name == "config.json" and bool(path.parent.name)


def model_from_mapping(
    data: dict[str, Any], lines: LineMap | None = None, *, name: str = "custom"
) -> ModelConfig:
    """Model of a mapping with Hugging Face's keys, such as the `config` of a golden file."""
    lines = lines or LineMap(Path(name), {})
    _refuse_other_models(data, lines)
    _refuse_other_settings(data, lines)
    # Without groups and with one KV head, these two say nothing that the model needs.
    dropped = {*KNOWN_UNUSED, "n_group", "topk_group", "compress_rates"}
    kept = {"name": name} | {key: value for key, value in data.items() if key not in dropped}
    types, rates = kept.get("layer_types"), data.get("compress_rates")
    try:
        found = ratios_of_types(types, rates, kept.get("compress_ratios"))
    except KeyFaultError as fault:
        raise lines.error(fault.keys, fault.sentence) from None
    if found is not None:
        kept.setdefault("compress_ratios", found)
    ratios, layers = kept.get("compress_ratios"), kept.get("num_hidden_layers")
    if "num_nextn_predict_layers" not in kept and isinstance(ratios, list | tuple):
        extra = len(ratios) - layers if isinstance(layers, int) else 0
        kept["num_nextn_predict_layers"] = 1 if extra == 1 else 0
    return validate_data(kept, lines, ModelConfig)


def _refuse_other_models(data: dict[str, Any], lines: LineMap) -> None:
    given = data.get("model_type", "deepseek_v4")
    if given == "deepseek_v4":
        return
    hint = (
        "DeepSeek-V3.2 is a counted reference only"
        if given == "deepseek_v32"
        else "expected 'deepseek_v4'"
    )
    raise lines.error(
        ("model_type",), f"model_type {given!r} is not supported: {hint}", UnsupportedError
    )


def _refuse_other_settings(data: dict[str, Any], lines: LineMap) -> None:
    for key, (only, what) in _ONLY.items():
        if data.get(key, only) not in (only, None):
            raise lines.error(
                (key,),
                f"{key} {data[key]!r} is not supported: of {what} only {only!r} is implemented",
                UnsupportedError,
            )
    scaling = data.get("rope_scaling")
    if isinstance(scaling, dict) and scaling.get("type", "yarn") != "yarn":
        raise lines.error(
            ("rope_scaling", "type"),
            f"rope_scaling type {scaling['type']!r} is not supported: only 'yarn' (or null) is",
            UnsupportedError,
        )
