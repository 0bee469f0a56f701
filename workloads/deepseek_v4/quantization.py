"""Precision by module, read from a published config.json's quantization settings.

Each tool writes another form: released checkpoints and their re-packs (`fp8`), ModelOpt,
compressed-tensors, AWQ, GPTQ, AutoRound, Quark, msmodelslim (Ascend) and MLX. A reader turns one
into `Plan`: groups of modules with a format, modules that are left alone, and what is said beside.
A module in no group is BF16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.yaml_loader import KeyFaultError
from workloads.deepseek_v4.weight_plan import LayerFormats
from workloads.weight_format import grouped_name, weight_format

# Names of a class of modules that stand for every linear layer.
LINEAR_CLASSES = {"Linear", "LinearBase", "nn.Linear", "*"}
_KEY = "quantization_config"


@dataclass(frozen=True, slots=True)
class Group:
    """Modules by class or pattern, and the format that they are stored in (None: left alone)."""

    targets: tuple[str, ...]
    format: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file says: later groups win over earlier ones, `ignored` over all.

    `base` formats hold where no group names a module; None leaves it in BF16. `embeddings`: classes
    of linear layers include the embedding. `notes` are assumptions.
    """

    groups: tuple[Group, ...] = ()
    ignored: tuple[str, ...] = ()
    base: LayerFormats | None = None
    embeddings: bool = False
    first_wins: bool = False
    notes: tuple[str, ...] = ()
    writer: str = ""


@dataclass(slots=True)
class Faults:
    """Faults of one reader, all of them: keys, sentence and class of the error."""

    found: list[tuple[tuple[str | int, ...], str, type[InputError]]] = field(default_factory=list)

    def add(
        self, keys: Iterable[str | int], sentence: str, kind: type[InputError] = UnsupportedError
    ) -> None:
        """One more."""
        self.found.append((tuple(keys), sentence, kind))


def read_plan(data: Mapping[str, Any], faults: Faults) -> Plan | None:
    """Plan of a configuration; None where it says nothing of quantisation."""
    given, key = _given(data, faults)
    if given is None:
        return None
    method = _method(given, key)
    reader = READERS.get(method)
    if reader is None:
        faults.add(
            (key, "quant_method") if "quant_method" in given else (key,),
            f"{key} is of {method!r}, a form whose formats are not modelled; known are "
            f"{', '.join(sorted(READERS))}",
        )
        return None
    try:
        return reader(given, data, faults)
    except KeyFaultError as fault:
        faults.add((key, *fault.keys), f"{key}: {fault.sentence}", fault.kind)
        return None
    except InputError as fault:
        faults.add((key,), f"{key}: {fault.message}", FileFormatError)
        return None
    except (TypeError, AttributeError, ValueError, KeyError):
        # A value of another kind than the tool writes: a list for a number, text for a mapping.
        faults.add(
            (key,),
            f"{key} of {method!r} has a value of another form than that tool writes, so that the "
            "formats of its modules cannot be read",
            FileFormatError,
        )
        return None


def _given(data: Mapping[str, Any], faults: Faults) -> tuple[Mapping[str, Any] | None, str]:
    """The settings and the key that holds them; MLX writes them twice, which have to agree."""
    found = {k: data[k] for k in (_KEY, "quantization", "quantize") if data.get(k) is not None}
    if not found:
        return None, _KEY
    if _KEY in found and "quantization" in found and found[_KEY] != found["quantization"]:
        faults.add(("quantization",), f"quantization and {_KEY} differ; leave one of the two out")
    key = next(iter(found))
    value = found[key]
    if key == "quantize":
        return {"quant_method": "ascend", "quantize": value}, key
    if not isinstance(value, Mapping):
        faults.add((key,), f"{key} is {value!r}, expected a mapping", InputError)
        return None, key
    return value, key


def _method(given: Mapping[str, Any], key: str) -> str:
    """Name of the form, told by its keys where the file does not say it."""
    method = given.get("quant_method")
    if method is None:
        if "bits" in given and "group_size" in given:
            return "mlx"
        if "quant_algo" in given or "quantization" in given:
            return "modelopt"
        if "config_groups" in given:
            return "compressed-tensors"
        return "fp8"
    word = str(method).lower()
    return _SAME_METHOD.get(word, word)


_SAME_METHOD = {
    "modelopt_fp4": "modelopt",
    "modelopt_mixed": "modelopt",
    "nvfp4": "modelopt",
    "compressed_tensors": "compressed-tensors",
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "autoround": "auto-round",
    "intel/auto-round": "auto-round",
    "modelslim": "ascend",
    "msmodelslim": "ascend",
}


# Released checkpoints, and re-packs that keep their form.


def _fp8(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    """Linear layers in FP8 blocks, routed experts as `expert_dtype` or `moe_quant_algo` say."""
    expert = given.get("expert_dtype", data.get("expert_dtype"))
    notes: tuple[str, ...] = ()
    base = LayerFormats(linear="fp8", expert=_expert_format(expert))
    groups: list[Group] = []
    layers = given.get("quantized_layers")
    algo = given.get("moe_quant_algo")
    if isinstance(layers, Mapping):
        groups += _by_layer(layers)
    elif algo is not None:
        groups.append(Group(("re:.*(ffn|mlp)\\.experts\\b.*",), _modelopt_format(str(algo), given)))
    ignored = _words(given, ("modules_to_not_convert", "ignored_layers"))
    if groups and expert is not None:
        notes = (
            f"quantization_config says {groups[0].format} for routed experts and wins over "
            f"expert_dtype {expert}",
        )
    return Plan(tuple(groups), ignored, base, notes=notes, writer="fp8")


def _expert_format(given: Any) -> str:
    word = "fp4" if given is None else str(given).lower()
    try:
        return weight_format(word).name
    except InputError:
        raise KeyFaultError(
            ("expert_dtype",), f"expert_dtype is {given!r}, expected 'fp4', 'fp8' or 'bf16'"
        ) from None


def _mxfp4(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    """As transformers writes it: routed experts in MXFP4, all else as it was."""
    groups = (Group(("re:.*(ffn|mlp)\\.experts\\b.*",), "fp4"),)
    return Plan(groups, _words(given, ("modules_to_not_convert",)), writer="mxfp4")


# ModelOpt.

_MODELOPT: dict[str, tuple[str, bool]] = {
    # Line of the table, and whether it takes the file's group size.
    "NVFP4": ("nvfp4", True),
    "NVFP4_AWQ": ("nvfp4", True),
    "NVFP4_MLP_ONLY": ("nvfp4", True),
    "NVFP4_SVDQUANT": ("nvfp4", True),
    "NVFP4_FP8": ("nvfp4-w4a8", True),
    "W4A8_NVFP4_FP8": ("nvfp4-w4a8", True),
    "W4A16_NVFP4": ("nvfp4-w4a16", True),
    "FP8": ("fp8-tensor", False),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8-row", False),
    "FP8_PB_WO": ("fp8", False),
    "FP8_PB_REAL": ("fp8", False),
    "FP8_BLOCK_SCALES": ("fp8", False),
    "MXFP8": ("mxfp8", True),
    "MXFP4": ("mxfp4-w4a4", True),
    "W4A8_MXFP4_FP8": ("fp4", True),
    "W4A8_MXFP4_MXFP8": ("fp4", True),
    "W4A16_MXFP4": ("mxfp4-w4a16", True),
    "W4A16": ("w4a16", True),
    "W4A16_AWQ": ("w4a16", True),
    "W4A8_AWQ": ("w4afp8", True),
    "W8A16": ("w8a16-row", False),
    "W8A8_SQ_PER_CHANNEL": ("int8", False),
    "INT8_SQ": ("int8", False),
}


def _modelopt_format(algo: str, given: Mapping[str, Any]) -> str:
    word = algo.upper()
    if word not in _MODELOPT:
        raise KeyFaultError(
            ("quant_algo",),
            f"quant_algo {algo!r} is not modelled; known are {', '.join(_MODELOPT)}",
            UnsupportedError,
        )
    line, grouped = _MODELOPT[word]
    size = given.get("group_size")
    return grouped_name(line, size if grouped and isinstance(size, int) else None)


def _by_layer(layers: Mapping[str, Any]) -> list[Group]:
    """Groups of a `quantized_layers` mapping from modules to their algorithm."""
    found: dict[str, list[str]] = {}
    for name, own in layers.items():
        settings = own if isinstance(own, Mapping) else {"quant_algo": own}
        algo = settings.get("quant_algo")
        if algo is None:
            raise KeyFaultError(("quantized_layers", name), f"module {name!r} has no quant_algo")
        try:
            form = _modelopt_format(str(algo), settings)
        except KeyFaultError as fault:
            raise KeyFaultError(
                ("quantized_layers", name), f"module {name!r}: {fault.sentence}", fault.kind
            ) from None
        found.setdefault(form, []).append(name)
    return [Group(tuple(names), form) for form, names in found.items()]


def _modelopt(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    inner = given.get("quantization")
    own = {**given, **inner} if isinstance(inner, Mapping) else dict(given)
    ignored = _words(own, ("ignore", "exclude_modules"))
    algo, layers = str(own.get("quant_algo") or "").upper(), own.get("quantized_layers")
    groups: list[Group] = []
    if isinstance(layers, Mapping):
        groups = _by_layer(layers)
    elif isinstance(own.get("config_groups"), Mapping):
        groups = _config_groups(own["config_groups"], None)
    elif algo and algo != "MIXED_PRECISION":
        groups = [Group(("Linear",), _modelopt_format(algo, own))]
    if algo == "MIXED_PRECISION" and not groups:
        raise KeyFaultError(
            ("quant_algo",), "quant_algo MIXED_PRECISION needs quantized_layers, which are missing"
        )
    return Plan(tuple(groups), ignored, writer="modelopt")


# compressed-tensors.


def _compressed_tensors(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    groups = given.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise KeyFaultError(("config_groups",), "config_groups is missing or empty")
    ignored = _words(given, ("ignore",))
    return Plan(
        tuple(_config_groups(groups, given.get("format"))),
        ignored,
        first_wins=True,
        writer="compressed-tensors",
    )


def _config_groups(groups: Mapping[str, Any], form: Any) -> list[Group]:
    found = []
    for name, own in groups.items():
        if not isinstance(own, Mapping):
            raise KeyFaultError(("config_groups", name), f"group {name!r} is no mapping")
        targets = own.get("targets") or ["Linear"]
        targets = (targets,) if isinstance(targets, str) else tuple(map(str, targets))
        try:
            found.append(Group(targets, _tensors_format(own)))
        except KeyFaultError as fault:
            raise KeyFaultError(
                ("config_groups", name),
                f"group {name!r} of {', '.join(targets)}: {fault.sentence}",
                fault.kind,
            ) from None
    return found


def _tensors_format(group: Mapping[str, Any]) -> str | None:
    """Format of a group's weights and input activations."""
    weights = group.get("weights")
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise KeyFaultError((), "weights is no mapping")
    act = group.get("input_activations")
    act = act if isinstance(act, Mapping) else None
    bits, kind = weights.get("num_bits", 8), str(weights.get("type", "int"))
    size, strategy = weights.get("group_size"), weights.get("strategy")
    if strategy is None:
        strategy = "group" if isinstance(size, int) and size > 0 else "channel"
    taken = None if act is None else (act.get("num_bits", 8), str(act.get("type", kind)))
    try:
        line = _tensors_line(bits, kind, str(strategy), size, taken, weights)
    except KeyError:
        acts = "none" if taken is None else f"{taken[0]} bit {taken[1]}"
        raise KeyFaultError(
            (),
            f"{bits} bit {kind} weights by {strategy} with {acts} for activations are not modelled",
            UnsupportedError,
        ) from None
    return grouped_name(line, size if isinstance(size, int) else None)


def _tensors_line(
    bits: Any, kind: str, strategy: str, size: Any, taken: Any, weights: Mapping[str, Any]
) -> str:
    """Line of the table; KeyError where none fits."""
    if kind == "float" and bits == 8:
        if strategy == "group" and size == 32:
            return "mxfp8"
        by = {"tensor": "fp8-tensor", "channel": "fp8-row", "block": "fp8"}
        return by[strategy]
    if kind == "float" and bits == 4:
        small = "nvfp4" if (size or 16) == 16 else "mxfp4"
        if taken is None:
            return f"{small}-w4a16"
        if taken[0] == 8:
            return "nvfp4-w4a8" if small == "nvfp4" else "fp4"
        return {4: {"nvfp4": "nvfp4", "mxfp4": "mxfp4-w4a4"}[small]}[taken[0]]
    if kind != "int":
        raise KeyError(kind)
    channel = strategy in ("channel", "tensor")
    if taken is None:
        symmetric = weights.get("symmetric", True)
        if bits == 8:
            return "w8a16-row" if channel else ("w8a16" if symmetric else "w8a16-zp")
        if bits == 4:
            return "w4a16-row" if channel else ("w4a16" if symmetric else "w4a16-zp")
        return {2: "w2a16-zp", 3: "w3a16-zp"}[bits]
    if bits == 8:
        return {(8, "int"): "int8"}[taken]
    if taken == (8, "float"):
        return {4: "w4afp8"}[bits]
    return {(4, 8): "w4a8" if channel else "w4a8-group"}[(bits, taken[0])]


# Weight-only integer formats.


def _packed(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    """AWQ, GPTQ and AutoRound: integers of so many bits in groups, with BF16 activations."""
    form = _packed_format(given.get("bits", given.get("w_bit", 4)), given)
    ignored = _words(given, ("modules_to_not_convert", "exclude_layers", "modules_in_block_to_not"))
    groups = [Group(("Linear",), form)]
    for key in ("extra_config", "dynamic"):
        for name, own in dict(given.get(key) or {}).items():
            word = str(name)
            if key == "dynamic":  # GPTQModel: `-:` leaves modules out, `+:` changes them
                sign, _, rest = word.partition(":")
                word, own = f"re:{rest}", None if sign == "-" else own
            bits = 16 if own is None else own.get("bits", given.get("bits", 4))
            mixed = {**given, **(own or {})}
            groups.append(Group((word,), None if bits >= 16 else _packed_format(bits, mixed)))
    ignored += ("lm_head",) if not given.get("lm_head") else ()
    ignored += ("gate",)
    return Plan(tuple(groups), ignored, writer=str(given.get("quant_method")))


def _packed_format(bits: Any, given: Mapping[str, Any]) -> str:
    data_type = str(given.get("data_type", "int")).lower()
    act_bits = given.get("act_bits", 16)
    if data_type.startswith(("mx_fp", "nv_fp", "fp")):
        table = {"mx_fp4": "mxfp4", "mx_fp": "mxfp4", "nv_fp4": "nvfp4", "nv_fp": "nvfp4"}
        small = table.get(data_type.split("_with")[0])
        if small and bits == 4:
            full = {"mxfp4": "mxfp4-w4a4", "nvfp4": "nvfp4"}
            return f"{small}-w4a16" if (act_bits or 16) >= 16 else full[small]
        if data_type.startswith("mx_fp") and bits == 8:
            return "mxfp8" if (act_bits or 16) < 16 else "mxfp8-w8a16"
    lines = {2: "w2a16-zp", 3: "w3a16-zp", 4: "w4a16-zp", 8: "w8a16-zp"}
    if data_type.startswith("int") and bits in lines:
        size = given.get("group_size", given.get("q_group_size", 128))
        if size == -1:
            if bits == 4:
                return "w4a16-row"
            if bits == 8:
                return "w8a16-row"
        else:
            return grouped_name(lines[bits], size)
    raise KeyFaultError(
        ("bits",), f"{bits} bit {data_type} weights are not modelled", UnsupportedError
    )


# Quark.


def _quark(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    whole = given.get("global_quant_config")
    groups = [] if whole is None else [Group(("Linear",), _quark_format(whole))]
    for name, own in dict(given.get("layer_quant_config") or {}).items():
        groups.append(Group((str(name),), _quark_format(own)))
    return Plan(tuple(groups), _words(given, ("exclude",)), writer="quark")


def _quark_format(own: Any) -> str | None:
    weight = own.get("weight") if isinstance(own, Mapping) else None
    if isinstance(weight, Sequence) and not isinstance(weight, str):
        weight = weight[0]
    if not isinstance(weight, Mapping):
        return None
    act = own.get("input_tensors")
    dtype, scheme = str(weight.get("dtype")), str(weight.get("qscheme", "per_group"))
    size = weight.get("group_size")
    lines = {
        ("fp4", True): "mxfp4-w4a4",
        ("fp4", False): "mxfp4-w4a16",
        ("int4", False): "w4a16",
        ("int4", True): "w4afp8",
        ("int8", True): "int8",
        ("fp8_e4m3", True): "fp8-row" if scheme == "per_channel" else "fp8-tensor",
        ("fp8_e4m3", False): "fp8-row" if scheme == "per_channel" else "fp8-tensor",
        ("mxfp4", True): "mxfp4-w4a4",
        ("mxfp4", False): "mxfp4-w4a16",
    }
    if (dtype, act is not None) not in lines:
        raise KeyFaultError(
            ("weight", "dtype"), f"Quark weights of {dtype!r} are not modelled", UnsupportedError
        )
    return grouped_name(lines[dtype, act is not None], size)


# msmodelslim, for Ascend chips.

_ASCEND = {
    "W8A8": "int8",
    "W8A8_DYNAMIC": "int8",
    "W8A8_MIX": "int8",
    "W8A8_PER_TOKEN": "int8",
    "W8A16": "w8a16-row",
    "W4A8": "w4a8",
    "W4A8_DYNAMIC": "w4a8",
    "W4A16": "w4a16",
    "W8A8_MXFP8": "mxfp8",
    "W4A8_MXFP": "fp4",
    "W4A4_MXFP4": "mxfp4-w4a4",
    "FLOAT": "bf16",
}


def _ascend_format(word: str, group: Any = None) -> str:
    line = _ASCEND.get(word.upper())
    if line is None:
        raise KeyFaultError(
            (), f"{word!r} is not modelled; known are {', '.join(_ASCEND)}", UnsupportedError
        )
    if line == "w4a8" and isinstance(group, int) and group > 0:
        return grouped_name("w4a8-group", group)
    return line


def _ascend(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    """`quantize`: one word for the model. The list of its modules is in a file of its own."""
    modules = given.get("modules")
    if isinstance(modules, Mapping):
        return _ascend_modules(modules)
    word = given.get("quantize", given.get("model_quant_type", given.get("quant_type")))
    if word is None:
        raise KeyFaultError((), "no quantize or model_quant_type says what the weights are")
    form = _ascend_format(str(word), given.get("group_size"))
    # W4A8 of msmodelslim keeps INT4 to the routed experts.
    linear = "int8" if form.startswith("w4a8") else form
    note = (
        f"{word} without quant_model_description.json: the modules that released checkpoints store "
        f"in FP8 are taken as {linear}, routed experts as {form}, all others as BF16"
    )
    base = LayerFormats(linear=linear, expert=form)
    return Plan(base=base, notes=(note,), writer="ascend")


def _ascend_modules(modules: Mapping[str, Any]) -> Plan:
    found: dict[str, list[str]] = {}
    size = modules.get("group_size")
    for name, word in modules.items():
        if isinstance(word, str) and name.endswith(".weight"):
            found.setdefault(_ascend_format(word, size), []).append(name.removesuffix(".weight"))
    groups = tuple(Group(tuple(names), form) for form, names in found.items())
    return Plan(groups, writer="ascend")


# MLX.


def _mlx(given: Mapping[str, Any], data: Mapping[str, Any], faults: Faults) -> Plan:
    """All linear layers and the embedding in one block format; modules by name may differ."""
    groups = [Group(("Linear",), _mlx_format(given, None))]
    for name, own in given.items():
        if own is False:
            groups.append(Group((name,), None))
        elif isinstance(own, Mapping):
            groups.append(Group((name,), _mlx_format({**given, **own}, name)))
    return Plan(tuple(groups), embeddings=True, writer="mlx")


def _mlx_format(given: Mapping[str, Any], module: str | None) -> str:
    bits, size, mode = given.get("bits"), given.get("group_size"), given.get("mode", "affine")
    lines: dict[tuple[Any, Any], str] = {
        **{("affine", b): f"affine{b}" for b in (2, 3, 4, 5, 6, 8)},
        ("mxfp4", 4): "mxfp4-w4a16",
        ("nvfp4", 4): "nvfp4-w4a16",
        ("mxfp8", 8): "mxfp8-w8a16",
    }
    if (mode, bits) not in lines:
        raise KeyFaultError(
            ("bits",) if module is None else (module,),
            f"{bits} bits of mode {mode!r}{f' of {module}' if module else ''} are not modelled; "
            "known are affine of 2 to 6 or 8 bits, mxfp4, nvfp4 and mxfp8",
            UnsupportedError,
        )
    return grouped_name(lines[mode, bits], size if isinstance(size, int) else None)


Reader = Callable[[Mapping[str, Any], Mapping[str, Any], Faults], Plan]
READERS: dict[str, Reader] = {
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed_tensors,
    "awq": _packed,
    "gptq": _packed,
    "auto-round": _packed,
    "quark": _quark,
    "ascend": _ascend,
    "mlx": _mlx,
}


def _words(given: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    found: list[str] = []
    for key in keys:
        value = given.get(key)
        found += [value] if isinstance(value, str) else [str(v) for v in value or ()]
    return tuple(found)
