"""`v4sim address`: which slots of which pools a packed row writes and reads, and what led there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import JsonFile, command_line, console, error_console, save_json

if TYPE_CHECKING:
    from simulator.address.question import AddressQuestion
    from simulator.address.result import AddressResult


def address(
    request: Annotated[
        list[str] | None,
        typer.Option(metavar="PAST:NEW", help="A request (again for more); PAST:NEW:ROW."),
    ] = None,
    batch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Batch and tables as YAML.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model name or path, or tiny, the golden file's [default: tiny]."),
    ] = None,
    page_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a page [default: 256].")
    ] = None,
    pool_page: Annotated[
        list[str] | None,
        typer.Option(metavar="POOL=TOKENS", help="A compressed pool with pages of its own."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="Request slots [default: as many as needed].")
    ] = None,
    page_seed: Annotated[
        int | None, typer.Option(help="Shuffles the order of free pages [default: ascending].")
    ] = None,
    layer: Annotated[
        list[int] | None, typer.Option(help="Layer to show [default: the first of each kind].")
    ] = None,
    row: Annotated[
        list[int] | None, typer.Option(help="Packed row to show [default: last of each request].")
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help="Run a small model for the indexer's ids: auto, run or none."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and tokens [default: 7].")] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Forward metadata, pages and slots as this engine lays them out."),
    ] = None,
    drafts: Annotated[
        int, typer.Option(help="With --engine: drafts that each request has verified.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page and its JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Address packed rows of a batch: tables, slots, the indexer's ids, and what is not read.

    Options given beside --batch win over the file's.

    Example: v4sim address --model v4-flash --request 300:4 --request 0:130 --page-seed 3
    --pool-page c128=512 --out out/address
    """
    from reports.address_rows import address_to_json
    from reports.address_text import address_lines
    from reports.text_table import wrapped
    from simulator.address.address import address as answer
    from simulator.address.question import parse_page, parse_request, read_question

    given: dict[str, Any] = {
        "requests": [parse_request(text) for text in request] if request else None,
        "model": model,
        "page_tokens": page_tokens,
        "pool_page_tokens": _pages([parse_page(text) for text in pool_page or []]),
        "slots": slots,
        "page_seed": page_seed,
        "layers": layer or None,
        "rows": row or None,
        "values": values,
        "seed": seed,
    }
    question = read_question(batch, {k: v for k, v in given.items() if v is not None})
    if engine is not None:
        _of_engine(engine, drafts, question, out, json)
        return
    if drafts:
        raise InputError("--drafts belongs to --engine; without it, PAST:NEW says what is added")
    with error_console().status("addressing"):
        result = answer(question)
    data = address_to_json(result)
    files = [] if out is None else _write(out, result, data)
    save_json(json, data)
    console().print(wrapped(result.values, console().width), style="bold")
    for line in address_lines(result):
        console().print(line, soft_wrap=True)
    for path in files:
        console().print(f"wrote {path}", soft_wrap=True)


# Of an engine's tables these are its own.
_ENGINES_OWN = ("page_tokens", "pool_page_tokens", "slots", "page_seed", "layers", "rows")


def _of_engine(
    engine: str, drafts: int, question: AddressQuestion, out: Path | None, json: Path | None
) -> None:
    """Forward metadata of the batch under an engine, and of the decode step after it."""
    from reports.forward_metadata import (
        addresses_json,
        answer_line,
        metadata_lines,
        write_metadata_page,
    )
    from reports.step_json import write_json
    from reports.text_table import wrapped
    from simulator.address.forward_metadata import engine_addresses, verified
    from simulator.address.picks import asked_model
    from simulator.basis.whole import within

    given = [name for name in _ENGINES_OWN if name in question.model_fields_set]
    if given:
        raise InputError(
            f"--engine {engine} has pages, rows and layers of its own, but "
            f"{', '.join(given)} was given; leave it out"
        )
    requests = verified(question.requests, within("drafts", drafts, 0, 64))
    found = engine_addresses(engine, asked_model(question.model), requests)
    data = addresses_json(found)
    save_json(json, data)
    console().print(wrapped(answer_line(found), console().width), style="bold")
    for line in metadata_lines(found):
        console().print(line, soft_wrap=True, markup=False)
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make directory {out}: {error.strerror}") from error
        everything, page = out / "forward_metadata.json", out / "forward_metadata.html"
        write_json(everything, data)
        write_metadata_page(page, found, everything, command_line())
        for path in (everything, page):
            console().print(f"wrote {path}", soft_wrap=True)


def _pages(given: list[tuple[str, int]]) -> dict[str, int] | None:
    """Tokens of a page by pool, or None where nothing was given."""
    pages: dict[str, int] = {}
    for pool, tokens in given:
        if pages.setdefault(pool, tokens) != tokens:
            raise InputError(
                f"--pool-page gives pool {pool} pages of {pages[pool]:,} tokens and of {tokens:,}; "
                "give one of them"
            )
    return pages or None


def _write(out: Path, result: AddressResult, data: dict[str, Any]) -> list[Path]:
    """JSON first, then the page that links to it."""
    from reports.address_page import write_address_page
    from reports.step_json import write_json

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {out}: {error.strerror}") from error
    everything, page = out / "address.json", out / "address.html"
    write_json(everything, data)
    write_address_page(page, result, everything, command_line())
    return [everything, page]
