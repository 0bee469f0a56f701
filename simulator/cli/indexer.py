"""`v4sim indexer`: FP4, FP8 and BF16 index keys and queries, what they cost and what they miss."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import Edits, Engine
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
    tokens_option,
)

if TYPE_CHECKING:
    from reports.memory_text import TextTable
    from simulator.indexer.study import IndexerStudy

Chips = Annotated[
    list[str] | None,
    typer.Option(
        "--chip", help="Chip name or YAML; repeatable [default: h200, b200, ascend-910c]."
    ),
]
Contexts = Annotated[
    list[int] | None,
    tokens_option("--context", "Tokens of a request; repeatable", "32768, 131072, 1048576"),
]
Npz = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Real index queries q [queries, heads, dim], keys k [entries, dim] and weights "
        "w [queries, heads], as they are before the Hadamard rotation; or a small model to run: "
        "config, input_ids and w/NAME of a golden file.",
    ),
]


def indexer(
    model: Annotated[str, typer.Option(help="Model name, or path to YAML or config.json.")] = (
        "v4-flash"
    ),
    chip: Chips = None,
    edits: Edits = None,
    context: Contexts = None,
    batch: Annotated[int, typer.Option(help="Requests in the step, over all chips.")] = 64,
    count: Annotated[int, typer.Option(help="Chips that share the step.")] = 8,
    engine: Engine = None,
    entries: Annotated[
        int | None, typer.Option(help="Most index keys that a query scores [default: 65536].")
    ] = None,
    npz: Npz = None,
    seed: Annotated[int, typer.Option(help="Of the made-up keys and queries.")] = 7,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write page, CSV and JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Cost and accuracy of the indexer's number formats, on made-up or given keys.

    Example: v4sim indexer --model v4-flash --chip h200 --chip b200 --context 131072
    --out out/indexer
    """
    # Before numpy loads: many small products, for which threads that wait for each other are slow.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from reports.indexer_rows import study_to_json
    from reports.indexer_text import study_sentence, study_tables
    from reports.text_table import wrapped
    from simulator.indexer.study import CHIPS, CONTEXTS, StudyQuestion, study

    question = StudyQuestion(
        model=model,
        chips=tuple(dict.fromkeys(chip or CHIPS)),
        edits=tuple(edits or ()),
        contexts=tuple(sorted(set(context or CONTEXTS))),
        batch=batch,
        count=count,
        engine=engine,
        entries=entries,
        seed=seed,
        npz=npz,
    )
    with error_console().status("") as status:
        found = study(question, status.update)
    data = study_to_json(found)
    files = {} if out is None else _write(out, found, data)
    save_json(json, data)
    console().print(wrapped(study_sentence(found), console().width), style="bold")
    for table in study_tables(found):
        _print_table(table)
    for path in files.values():
        console().print(f"wrote {path}", soft_wrap=True)


def _write(out: Path, found: IndexerStudy, data: dict[str, Any]) -> dict[str, Path]:
    """Files first, then the page that links to them."""
    from reports.indexer_page import write_indexer_page
    from reports.step_json import write_json

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {out}: {error.strerror}") from error
    files = {"Everything (JSON)": out / "indexer.json"}
    write_json(files["Everything (JSON)"], data)
    page = out / "indexer.html"
    write_indexer_page(page, found, files, command_line())
    return {**files, "page": page}


def _print_table(table: TextTable) -> None:
    from reports.text_table import TextColumn, left_out, text_table, wrapped

    width = console().width
    console().print(f"\n{table.title}", style="bold")
    if table.note:
        console().print(wrapped(table.note, width), style="dim", soft_wrap=True)
    words = {"source", "remark", "runs on", "bound by"}
    columns = [
        TextColumn(
            heading=heading,
            cells=[row[place] for row in table.rows],
            left=place == 0 or heading in words,
            rank=place,
        )
        for place, heading in enumerate(table.headings)
    ]
    console().print(text_table(columns, width))
    missing = left_out(columns, width)
    if missing:
        console().print(wrapped(missing, width), style="dim", soft_wrap=True)
