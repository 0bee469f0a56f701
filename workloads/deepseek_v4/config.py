"""The configuration of a DeepSeek-V4 model, under the names of its Hugging Face config.json.

`find_model("v4-pro")` reads a file that ships here; a path to a YAML file or to a config.json
works as well. What V4 inference cannot do as stated is refused, never ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from simulator.basis.data_files import find_data_file, is_path, list_data_names, named_after
from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.schema_errors import faults_of
from simulator.basis.yaml_loader import (
    KeyFaultError,
    LineMap,
    StrictModel,
    compose_yaml,
    load_json_mapping,
)
from workloads.deepseek_v4.layer_kinds import (
    LARGEST_CSA_RATIO,
    PUBLISHED_RATIOS,
    TYPE_OF_KIND,
    LayerAttention,
    LayerKind,
    LayerType,
    check_ratios,
    layer_attention,
)
from workloads.deepseek_v4.published import raise_faults, read_published
from workloads.deepseek_v4.weight_plan import FormatName, LayerFormats
from workloads.deepseek_v41 import MISSING

# Far beyond any model, and small enough that products of a few of them stay exact.
LARGEST = 2**31
Positive = Annotated[int, Field(gt=0, le=LARGEST)]
AtLeastZero = Annotated[int, Field(ge=0, le=LARGEST)]
PositiveNumber = Annotated[float, Field(gt=0)]

_MODELS = Path(__file__).parent / "models"
# Checkpoints by their Hugging Face names, in lower case, and the model that ships for each.
HUGGING_FACE_NAMES = {
    "deepseek-ai/deepseek-v4-flash": "v4-flash",
    "deepseek-ai/deepseek-v4-pro": "v4-pro",
    "deepseek-ai/deepseek-v4-flash-dspark": "v4-flash-0731",
    "deepseek-ai/deepseek-v4-flash-0731": "v4-flash-0731",
    "deepseek-ai/deepseek-v4-pro-dspark": "v4-pro-0813",
    "deepseek-ai/deepseek-v4-pro-0813": "v4-pro-0813",
}
_V32 = (
    "v3.2 is a counted reference only: its graph is executed and counted (v4sim models show v3.2, "
    "v4sim claims), but no engine here has kernels and a cache layout for its latent attention"
)
_V41 = (
    "v4.1-flash is known by its cache only (v4sim models show v4.1-flash); missing for a step are "
    + "; ".join(MISSING)
)
_COUNTED_ONLY = {
    "v3.2": _V32,
    "deepseek-ai/deepseek-v3.2": _V32,
    "v4.1-flash": _V41,
    "deepseek-ai/deepseek-v4.1-flash": _V41,
}
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(?<!\.json)(?<!\.yaml)(?<!\.yml)")


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


class StoredFormats(StrictModel):
    """Formats of a checkpoint's modules where they are not those of released ones.

    `layers` has one entry a layer, draft stages behind the backbone.
    """

    layers: tuple[LayerFormats, ...]
    embed: FormatName = "bf16"
    head: FormatName = "bf16"


class ModelConfig(StrictModel):
    """One DeepSeek-V4 model; every field but `name`, `stored` and `file_notes` is Hugging Face's.

    `stored` are formats by module, `file_notes` what reading the file took for granted.
    """

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
    expert_dtype: FormatName = "fp4"
    quantization_config: QuantizationConfig = QuantizationConfig()
    dspark_block_size: Annotated[int, Field(gt=0, le=64)] | None = None
    dspark_markov_rank: Positive | None = None
    dspark_target_layer_ids: tuple[AtLeastZero, ...] | None = None
    dspark_noise_token_id: AtLeastZero | None = None
    dspark_n_routed_experts: Positive | None = None
    dspark_num_experts_per_tok: Positive | None = None
    sample_from_anchor: Literal[True] = True
    enable_confidence_head: bool = True
    confidence_head_with_markov: bool = True
    stored: StoredFormats | None = None
    file_notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        faults = [
            *_ratio_faults(self),
            *_head_faults(self),
            *_size_faults(self),
            *_draft_faults(self),
        ]
        if faults:
            raise FaultsError(faults)
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the configuration leaves open, taken as published ones have it."""
        notes = [f"the configuration of {self.name}: {note}" for note in self.file_notes]
        if "expert_dtype" not in self.model_fields_set:
            bare = "quantization_config" not in self.model_fields_set
            notes.append(
                f"the configuration of {self.name} has no expert_dtype"
                f"{' and no quantization_config' if bare else ''}: routed experts are taken as "
                f"stored in {self.expert_dtype}{', other linear layers in fp8,' if bare else ','} "
                "as in the published checkpoints"
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
        if self.stored is not None:
            own, drafts = self.stored.layers, self.stored.layers[self.num_hidden_layers :]
            formats = (*(own[i] for i in layers), *drafts)
            kept["stored"] = self.stored.model_copy(update={"layers": formats})
        if self.drafts_blocks:
            stages = changes.get("num_nextn_predict_layers", self.mtp_layers)
            kept["dspark_target_layer_ids"] = (len(layers) - 1,) * int(str(stages)) or None
        return self.model_copy(update={**kept, **changes})

    @property
    def mtp_layers(self) -> int:
        """Draft stages after the backbone: MTP layers, or those of a DSpark head."""
        if self.dspark_target_layer_ids:
            return len(self.dspark_target_layer_ids)
        return self.num_nextn_predict_layers

    @property
    def drafts_blocks(self) -> bool:
        """Whether the draft is a DSpark head, which drafts a block in one pass."""
        return bool(self.dspark_target_layer_ids)

    def formats_of(self, layer: int) -> LayerFormats:
        """Formats of a layer's modules, draft stages counted on from the backbone."""
        if self.stored is not None:
            return self.stored.layers[layer]
        return LayerFormats(linear="fp8", expert=self.expert_dtype)

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Kind of every backbone layer's attention."""
        return tuple(layer.kind for layer in self.layers)

    @property
    def nope_head_dim(self) -> int:
        """Dimensions of a head without rotary position; they come first."""
        return self.head_dim - self.qk_rope_head_dim


class FaultsError(KeyFaultError):
    """All that is wrong with a configuration: (keys, sentence) of each."""

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__(*faults[0])
        self.faults = tuple(faults)


_Faults = Iterator[tuple[tuple[str | int, ...], str]]


def _ratio_faults(config: ModelConfig) -> _Faults:
    try:
        check_ratios(config.compress_ratios, config.layer_types)
    except KeyFaultError as fault:
        yield fault.keys, fault.sentence
    given, backbone = len(config.compress_ratios), config.num_hidden_layers
    stages = config.mtp_layers
    # Published lists carry one entry more than the backbone for every draft stage.
    allowed = sorted({backbone, backbone + 1, backbone + stages})
    if given not in allowed:
        yield (
            ("compress_ratios",),
            f"compress_ratios has {given} entries, expected {' or '.join(map(str, allowed))} "
            "(num_hidden_layers, and one for every draft stage)",
        )
    types = config.layer_types
    if types is not None and not backbone <= len(types) <= given:
        yield (
            ("layer_types",),
            f"layer_types has {len(types)} entries, expected the {backbone} of num_hidden_layers",
        )


def _head_faults(config: ModelConfig) -> _Faults:
    if config.num_attention_heads % config.o_groups:
        yield (
            ("o_groups",),
            f"o_groups is {config.o_groups}, expected a divisor of the "
            f"{config.num_attention_heads} of num_attention_heads",
        )
    if config.qk_rope_head_dim % 2:
        yield (
            ("qk_rope_head_dim",),
            f"qk_rope_head_dim is {config.qk_rope_head_dim}, expected an even number: "
            "rotation works on pairs",
        )
    for name in ("head_dim", "index_head_dim"):
        if config.qk_rope_head_dim > getattr(config, name):
            yield (
                ("qk_rope_head_dim",),
                f"qk_rope_head_dim is {config.qk_rope_head_dim}, expected at most the "
                f"{getattr(config, name)} of {name}",
            )


def _size_faults(config: ModelConfig) -> _Faults:
    for name, most in (
        ("num_experts_per_tok", "n_routed_experts"),
        ("sliding_window", "max_position_embeddings"),
        ("index_topk", "max_position_embeddings"),
        ("num_hash_layers", "num_hidden_layers"),
    ):
        if getattr(config, name) > getattr(config, most):
            yield (
                (name,),
                f"{name} is {getattr(config, name)}, expected at most the "
                f"{getattr(config, most)} of {most}",
            )


_DSPARK = ("block_size", "markov_rank", "target_layer_ids", "noise_token_id")


def _draft_faults(config: ModelConfig) -> _Faults:
    """A DSpark head is stated whole, and taps layers that there are."""
    given = {name: getattr(config, f"dspark_{name}") for name in _DSPARK}
    if all(value is None for value in given.values()):
        return
    for name, value in given.items():
        if value is None or value == ():
            yield (
                (f"dspark_{name}",),
                f"dspark_{name} is missing, which a DSpark draft head needs beside "
                f"{', '.join(f'dspark_{n}' for n, v in given.items() if v)}",
            )
    for i, layer in enumerate(config.dspark_target_layer_ids or ()):
        if layer >= config.num_hidden_layers:
            yield (
                ("dspark_target_layer_ids", i),
                f"dspark_target_layer_ids[{i}] is {layer}, expected less than the "
                f"{config.num_hidden_layers} of num_hidden_layers",
            )
    noise = config.dspark_noise_token_id
    if noise is not None and noise >= config.vocab_size:
        yield (
            ("dspark_noise_token_id",),
            f"dspark_noise_token_id is {noise}, expected less than the {config.vocab_size} of "
            "vocab_size",
        )
    experts = config.dspark_n_routed_experts or config.n_routed_experts
    picks = config.dspark_num_experts_per_tok or config.num_experts_per_tok
    if picks > experts:
        yield (
            ("dspark_num_experts_per_tok",),
            f"a draft stage picks {picks} experts a token, expected at most its {experts}",
        )
    for i, stage in enumerate(config.mtp_stages):
        if stage.ratio:
            yield (
                ("compress_ratios", config.num_hidden_layers + i),
                f"compress_ratios[{config.num_hidden_layers + i}] is {stage.ratio}, but stages of "
                "a DSpark draft attend to a window only; expected 0",
            )


def list_models() -> list[str]:
    """Names of the V4 models that ship with the package."""
    return list_data_names(_MODELS)


def find_model(name_or_path: str | Path) -> ModelConfig:
    """Model by name (`v4-pro`), by the Hugging Face name of one that ships, or by path.

    A path is a YAML file, a config.json, or the folder of a checkpoint. The user's own file of a
    shipped model's name is named after the file too.
    """
    refused = _COUNTED_ONLY.get(str(name_or_path).lower())
    if refused:
        raise UnsupportedError(f"{refused}; give one of {', '.join(list_models())}")
    name_or_path = HUGGING_FACE_NAMES.get(str(name_or_path).lower(), name_or_path)
    if is_path(name_or_path) and (Path(name_or_path) / "config.json").is_file():
        name_or_path = Path(name_or_path) / "config.json"
    elif _is_repository(str(name_or_path)):
        raise InputError(
            f"'{name_or_path}' is neither a file nor a Hugging Face name of a model that ships "
            f"({', '.join(HUGGING_FACE_NAMES)}); give the path of its config.json"
        )
    path = find_data_file("model", name_or_path, _MODELS)
    data, lines = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    if _is_hf(path):
        data = _beside(path, data)
    own = path.resolve().parent.name if _is_hf(path) else path.stem
    config = model_from_mapping(data, lines, name=own)
    if is_path(name_or_path) and config.name.lower() in list_data_names(_MODELS):
        return config.model_copy(update={"name": named_after(config.name, path)})
    return config


def _is_hf(path: Path) -> bool:
    return path.name == "config.json"


def _is_repository(word: str) -> bool:
    """Whether a word looks like `owner/name` and is no file."""
    return bool(_REPOSITORY.fullmatch(word)) and not Path(word).exists()


# Files that tools write beside config.json, with what is stored how.
_BESIDE = {
    "hf_quant_config.json": lambda own: {"quant_method": "modelopt", **own},
    "quant_model_description.json": lambda own: {"quant_method": "ascend", "modules": own},
}


def _beside(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the list of modules from a file beside it, where it has none."""
    for name, settings in _BESIDE.items():
        file = path.parent / name
        given = data.get("quantization_config")
        whole = isinstance(given, dict) and set(given) - {"quant_method", "model_quant_type"}
        if file.is_file() and not whole:
            dropped = ("quantize", "quantization_config", "quantization")
            kept = {key: value for key, value in data.items() if key not in dropped}
            return kept | {"quantization_config": settings(load_json_mapping(file)[0])}
    return data


def model_from_mapping(
    data: dict[str, Any], lines: LineMap | None = None, *, name: str = "custom"
) -> ModelConfig:
    """Model of a mapping with Hugging Face's keys, such as the `config` of a golden file.

    All faults of the mapping are one error, a sentence a line.
    """
    lines = lines or LineMap(Path(name), {})
    found = read_published(data, ModelConfig.model_fields, name)
    if any(keys == ("model_type",) for keys, _, _ in found.faults.found):
        raise_faults(found, lines)
    found.kept["file_notes"] = [*(found.kept.get("file_notes") or ()), *found.notes]
    try:
        config = ModelConfig.model_validate_json(json.dumps(found.kept))
    except ValidationError as error:
        raise_faults(found, lines, _schema_faults(error, found.kept))
        raise
    raise_faults(found, lines)
    return config


def _schema_faults(error: ValidationError, data: dict[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    for keys, sentence, kind, cause in faults_of(error, data, ModelConfig):
        if isinstance(cause, FaultsError):
            yield from ((own, said, FileFormatError) for own, said in cause.faults)
        else:
            yield keys, sentence, kind
