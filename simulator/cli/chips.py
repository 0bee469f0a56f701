"""`v4sim chips`: what chips ship, and every number of one with its origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, save_json

app = typer.Typer(
    help="Chips that ship with v4sim; --chip elsewhere also takes a path to a YAML file.",
    epilog="Example: v4sim chips show h200",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog="Example: v4sim chips list")
def list_command(json: JsonFile = None) -> None:
    """List the chips with their main figures."""
    from rich.table import Table

    from hwmodels.chip import find_chip, list_chips
    from simulator.basis.units import format_bytes, format_rate

    table = Table("chip", "architecture", "memory", "bandwidth", "bf16", "fp8", "fp4", "scale-up")
    rows = []
    for name in list_chips():
        chip = find_chip(name)
        rates = {d: chip.matrix_flops_per_s(d) for d in ("bf16", "fp8", "fp4")}
        table.add_row(
            name,
            chip.architecture,
            format_bytes(chip.hbm_capacity_bytes),
            format_rate(chip.hbm_bandwidth_bytes_per_s),
            *(format_rate(rate, "FLOP/s") if rate else "none" for rate in rates.values()),
            format_rate(chip.scale_up_bytes_per_s),
        )
        rows.append(
            {
                "name": name,
                "vendor": chip.vendor,
                "architecture": chip.architecture,
                "memory_bytes": chip.hbm_capacity_bytes,
                "memory_bytes_per_s": chip.hbm_bandwidth_bytes_per_s,
                **{f"matrix_{dtype}_flops_per_s": rate for dtype, rate in rates.items()},
                "scale_up_bytes_per_s": chip.scale_up_bytes_per_s,
            }
        )
    console().print(table)
    save_json(json, {"chips": rows})


@app.command("show", epilog="Example: v4sim chips show b200")
def show(
    name: Annotated[str, typer.Argument(help="Name, or path to a YAML file.")],
    json: JsonFile = None,
) -> None:
    """Show every number of a chip and of the node it sits in, with kind and source."""
    from hwmodels.chip import find_chip
    from hwmodels.node import find_node

    chip, node = find_chip(name), find_node(name)
    for title, spec in ((f"chip {chip.name}", chip), (f"node {node.name}", node)):
        console().print(title, style="bold")
        for key, value in _leaves(spec.model_dump()):
            console().print(f"  {key}: {_sentence(value)}", soft_wrap=True, markup=False)
    save_json(json, {"chip": chip.model_dump(), "node": node.model_dump()})


def _leaves(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and "unit" not in value:
            yield from _leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _sentence(value: Any) -> str:
    """A sourced number as value, unit, kind, origin."""
    if not isinstance(value, dict):
        return str(value)
    unit = "" if value["unit"] == "1" else f" {value['unit']}"
    origin = "; ".join(text for text in (value["source"], value["note"]) if text)
    return f"{value['value']:,}{unit} ({value['kind']}: {' '.join(origin.split())})"
