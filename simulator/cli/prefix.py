"""`v4sim prefix`: prefix caching of the heterogeneous cache."""

from __future__ import annotations

import typer

from simulator.cli.prefix_compare import compare
from simulator.cli.prefix_crossover import crossover
from simulator.cli.prefix_prove import prove

prefix = typer.Typer(
    help="Prefix caching: what to keep of a shared prefix, and what it is worth.",
    epilog="Example: v4sim prefix prove --model flash-like-16",
    no_args_is_help=True,
    rich_markup_mode=None,
)
prefix.command("prove")(prove)
prefix.command("compare")(compare)
prefix.command("crossover")(crossover)
