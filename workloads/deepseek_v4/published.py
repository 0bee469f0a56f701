"""From a published config.json to the fields of `ModelConfig`: every form in which files come.

Files re-saved by newer transformers name layer types, rotary parameters and kinds of experts by
layer; quantised ones say what is stored how. What contradicts itself, or cannot be done, is a
fault; all faults of a file are told at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.yaml_loader import KeyFaultError
from workloads.deepseek_v4.known_unused import KNOWN_UNUSED
from workloads.deepseek_v4.layer_kinds import KIND_OF_TYPE, ratios_of_types, usual_kind
from workloads.deepseek_v4.quantization import Faults, Plan, read_plan
from workloads.deepseek_v4.stored_formats import Shape, compile_patterns, stored_formats

# Settings of which only one value is implemented: the key, that value, and what else exists.
_ONLY: dict[str, tuple[object, str]] = {
    "scoring_func": ("sqrtsoftplus", "expert scores"),
    "hidden_act": ("silu", "expert activation"),
    "tie_word_embeddings": (False, "embedding and head as one tensor"),
    "attention_bias": (False, "biases in attention projections"),
    "mlp_bias": (False, "biases in experts"),
    "topk_method": ("noaux_tc", "expert selection"),
    "n_group": (1, "group-limited routing"),
    "topk_group": (1, "group-limited routing"),
    "num_key_value_heads": (1, "key-value heads"),
    "moe_layer_freq": (1, "dense layers between expert ones"),
    "first_k_dense_replace": (0, "dense layers before expert ones"),
}
# Models of the same family that this graph is not.
_OTHER_MODELS = {
    "deepseek_v32": "DeepSeek-V3.2 is a counted reference only",
    "deepseek_v4_1": "of DeepSeek-V4.1 only the cache is modelled: give v4.1-flash",
    "deepseek_v41": "of DeepSeek-V4.1 only the cache is modelled: give v4.1-flash",
}
# Other names of a key in files of other writers.
_SAME_KEY = {"num_local_experts": "n_routed_experts", "intermediate_size": "moe_intermediate_size"}
_MLP_TYPES = ("hash_moe", "moe")
# How alike a misspelt key has to be to a known one to be taken for it.
_NEAR = 0.75
# Keys that are read here and are no fields.
_READ = {
    *_ONLY,
    *_SAME_KEY,
    "model_type",
    "compress_rates",
    "compress_rate_csa",
    "compress_rate_hca",
    "rope_parameters",
    "partial_rotary_factor",
    "mlp_layer_types",
    "quantization",
    "quantization_config",
    "quantize",
}


@dataclass(slots=True)
class Published:
    """Fields for the schema, sentences on what the file leaves open, and all faults found."""

    kept: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)


def read_published(data: Mapping[str, Any], fields: Iterable[str], name: str) -> Published:
    """Fields of a mapping with Hugging Face's keys; faults are collected, not raised."""
    found = Published({})
    known = set(fields)
    if not _is_v4(data, found):
        return found
    for key, value in data.items():
        if value is None and key != "rope_scaling" and key in known:
            continue  # as if it were not there
        if key in known and key not in ("quantization_config", "num_key_value_heads"):
            found.kept[key] = value
        elif key not in known and key not in _READ and key not in KNOWN_UNUSED:
            found.faults.add((key,), _unknown(key, known), FileFormatError)
    found.kept.setdefault("name", name)
    _other_settings(data, found)
    _same_keys(data, found)
    _rotary(data, found)
    _layer_types(data, found)
    _hash_layers(data, found)
    _draft_stages(found)
    _quantised(data, found)
    return found


def _is_v4(data: Mapping[str, Any], found: Published) -> bool:
    given = data.get("model_type", "deepseek_v4")
    if given == "deepseek_v4":
        return True
    hint = _OTHER_MODELS.get(str(given), "expected 'deepseek_v4'")
    found.faults.add(("model_type",), f"model_type {given!r} is not supported: {hint}")
    return False


def _unknown(key: str, known: Iterable[str]) -> str:
    """Sentence for a key that nothing here knows; the nearest name only where one is near."""
    names = sorted({*known, *_READ, *KNOWN_UNUSED})
    near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=_NEAR)
    if near:
        return f"unknown key {key!r}: did you mean {near[0]!r}?"
    return (
        f"unknown key {key!r}, near no setting of DeepSeek-V4; leave it out if it changes nothing "
        "in inference"
    )


def _other_settings(data: Mapping[str, Any], found: Published) -> None:
    for key, (only, what) in _ONLY.items():
        given = data.get(key, only)
        if given is not None and (
            given != only or isinstance(given, bool) != isinstance(only, bool)
        ):
            found.faults.add(
                (key,),
                f"{key} {given!r} is not supported: of {what} only {only!r} is implemented",
            )
            found.kept.pop(key, None)


def _same_keys(data: Mapping[str, Any], found: Published) -> None:
    for other, own in _SAME_KEY.items():
        if data.get(other) is None:
            continue
        if own not in data:
            found.kept[own] = data[other]
        elif data[own] != data[other]:
            found.faults.add(
                (other,),
                f"{other} is {data[other]!r} but {own} is {data[own]!r}; both mean the same",
                FileFormatError,
            )


def _rotary(data: Mapping[str, Any], found: Published) -> None:
    """`rope_scaling` under either name of its kind, or the `rope_parameters` of transformers 5."""
    given = data.get("rope_parameters")
    kept = found.kept
    if isinstance(given, Mapping):
        main, compress = given.get("main"), given.get("compress")
        for name in ("main", "compress"):
            if given.get(name) is not None and not isinstance(given[name], Mapping):
                found.faults.add(
                    ("rope_parameters", name),
                    f"rope_parameters.{name} is {given[name]!r}, expected a mapping",
                    FileFormatError,
                )
                return
        if isinstance(main, Mapping) or isinstance(compress, Mapping):
            _take_rotary(main or {}, ("rope_parameters", "main"), "rope_theta", data, found)
            where = ("rope_parameters", "compress")
            _take_rotary(compress or {}, where, "compress_rope_theta", data, found)
            scaling = _scaling(compress or {}, where, found)
        else:
            _take_rotary(given, ("rope_parameters",), "rope_theta", data, found)
            scaling = _scaling(given, ("rope_parameters",), found)
        if data.get("rope_scaling") is None:
            kept["rope_scaling"] = scaling
    if isinstance(data.get("rope_scaling"), Mapping):
        kept["rope_scaling"] = _scaling(data["rope_scaling"], ("rope_scaling",), found)
    factor, dim = data.get("partial_rotary_factor"), kept.get("head_dim")
    if isinstance(factor, int | float) and isinstance(dim, int):
        rotary = factor * dim
        if rotary != int(rotary):
            found.faults.add(
                ("partial_rotary_factor",),
                f"partial_rotary_factor {factor} of head_dim {dim} is {rotary:g}, no whole number",
                FileFormatError,
            )
        elif kept.setdefault("qk_rope_head_dim", int(rotary)) != int(rotary):
            found.faults.add(
                ("partial_rotary_factor",),
                f"partial_rotary_factor {factor} of head_dim {dim} is {int(rotary)} dimensions, "
                f"but qk_rope_head_dim is {kept['qk_rope_head_dim']}",
                FileFormatError,
            )


def _take_rotary(
    own: Mapping[str, Any], where: tuple[str, ...], name: str, data: Mapping[str, Any],
    found: Published,
) -> None:  # fmt: skip
    theta = own.get("rope_theta")
    if theta is None:
        return
    if data.get(name, theta) != theta:
        found.faults.add(
            (*where, "rope_theta"),
            f"{'.'.join(where)}.rope_theta is {theta:g} but {name} is {data[name]!r}",
            FileFormatError,
        )
    found.kept.setdefault(name, theta)


def _scaling(
    own: Mapping[str, Any], where: tuple[str, ...], found: Published
) -> dict[str, Any] | None:
    """YaRN's settings as the schema has them; None where nothing is stretched."""
    key = "rope_type" if "rope_type" in own else "type"
    kind = own.get(key, "default" if where[0] == "rope_parameters" else "yarn")
    if kind == "default":
        return None
    if kind != "yarn":
        found.faults.add(
            (*where, key),
            f"{where[0]} type {kind!r} is not supported: only 'yarn' (or null) is",
        )
        return None
    for name in ("attention_factor", "mscale", "mscale_all_dim"):
        if own.get(name) not in (None, 1, 1.0, 0):
            found.faults.add(
                (*where, name),
                f"{'.'.join(where)}.{name} is {own[name]!r}, expected 1: V4 does not scale so",
            )
    unread = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "attention_factor"}
    unread |= {"mscale", "mscale_all_dim", "truncate"}
    return {"type": "yarn"} | {k: v for k, v in own.items() if k not in unread}


def _layer_types(data: Mapping[str, Any], found: Published) -> None:
    """`compress_ratios` from layer types and their rates where the file has them."""
    kept = found.kept
    types, rates = data.get("layer_types"), data.get("compress_rates")
    single = {
        kind: data[key]
        for key, kind in (
            ("compress_rate_csa", "compressed_sparse_attention"),
            ("compress_rate_hca", "heavily_compressed_attention"),
        )
        if data.get(key) is not None
    }
    if single or (rates is None and types is not None and "compress_ratios" not in kept):
        usual = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
        rates = {**usual, **(rates if isinstance(rates, Mapping) else {}), **single}
        if not single and isinstance(types, list | tuple):
            found.notes.append(
                "layer_types has no compress_rates beside it: 4 tokens an entry of compressed "
                "sparse attention and 128 of heavily compressed, as transformers takes them"
            )
    known = kept.get("compress_ratios")
    if isinstance(known, list | tuple) and isinstance(types, list | tuple):
        # A ratio of 1 compresses nothing, whatever a file calls it.
        known = [0 if ratio == 1 else ratio for ratio in known]
    try:
        ratios = ratios_of_types(types, rates, known)
    except KeyFaultError as fault:
        found.faults.add(fault.keys, fault.sentence, fault.kind)
        return
    if ratios is not None:
        kept.setdefault("compress_ratios", ratios)
        if isinstance(types, list | tuple) and _as_ratios_say(types, ratios):
            # Types that ratios alone would give say nothing more.
            kept.pop("layer_types", None)


def _as_ratios_say(types: Iterable[Any], ratios: Iterable[int]) -> bool:
    return all(
        isinstance(kind, str) and KIND_OF_TYPE.get(kind) == usual_kind(ratio)
        for kind, ratio in zip(types, ratios, strict=False)
    )


def _hash_layers(data: Mapping[str, Any], found: Published) -> None:
    """`num_hash_layers` from the kinds of experts by layer: the first so many."""
    types, kept = data.get("mlp_layer_types"), found.kept
    if not isinstance(types, list | tuple):
        return
    layers = kept.get("num_hidden_layers")
    for i, kind in enumerate(types):
        if kind not in _MLP_TYPES:
            found.faults.add(
                ("mlp_layer_types", i),
                f"mlp_layer_types[{i}] is {kind!r}, expected one of {', '.join(_MLP_TYPES)}",
                FileFormatError,
            )
            return
    if isinstance(layers, int) and len(types) != layers:
        found.faults.add(
            ("mlp_layer_types",),
            f"mlp_layer_types has {len(types)} entries, expected the {layers} of num_hidden_layers",
            FileFormatError,
        )
    count = list(types).count("hash_moe")
    if list(types[:count]) != ["hash_moe"] * count:
        first = list(types).index("moe")
        found.faults.add(
            ("mlp_layer_types", first),
            f"mlp_layer_types has hash_moe behind moe (layer {first}), but only the first layers "
            "can route by token id here",
        )
    if kept.setdefault("num_hash_layers", count) != count:
        found.faults.add(
            ("num_hash_layers",),
            f"num_hash_layers is {kept['num_hash_layers']!r}, but mlp_layer_types has {count} of "
            "hash_moe",
            FileFormatError,
        )


def _draft_stages(found: Published) -> None:
    """How many stages the draft has: that many tapped layers, else `num_nextn_predict_layers`."""
    kept = found.kept
    ratios, layers = kept.get("compress_ratios"), kept.get("num_hidden_layers")
    listed = isinstance(ratios, list | tuple) and isinstance(layers, int)
    extra = len(ratios) - layers if listed else 0  # type: ignore[arg-type,operator]
    given = kept.get("num_nextn_predict_layers")
    targets = kept.get("dspark_target_layer_ids")
    if isinstance(targets, list | tuple) and targets:
        stages = len(targets)
        if given not in (None, stages):
            found.notes.append(
                f"num_nextn_predict_layers says {given}, but the DSpark draft has {stages} stages, "
                "one for each of dspark_target_layer_ids: the key is left over from the MTP layer"
            )
        kept["num_nextn_predict_layers"] = stages
        if listed and extra not in (0, stages):
            found.faults.add(
                ("compress_ratios",),
                f"compress_ratios has {len(ratios)} entries, expected {layers + stages} "  # type: ignore[arg-type,operator]
                f"(the {layers} of num_hidden_layers and one for each of the {stages} "
                "dspark_target_layer_ids)",
                FileFormatError,
            )
    elif given is None and listed:
        kept["num_nextn_predict_layers"] = 1 if extra == 1 else 0
        if extra > 1:
            found.faults.add(
                ("compress_ratios",),
                f"compress_ratios has {len(ratios)} entries, {extra} more than the {layers} of "  # type: ignore[arg-type]
                "num_hidden_layers, but neither dspark_target_layer_ids nor "
                "num_nextn_predict_layers says that there are draft stages",
                FileFormatError,
            )
    stages = kept.get("num_nextn_predict_layers", 0)
    if listed and isinstance(stages, int) and 0 <= extra < stages and extra < 2:
        found.notes.append(
            f"{stages} draft {'stage' if stages == 1 else 'stages'} but "
            f"{extra or 'no'} {'entry' if extra == 1 else 'entries'} of compress_ratios beyond the "
            f"{layers} layers: those without one attend to a window only"
        )
    if listed and extra == 1 and stages == 0:
        found.notes.append(
            "num_nextn_predict_layers is 0: the entry of compress_ratios beyond the backbone is "
            "left out, and no draft layer is stored"
        )


def _quantised(data: Mapping[str, Any], found: Published) -> None:
    """Formats by module; files without `quantization_config` are stored as released ones are."""
    kept, before = found.kept, len(found.faults.found)
    plan = read_plan(data, found.faults)
    if plan is None or len(found.faults.found) > before:
        return
    pattern = compile_patterns(plan)
    if pattern is not None:
        found.faults.add(
            ("quantization_config",),
            f"{pattern!r} of quantization_config is no regular expression",
            FileFormatError,
        )
        return
    if plan.writer == "fp8" and _as_released(data, plan, kept):
        return
    shape = _shape(kept)
    if shape is None:
        return
    stored = stored_formats(plan, shape)
    main = [layer.expert for layer in stored.layers[: shape.backbone]]
    kept["stored"] = {
        "layers": [layer.model_dump() for layer in stored.layers],
        "embed": stored.embed,
        "head": stored.head,
    }
    kept["expert_dtype"] = max(dict.fromkeys(main), key=main.count)
    found.notes += stored.notes


def _as_released(data: Mapping[str, Any], plan: Plan, kept: dict[str, Any]) -> bool:
    """Whether FP8 blocks and `expert_dtype` say all; takes over the keys of the schema."""
    if kept.get("stored") is not None:
        return True
    own = data.get("quantization_config")
    own = own if isinstance(own, Mapping) else {}
    fields = ("quant_method", "fmt", "scale_fmt", "activation_scheme", "weight_block_size")
    kept["quantization_config"] = {k: own[k] for k in fields if own.get(k) is not None}
    if plan.groups or plan.ignored:
        return False
    if own.get("expert_dtype") is not None:
        kept["expert_dtype"] = own["expert_dtype"]
    return True


def _shape(kept: Mapping[str, Any]) -> Shape | None:
    """What decides the modules' names; None where a fault of the schema is in the way."""
    ratios, layers = kept.get("compress_ratios"), kept.get("num_hidden_layers")
    stages = kept.get("num_nextn_predict_layers", 0)
    if not isinstance(ratios, list | tuple) or not isinstance(layers, int):
        return None
    if not isinstance(stages, int) or not 0 < layers <= 1024 or not 0 <= stages <= 64:
        return None
    types = list(kept.get("layer_types") or ())
    kinds = [
        KIND_OF_TYPE.get(types[i], "swa") if i < len(types) else usual_kind(ratio)
        for i, ratio in enumerate(ratios)
        if isinstance(ratio, int)
    ]
    return Shape(
        layers,
        stages,
        bool(kept.get("dspark_target_layer_ids")),
        tuple(kind == "csa" for kind in kinds),
        tuple(kind != "swa" for kind in kinds),
    )


def raise_faults(found: Published, lines: Any, more: Iterable[tuple[Any, str, Any]] = ()) -> None:
    """Raise all faults as one error, a sentence a line, in the order of the file."""
    faults = list(dict.fromkeys((tuple(k), s, c) for k, s, c in (*found.faults.found, *more)))
    if not faults:
        return
    faults.sort(key=lambda fault: lines(fault[0]))
    kinds = {kind for _, _, kind in faults}
    kind = UnsupportedError if kinds == {UnsupportedError} else FileFormatError
    if kinds == {InputError}:
        kind = InputError  # type: ignore[assignment]
    raise kind("\n".join(lines.error(keys, sentence).message for keys, sentence, _ in faults))
