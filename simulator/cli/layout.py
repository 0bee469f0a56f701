"""`v4sim layout`: what page sizes, padding and pool grouping of the cache cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
)

if TYPE_CHECKING:
    from reports.layout_text import Cuts
    from reports.memory_text import TextTable
    from simulator.layout.sweep import LayoutCost
    from simulator.layout.sweep_request import AskedSweep

Pool = Annotated[
    str,
    typer.Option(
        help="Whose pages are swept: all, or a pool such as window, c4, c4_index or c128."
    ),
]
Pages = Annotated[
    str | None,
    typer.Option(help="Tokens of a page, 64 to 4096, such as 128,192,256 [default: 17 sizes]."),
]
Paddings = Annotated[
    str | None,
    typer.Option(
        "--padding",
        help="engine, none, page:BYTES or row:BYTES, several by commas [default: engine, none, "
        "and 32, 64, 128 and 576 bytes of either].",
    ),
]
Grouping = Annotated[
    str | None,
    typer.Option(
        help="engine, separate, buckets (vLLM 0.22) or one-block (vLLM 0.33), several by commas "
        "[default: the last three; separate where one pool is swept]."
    ),
]
Mix = Annotated[
    str | None,
    typer.Option(
        help="Context lengths as LENGTH:REQUESTS or LOW-HIGH:REQUESTS (even over the range), such "
        "as 4096:10,1-8192:32 [default: 64 requests from 1 to 262,144 tokens]."
    ),
]
Neighbours = Annotated[
    float, typer.Option(help="Chance that a C4 pick is the entry after the pick before.")
]


@takes_deployment(
    *("pp", "cp", "page_tokens", "memory_share", "max_requests", "packed_keys"),
    model="v4-flash",
    chip="h200",
    count=8,
)
def layout(
    deployment: Mapping[str, Any],
    pool: Pool = "all",
    pages: Pages = None,
    padding: Paddings = None,
    grouping: Grouping = None,
    mix: Mix = None,
    neighbours: Neighbours = 0.0,
    context: Annotated[int, typer.Option(help="Capacity: tokens of a request.")] = 131_072,
    in_flight: Annotated[int, typer.Option(help="Capacity: tokens of a step in flight.")] = 1,
    budget_gib: Annotated[float, typer.Option(help="Capacity: GiB of cache on a chip.")] = 40.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write page, CSV and JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Sweep page sizes, padding and grouping of the cache, and show what each costs.

    Example: v4sim layout --model v4-flash --chip h200 --engine sglang-0.5 --out out/layout
    """
    from simulator.layout.request_mix import DEFAULT_MIX
    from simulator.layout.sweep_request import ask_sweep

    asked = ask_sweep(
        **deployment, pool=pool, pages=pages, paddings=padding, groupings=grouping,
        mix=DEFAULT_MIX if mix is None else mix, neighbours=neighbours, context=context,
        in_flight=in_flight, budget_gib=budget_gib,
    )  # fmt: skip
    _answer(asked, out, json)


def _answer(asked: AskedSweep, out: Path | None, json: Path | None) -> None:
    """Sweep, write what was asked for, then print."""
    from reports.layout_page import tables
    from reports.layout_rows import sweep_json
    from reports.layout_text import cuts_of, layout_answer, layout_notes
    from reports.text_table import wrapped
    from simulator.layout.sweep import sweep

    costs: list[LayoutCost] = []
    with error_console().status("lowering the step") as status:
        for cost in sweep(asked.question, asked.points, asked.layout_step()):
            costs.append(cost)
            status.update(f"swept {len(costs)} of {len(asked.points)}")
    cuts, data = cuts_of(asked, costs), sweep_json(asked, costs)
    files = {} if out is None else _write(out, asked, costs, cuts, data)
    save_json(json, data)
    width = console().width
    console().print(wrapped(layout_answer(asked, cuts), width), style="bold")
    for sentence in asked.priced_as:
        console().print(wrapped(f"{sentence}.", width))
    for table in tables(asked, cuts):
        _print_table(table)
    console().print()
    swept = f"{len(costs)} combinations swept; --json and --out have all of them."
    for note in [*layout_notes(asked, cuts), swept]:
        console().print(wrapped(note, width, 2), style="dim")
    for path in files.values():
        console().print(f"wrote {path}", soft_wrap=True)


def _write(
    out: Path,
    asked: AskedSweep,
    costs: Sequence[LayoutCost],
    cuts: Cuts,
    data: dict[str, Any],
) -> dict[str, Path]:
    """Files first, then the page that links to them."""
    from reports.layout_page import write_layout_page
    from reports.layout_rows import flat_row
    from reports.memory_rows import rows_table
    from reports.step_json import write_json
    from reports.tables import write_csv
    from simulator.basis.assumptions import assumptions_of
    from simulator.layout.sweep import assumed

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {out}: {error.strerror}") from error
    files = {"All points (CSV)": out / "layout.csv", "All points (JSON)": out / "layout.json"}
    write_csv(files["All points (CSV)"], rows_table([flat_row(cost) for cost in costs]))
    write_json(files["All points (JSON)"], data)
    page = out / "layout.html"
    write_layout_page(page, asked, costs, cuts, assumptions_of(assumed()), files, command_line())
    return {**files, "page": page}


def _print_table(table: TextTable) -> None:
    from reports.text_table import TextColumn, left_out, text_table, wrapped

    width = console().width
    console().print(f"\n{table.title}", style="bold")
    console().print(wrapped(table.note, width), style="dim")
    columns = [
        TextColumn(
            heading=heading,
            cells=[row[place] for row in table.rows],
            left=place == 0,
            rank=place,
        )
        for place, heading in enumerate(table.headings)
    ]
    console().print(text_table(columns, width))
    missing = left_out(columns, width)
    if missing:
        console().print(wrapped(missing, width), style="dim")
