"""Models small enough to run in numpy: V4's layer lists with narrow layers and short windows.

A name (`flash-like-16`, `pro-like-8`), a model of the package (`tiny`), or a YAML file that need
only give the window and the layer list; what it leaves out is taken from `NARROW`:

    sliding_window: 16
    compress_ratios: [0, 0, 4, 128, 4, 128, 4, 128, 4]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.basis.data_files import is_path
from simulator.basis.errors import InputError, UnsupportedError, unknown_name
from simulator.basis.yaml_loader import compose_yaml
from simulator.prove.replay_count import OVERLAP_ROWS
from simulator.prove.stored_prefix import PAGE_TOKENS
from workloads.deepseek_v4.config import ModelConfig, find_model, list_models, model_from_mapping

NARROW: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "vocab_size": 64,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "head_dim": 16,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_groups": 1,
    "o_lora_rank": 16,
    "index_n_heads": 8,
    "index_head_dim": 8,
    "index_topk": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "num_hash_layers": 1,
    "routed_scaling_factor": 1.5,
    "swiglu_limit": 10.0,
    "hc_mult": 2,
    "hc_sinkhorn_iters": 3,
    "hc_eps": 1e-6,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 65536,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
}
"""Every key but the window and the layer list, which decide how far a replay must reach."""

LISTS: dict[str, tuple[int, ...]] = {
    "flash-like": (0, 0, *(4, 128) * 3, 4),
    "pro-like": (128, 128, *(4, 128) * 3, 4),
}
"""Layer lists of V4-Flash and V4-Pro with three pairs in the middle, nine layers in all."""

WINDOWS = (8, 16, 32)
LARGEST_PARAMETERS = 20_000_000


def narrow_model(name: str, window: int, ratios: tuple[int, ...]) -> ModelConfig:
    """A narrow model of any window and layer list."""
    return _narrow(name, {"sliding_window": window, "compress_ratios": list(ratios)})


def default_models() -> list[ModelConfig]:
    """Flash-like and Pro-like, with each of the windows."""
    return [
        narrow_model(f"{name}-{window}", window, ratios)
        for name, ratios in LISTS.items()
        for window in WINDOWS
    ]


def small_model(name_or_path: str) -> ModelConfig:
    """Model to be run; InputError where it is unknown or too large to run in numpy."""
    config = _from_file(Path(name_or_path)) if is_path(name_or_path) else _by_name(name_or_path)
    _check_ratios(config)
    parameters = _parameters(config)
    if parameters > LARGEST_PARAMETERS:
        raise InputError(
            f"{config.name} has {parameters:,} parameters, and a proof runs at most "
            f"{LARGEST_PARAMETERS:,} of them in float64; give a narrow one, such as "
            f"{default_models()[0].name} or a YAML file of sliding_window and compress_ratios"
        )
    return config


def _check_ratios(config: ModelConfig) -> None:
    """Raise InputError for layers that a proof does not cover."""
    for layer, attention in enumerate(config.layers):
        overlap = OVERLAP_ROWS if attention.indexed else attention.ratio
        if attention.ratio and (attention.ratio != overlap or PAGE_TOKENS % attention.ratio):
            kind = attention.kind.upper()
            raise InputError(
                f"layer {layer} of {config.name} is {kind} with {attention.ratio} tokens an entry, "
                f"and a proof takes CSA of {OVERLAP_ROWS} and HCA of a divisor of "
                f"its pages of {PAGE_TOKENS} tokens; change compress_ratios"
            )


def _by_name(name: str) -> ModelConfig:
    narrow = {config.name: config for config in default_models()}
    if name.lower() in narrow:
        return narrow[name.lower()]
    names = [*narrow, *list_models()]
    if name.lower() not in names:
        raise InputError(
            f"{unknown_name('model', name, names)}; a path to a YAML file of sliding_window and "
            "compress_ratios also works"
        )
    return find_model(name)


def _from_file(path: Path) -> ModelConfig:
    """A whole config, or the window and the layer list with what else the file gives."""
    if path.suffix == ".json" or not path.is_file():
        return find_model(path)
    data, lines = compose_yaml(path)
    if "hidden_size" in data:
        return find_model(path)
    for key in ("sliding_window", "compress_ratios"):
        if key not in data:
            raise lines.error((), f"{key} is missing: a narrow model needs {key}", InputError)
    if not data["compress_ratios"]:
        raise lines.error(
            ("compress_ratios",), "compress_ratios lists no layer, expected one or more", InputError
        )
    filled = _filled(data)
    return model_from_mapping(filled, lines, name=path.stem)


def _narrow(name: str, data: dict[str, Any]) -> ModelConfig:
    return model_from_mapping(_filled(data), name=name)


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    ratios = data["compress_ratios"]
    layers = len(ratios) if isinstance(ratios, list) else 1
    return NARROW | {"num_hidden_layers": layers} | data


def _parameters(config: ModelConfig) -> int:
    from workloads.deepseek_v4.graph import build_graph
    from workloads.step_shape import StepShape

    try:
        graph = build_graph(config, StepShape.uniform(1, 1, 0))
    except ValueError as error:
        raise UnsupportedError(f"{config.name} cannot be built: {error}") from None
    return sum(tensor.size for tensor in graph.params.values())
