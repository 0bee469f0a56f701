"""`v4sim address`: which slots of which pools a packed row writes and reads, and what led there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import JsonFile, command_line, console, error_console, save_json

if TYPE_CHECKING:
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
