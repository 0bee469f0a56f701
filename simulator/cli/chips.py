"""`v4sim chips`: what chips ship, and every number of one with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.cli.options import JsonFile, console, save_json

if TYPE_CHECKING:
    from hwmodels.chip import ChipSpec
    from reports.text_table import TextColumn

app = typer.Typer(
    help="Chips that ship with v4sim; --chip elsewhere also takes a path to a YAML file.",
    epilog="Example: v4sim chips show h200",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog="Example: v4sim chips list")
def list_command(json: JsonFile = None) -> None:
    """List the chips with their main figures, one line a chip."""
    from hwmodels.chip import find_chip, list_chips
    from reports.text_table import left_out, text_table, wrapped

    rows = [_figures(find_chip(name)) for name in list_chips()]
    columns, width = _columns(rows), console().width
    console().print(text_table(columns, width))
    for line in (
        "TFLOP/s are peaks of matrix math; link is to the other chips of a node, one direction.",
        left_out(columns, width),
    ):
        if line:
            console().print(wrapped(line, width), style="dim")
    save_json(json, {"chips": rows})


def _figures(chip: ChipSpec) -> dict[str, Any]:
    rates = {
        f"matrix_{dtype}_flops_per_s": chip.matrix_flops_per_s(dtype)
        for dtype in ("bf16", "fp8", "fp4")
    }
    return {
        "name": chip.name,
        "vendor": chip.vendor,
        "architecture": chip.architecture,
        "memory_bytes": chip.hbm_capacity_bytes,
        "memory_bytes_per_s": chip.hbm_bandwidth_bytes_per_s,
        **rates,
        "scale_up_bytes_per_s": chip.scale_up_bytes_per_s,
    }


def _columns(rows: Sequence[dict[str, Any]]) -> list[TextColumn]:
    """Names as they are, numbers in the unit of their heading."""
    from reports.text_table import TextColumn

    texts = [("chip", "name", 0), ("vendor", "vendor", 3), ("architecture", "architecture", 2)]
    numbers = [
        ("memory\nGiB", "memory_bytes", 2**30, 0),
        ("DRAM\nTB/s", "memory_bytes_per_s", 1e12, 0),
        ("bf16\nTFLOP/s", "matrix_bf16_flops_per_s", 1e12, 0),
        ("fp8\nTFLOP/s", "matrix_fp8_flops_per_s", 1e12, 0),
        ("fp4\nTFLOP/s", "matrix_fp4_flops_per_s", 1e12, 0),
        ("link\nGB/s", "scale_up_bytes_per_s", 1e9, 1),
    ]
    return [
        *(
            TextColumn(heading=heading, cells=[row[key] for row in rows], left=True, rank=rank)
            for heading, key, rank in texts
        ),
        *(
            TextColumn(heading=heading, cells=[_in_unit(row[key], unit) for row in rows], rank=rank)
            for heading, key, unit, rank in numbers
        ),
    ]


def _in_unit(value: float | None, unit: float) -> str:
    """At most two decimals below 10, one above; `none` where a chip lacks it."""
    if value is None:
        return "none"
    number = value / unit
    text = f"{number:,.{2 if number < 10 else 1}f}"
    return text.rstrip("0").rstrip(".")


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
