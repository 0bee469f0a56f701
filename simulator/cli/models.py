"""`v4sim models`: what models ship, and what one consists of."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, save_json

app = typer.Typer(
    help="Models that ship with v4sim; --model elsewhere also takes a path to YAML or config.json.",
    epilog="Example: v4sim models show v4-pro",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog="Example: v4sim models list")
def list_command(json: JsonFile = None) -> None:
    """List the models by name, with layers and parameters."""
    from rich.table import Table

    from workloads.deepseek_v4.config import find_model, list_models

    table = Table("model", "layers", "window only / CSA / HCA", "parameters", "stored")
    rows = []
    for name in list_models():
        facts = _facts(find_model(name))
        kinds = facts["layers_by_kind"]
        table.add_row(
            name,
            str(facts["layers"]),
            " / ".join(str(kinds[kind]) for kind in ("swa", "csa", "hca")),
            f"{facts['parameters'] / 1e9:,.2f} B",
            f"{facts['weight_bytes'] / 2**30:,.2f} GiB",
        )
        rows.append({"name": name, **facts})
    reference = _reference_facts()
    table.add_row("v3.2", str(reference["layers"]), "counted reference, no graph", "", "")
    rows.append({"name": "v3.2", **reference})
    console().print(table)
    save_json(json, {"models": rows})


@app.command("show", epilog="Example: v4sim models show v4-flash")
def show(
    name: Annotated[str, typer.Argument(help="Name, or path to a YAML file or config.json.")],
    json: JsonFile = None,
) -> None:
    """Show a model's configuration, its parameters and what a request's cache takes."""
    from rich.table import Table

    from workloads.deepseek_v4.config import find_model

    if name.lower() == "v3.2":
        from workloads.deepseek_v4.reference_v32 import find_reference

        fields, facts = find_reference().model_dump(), _reference_facts()
    else:
        config = find_model(name)
        fields, facts = config.model_dump(), _facts(config)
    table = Table("field", "value")
    for key, value in (fields | facts).items():
        table.add_row(key, f"{value:,}" if isinstance(value, int) else str(value))
    console().print(table)
    save_json(json, {"config": fields, "facts": facts})


def _facts(config: Any) -> dict[str, Any]:
    """Counts of the backbone, the MTP layer included where there is one."""
    from workloads.deepseek_v4.graph import build_graph
    from workloads.deepseek_v4.precision import Precision
    from workloads.deepseek_v4.state import model_state
    from workloads.step_shape import StepShape

    graph = build_graph(config, StepShape.uniform(1, 1, 0), mtp=config.mtp_layers == 1)
    growth = {
        index: model_state(config, Precision(index=index)).growth_bytes_per_token
        for index in ("fp8", "fp4")
    }
    return {
        "layers": config.num_hidden_layers,
        "layers_by_kind": {k: config.layer_kinds.count(k) for k in ("swa", "csa", "hca")},
        "mtp_layers": config.mtp_layers,
        "parameters": sum(t.size for t in graph.params.values()),
        "weight_bytes": graph.weight_bytes,
        "cache_growth_bytes_per_token_fp8_index": growth["fp8"],
        "cache_growth_bytes_per_token_fp4_index": growth["fp4"],
        "cache_fixed_bytes_per_request": model_state(config, Precision()).fixed_bytes,
    }


def _reference_facts() -> dict[str, Any]:
    from workloads.deepseek_v4.reference_v32 import (
        find_reference,
        kv_bytes_per_token,
        weighted_gflops,
    )

    reference = find_reference()
    return {
        "layers": reference.num_hidden_layers,
        "cache_growth_bytes_per_token": kv_bytes_per_token(reference),
        "weighted_gflops_per_token_at_1048576": weighted_gflops(reference, 2**20),
    }
