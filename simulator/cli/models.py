"""`v4sim models`: what models ship, and what one consists of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, save_json

if TYPE_CHECKING:
    from reports.text_table import TextColumn
    from workloads.tensor_type import TensorType

app = typer.Typer(
    help="Models that ship with v4sim; --model elsewhere also takes a path to YAML or config.json.",
    epilog="Example: v4sim models show v4-pro",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_KEY_WIDTH = 26
_ROUTED = ("moe/w13", "moe/w2")


@app.command("list", epilog="Example: v4sim models list")
def list_command(json: JsonFile = None) -> None:
    """List the models by name, with layers and parameters."""
    from reports.text_table import left_out, text_table, wrapped
    from workloads.deepseek_v4.config import find_model, list_models
    from workloads.deepseek_v32.config import find_v32

    rows = [{"name": name, **_facts(find_model(name))} for name in list_models()]
    rows += [{"name": "v3.2", **_v32_facts(find_v32())}, {"name": "v4.1-flash", **_v41_facts()}]
    columns, width = _columns(rows), console().width
    console().print(text_table(columns, width))
    for line in (
        "MTP is the layer that drafts a token ahead; stored weights count it where there is one.",
        "v3.2 is executed and counted, v4.1-flash known by its cache; no engine prices a step of "
        "either.",
        left_out(columns, width),
    ):
        if line:
            console().print(wrapped(line, width), style="dim")
    save_json(json, {"models": rows})


@app.command("show", epilog="Example: v4sim models show v4-flash")
def show(
    name: Annotated[str, typer.Argument(help="Name, or path to a YAML file or config.json.")],
    json: JsonFile = None,
) -> None:
    """Show a model's configuration, its parameters and what a request's cache takes."""
    from reports.text_table import print_table, wrapped
    from workloads.deepseek_v4.config import find_model

    notes: tuple[str, ...] = ()
    unread = ""
    fields: dict[str, Any]
    if name.lower() in ("v3.2", "deepseek-ai/deepseek-v3.2") or _is_v32(name):
        from workloads.deepseek_v32.config import find_v32

        v32 = find_v32(name if _is_v32(name) else "v3.2")
        fields, facts = v32.model_dump(), _v32_facts(v32)
    elif name.lower() in ("v4.1-flash", "deepseek-ai/deepseek-v4.1-flash"):
        from dataclasses import asdict

        from workloads.deepseek_v41 import MISSING, V41_FLASH

        fields, facts = asdict(V41_FLASH), _v41_facts()
        notes = (f"missing for a step of v4.1-flash: {'; '.join(MISSING)}",)
    else:
        config = find_model(name)
        fields, facts, notes = config.model_dump(), _facts(config), config.notes
        unread = _unread(name)
    print_table(console(), _fact_columns(facts))
    for note in notes:
        console().print(wrapped(f"Assumes: {note}", console().width, 2), style="dim")
    if unread:
        line = f"Known keys that change nothing here: {unread}."
        console().print(wrapped(line, console().width, 2), style="dim")
    console().print("\nConfiguration, by the names of config.json")
    for key, value in fields.items():
        line = wrapped(f"{key:<{_KEY_WIDTH}} {_text(value)}", console().width, _KEY_WIDTH + 1)
        console().print(line, markup=False, soft_wrap=True)
    save_json(json, {"config": fields, "facts": facts, "notes": list(notes)})


def _unread(name: str) -> str:
    """Keys of a user's file that are known and change no cost, each with the reason."""
    from pathlib import Path

    from simulator.basis.data_files import is_path
    from simulator.basis.yaml_loader import compose_yaml, load_json_mapping
    from workloads.deepseek_v4.known_unused import KNOWN_UNUSED

    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    if not is_path(name) or not path.is_file():
        return ""
    data, _ = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    found = [f"{key} ({KNOWN_UNUSED[key]})" for key in data if key in KNOWN_UNUSED]
    return ", ".join(found)


def _columns(rows: Sequence[dict[str, Any]]) -> list[TextColumn]:
    from reports.quantity import scaled_text
    from reports.text_table import TextColumn
    from simulator.basis.units import format_bytes

    def cells(key: str, write: Any) -> list[str]:
        return [write(row[key]) if row.get(key) else "–" for row in rows]

    with_mtp = [scaled_text(row["parameters"]) if row.get("mtp_layers") else "–" for row in rows]
    return [
        TextColumn(heading="model", cells=cells("name", str), left=True),
        TextColumn(heading="layers", cells=cells("layers", str)),
        TextColumn(heading="SWA / CSA / HCA", cells=cells("layers_by_kind", _kinds), rank=1),
        TextColumn(
            heading="parameters\nwithout MTP", cells=cells("parameters_without_mtp", scaled_text)
        ),
        TextColumn(heading="parameters\nwith MTP", cells=with_mtp),
        TextColumn(heading="stored", cells=cells("weight_bytes", format_bytes)),
    ]


def _kinds(counts: dict[str, int]) -> str:
    return " / ".join(str(counts[kind]) for kind in ("swa", "csa", "hca"))


def _fact_columns(facts: dict[str, Any]) -> list[TextColumn]:
    """Facts in words: scaled for reading, and exactly; MTP is counted only where there is one."""
    from reports.text_table import TextColumn

    shown = {k: v for k, v in facts.items() if k != "parameters" or facts.get("mtp_layers")}
    rows = [row for key, value in shown.items() for row in _fact(key, value)]
    names, values, exact = zip(*rows, strict=True)
    return [
        TextColumn(heading="", cells=names, left=True),
        TextColumn(heading="about", cells=values),
        TextColumn(heading="exactly", cells=exact),
    ]


def _fact(key: str, value: Any) -> list[tuple[str, str, str]]:
    """Rows of (name, scaled, exactly) of one fact."""
    from reports.quantity import scaled_text
    from simulator.basis.units import format_bytes, format_rate

    if key == "layers_by_kind":
        names = {"swa": "window only (SWA)", "csa": "CSA", "hca": "HCA"}
        return [(f"  of them {names[kind]}", "", str(count)) for kind, count in value.items()]
    words = _FACT_NAMES.get(key, "")
    if key == "weight_bytes_by_format":
        return [
            (f"  of them {name}", format_bytes(nbytes), f"{nbytes:,} B")
            for name, nbytes in value.items()
        ]
    if "parameters" in key:
        return [(words, scaled_text(value), f"{value:,}")]
    if "bytes" in key:
        return [(words, format_bytes(value), f"{value:,} B")]
    if "gflops" in key:
        return [(words, format_rate(value * 10**9, "FLOP"), f"{value:,} GFLOP")]
    return [(words, "", f"{value:,}")]


_FACT_NAMES = {
    "layers": "layers",
    "mtp_layers": "MTP layers, which draft a token ahead",
    "parameters_without_mtp": "parameters without MTP",
    "parameters": "parameters with MTP",
    "weight_bytes": "stored weights, MTP included",
    "routed_expert_bytes": "routed experts, MTP included",
    "cache_growth_bytes_per_token_fp8_index": "cache a token adds, fp8 index keys",
    "cache_growth_bytes_per_token_fp4_index": "cache a token adds, fp4 index keys",
    "cache_growth_bytes_per_token": "cache a token adds",
    "cache_entry_bytes": "an entry with its index key",
    "tokens_a_gibibyte_holds": "tokens whose entries a GiB holds",
    "weight_bytes_without_mtp": "stored weights without MTP",
    "cache_fixed_bytes_per_request": "cache a request takes at least",
    "weighted_gflops_per_token_at_1048576": "FP8-equivalent work of a token at 1M",
}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return "none" if value is None else str(value)


def _facts(config: Any) -> dict[str, Any]:
    """Counts with and without MTP layers; `parameters` and `weight_bytes` count it."""
    from workloads.deepseek_v4.graph import model_parameters
    from workloads.deepseek_v4.precision import Precision
    from workloads.deepseek_v4.state import model_state

    has_mtp = config.mtp_layers > 0
    backbone = model_parameters(config)
    whole = model_parameters(config, mtp=True) if has_mtp else backbone
    growth = {
        index: model_state(config, Precision(index=index)).growth_bytes_per_token
        for index in ("fp8", "fp4")
    }
    return {
        "layers": config.num_hidden_layers,
        "layers_by_kind": {k: config.layer_kinds.count(k) for k in ("swa", "csa", "hca")},
        "mtp_layers": config.mtp_layers,
        "parameters_without_mtp": _parameters(backbone),
        "parameters": _parameters(whole),
        "weight_bytes": sum(tensor.nbytes for tensor in whole.values()),
        "weight_bytes_by_format": _by_format(whole.values()),
        "routed_expert_bytes": sum(
            tensor.nbytes
            for name, tensor in whole.items()
            if name.endswith(_ROUTED) and "shared" not in name
        ),
        "cache_growth_bytes_per_token_fp8_index": growth["fp8"],
        "cache_growth_bytes_per_token_fp4_index": growth["fp4"],
        "cache_fixed_bytes_per_request": model_state(config, Precision()).fixed_bytes,
    }


def _by_format(tensors: Iterable[TensorType]) -> dict[str, int]:
    """Stored bytes by number format, largest first."""
    found: dict[str, int] = {}
    for tensor in tensors:
        found[tensor.dtype.name] = found.get(tensor.dtype.name, 0) + tensor.nbytes
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _parameters(params: dict[str, TensorType]) -> int:
    return sum(tensor.size for tensor in params.values())


def _is_v32(name: str) -> bool:
    """Whether a user's file is a configuration of V3.2's."""
    from pathlib import Path

    from simulator.basis.data_files import is_path
    from simulator.basis.yaml_loader import compose_yaml, load_json_mapping

    path = Path(name)
    if not is_path(name) or not path.is_file():
        return False
    data, _ = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    return data.get("model_type") == "deepseek_v32"


def _v32_facts(config: Any) -> dict[str, Any]:
    """Counted on the graph of one decode token."""
    from simulator.count.count import count_graph
    from workloads.deepseek_v32.graph import build_v32_graph, v32_state
    from workloads.step_shape import StepShape

    graph = build_v32_graph(config, StepShape.uniform(1, 1, 2**20 - 1))
    return {
        "layers": config.num_hidden_layers,
        "parameters_without_mtp": _parameters(graph.params),
        "weight_bytes_without_mtp": graph.weight_bytes,
        "cache_growth_bytes_per_token": v32_state(config).growth_bytes_per_token,
        "weighted_gflops_per_token_at_1048576": count_graph(graph).total.weighted_flops / 1e9,
    }


def _v41_facts() -> dict[str, Any]:
    from workloads.deepseek_v41 import V41_FLASH

    return {
        "layers": V41_FLASH.window_layers,
        "cache_entry_bytes": V41_FLASH.entry_bytes,
        "cache_growth_bytes_per_token": V41_FLASH.growth_bytes_per_token,
        "tokens_a_gibibyte_holds": V41_FLASH.tokens_in(2**30),
    }
