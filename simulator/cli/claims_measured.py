"""`v4sim claims --serving FILE.csv`: measured serving runs of a table beside what ours serves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.basis.errors import InputError, unknown_name
from simulator.cli.options import console, error_console, save_json

if TYPE_CHECKING:
    from simulator.claims.measured import Measured


MECHANISMS = ("lockstep", "host", "exchange", "skew", "padding", "client")


def say_measured(
    path: Path, only: Sequence[str], json: Path | None, *, without: Sequence[str], bands: bool
) -> None:
    """Serve every run of the table that a recipe maps, and print rows, scores and scenarios."""
    from reports.measured_text import (
        measured_columns,
        measured_records,
        scenario_lines,
        score_lines,
    )
    from reports.text_table import print_table, wrapped

    unknown = [name for name in without if name not in MECHANISMS]
    if unknown:
        raise InputError(unknown_name("mechanism", unknown[0], MECHANISMS))
    found = _compared(path, only, without, bands)
    save_json(json, {"measured": measured_records(found)})
    width = console().width
    print_table(console(), measured_columns(found))
    console().print("\nOf the rows that count")
    for line in score_lines(found):
        console().print(line, soft_wrap=True)
    console().print("\nThe scenario of every run, as v4sim serve takes it")
    for line in scenario_lines(found):
        console().print(wrapped(line, width, 2), style="dim", markup=False)


def say_fused(json: Path | None) -> None:
    """Print published layers of fused expert exchange beside ours, fused and apart."""
    from simulator.claims.fused_exchange import fused_layers, median_off

    with error_console().status("costing published layers"):
        found = fused_layers()
    heads = ("tokens a rank", "published us", "ours us", "off by", "apart us")
    console().print(f"{'model, ranks x chip':<24}" + "".join(f"{head:>15}" for head in heads))
    for one in found:
        row = one.row
        console().print(
            f"{row.model + f', {row.ranks} x {row.chip}':<24}{row.tokens:>15,}{row.us:>15,.1f}"
            f"{one.ours_us:>15,.1f}{one.difference:>+15.1%}{one.separate_us:>15,.1f}"
        )
    median = median_off(found)
    console().print(f"{len(found)} layers, off by {median:.1%} in the median")
    layers = [
        {
            **one.row.model_dump(),
            "ours_us": one.ours_us,
            "separate_us": one.separate_us,
            "difference": one.difference,
        }
        for one in found
    ]
    save_json(json, {"median_off": median, "layers": layers})


def say_effects(path: Path, only: Sequence[str]) -> None:
    """What each mechanism contributes: the scores with all of them, and without each."""
    from reports.measured_text import effect_line

    console().print("Median off by (bias) of the rows that count", style="bold")
    for name in ("", *MECHANISMS):
        found = _compared(path, only, (name,) if name else (), bands=False)
        words = f"without {name}" if name else "all mechanisms"
        console().print(effect_line(words, found), soft_wrap=True)


def _compared(
    path: Path, only: Sequence[str], without: Sequence[str], bands: bool
) -> list[Measured]:
    from simulator.claims.measured import compare, served
    from simulator.claims.recipes import load_recipes, read_rows, runs_of

    recipes = load_recipes()
    runs = runs_of(read_rows(path), recipes)
    runs = tuple(run for run in runs if not only or any(part in run.name for part in only))
    found: list[Measured] = []
    stderr = error_console()
    for place, run in enumerate(runs):
        if stderr.is_terminal:
            stderr.print(f"serving {run.name} ({place + 1} of {len(runs)})", style="dim")
        found += compare(run, recipes.metrics, lambda one: served(one, without, bands=bands))
    return found
