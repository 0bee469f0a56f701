"""The page of a batch's addresses: tables of the requests, then a drawing of every pool by row."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from reports.address_figure import LEGEND, pool_figure
from reports.address_text import (
    KIND_NAMES,
    pick_text,
    row_title,
    run_text,
    span,
    unseen_text,
)
from reports.html_document import html_document
from simulator.address.result import AddressResult, LayerAddress, PoolAccess, RowAddress
from simulator.basis.atomic import write_text

SHOWN_RUNS = 200


def write_address_page(path: Path, result: AddressResult, everything: Path, command: str) -> None:
    """Write the page whole or not at all; `everything` is the JSON file beside it."""
    assumed = "".join(
        f"<li>{escape(text[:1].upper() + text[1:])}</li>" for text in result.assumptions
    )
    body = "".join(
        [
            f'<header><p class="kicker">v4sim · addresses of a batch on {escape(result.model)}</p>'
            f"<h1>{escape(_answer(result))}</h1><p class='basis'>{escape(result.values)}</p>"
            "</header><main>",
            _tables(result),
            *(_row(result, row, everything) for row in result.rows),
            f'<section id="files"><h3>Files</h3><ul><li>Everything (JSON): '
            f'<a href="{escape(everything.name)}">{escape(everything.name)}</a></li></ul></section>'
            f'<section id="assumptions"><h3>Assumptions</h3><ul>{assumed}</ul></section></main>',
            f"<footer><p>Made by <code>{escape(command)}</code></p></footer>",
        ]
    )
    write_text(path, html_document(f"Addresses on {result.model}", body, {}))


def _answer(result: AddressResult) -> str:
    row = result.rows[0]
    layer = row.layers[-1]
    read = sum(access.count for access in layer.accesses if not access.write)
    written = sum(access.count for access in layer.accesses if access.write)
    pick = layer.pick
    unknown = f", {pick.top_k:,} more that are not known," if pick and pick.ids is None else ""
    return (
        f"Packed row {row.packed_row:,}, position {row.position:,} of request {row.request}: in "
        f"layer {layer.layer} ({KIND_NAMES[layer.kind]}) it reads {read:,} slots{unknown} and "
        f"writes {written:,}."
    )


def _tables(result: AddressResult) -> str:
    pools = [
        (
            pool.pool,
            f"{pool.ratio:,}",
            f"{pool.page_tokens:,}",
            f"{pool.page_entries:,}",
            f"{pool.pages:,}",
            "token pages: slot = token slot // ratio" if pool.follows else "its own page table",
        )
        for pool in result.pools
    ]
    requests = [
        (
            f"request {request.request}",
            f"{request.row:,}",
            f"{request.past:,}",
            f"{request.new:,}",
            f"{request.first_packed_row:,} to {request.first_packed_row + request.new - 1:,}",
            "; ".join(f"{pool}: {_some(pages)}" for pool, pages in request.pages.items()),
        )
        for request in result.requests
    ]
    return _grid(
        "Requests and their tables",
        (
            "",
            "row and\nstate slot",
            "past\ntokens",
            "new\ntokens",
            "packed rows",
            "pages, in order",
        ),
        requests,
    ) + _grid(
        "Pools",
        ("", "tokens\nan entry", "tokens\na page", "entries\na page", "pages", "found through"),
        pools,
    )


def _some(pages: Sequence[int], most: int = 12) -> str:
    if len(pages) <= most:
        return ", ".join(str(page) for page in pages)
    head = ", ".join(str(page) for page in pages[: most // 2])
    tail = ", ".join(str(page) for page in pages[-most // 2 :])
    return f"{head}, [{len(pages) - most // 2 * 2:,} more], {tail}"


def _grid(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(
        f'<th class="bound">{escape(text).replace(chr(10), "<br>")}</th>' for text in headings
    )
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>"
        + "".join(f'<td class="bound">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<section><h3>{escape(title)}</h3><div class='scroll'><table class='grid'><thead><tr>"
        f"{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _row(result: AddressResult, row: RowAddress, everything: Path) -> str:
    legend = "".join(
        f'<span class="key"><i style="background:{color};outline:1px solid #aab2bd"></i>'
        f"{escape(name)}</span>"
        for name, color in LEGEND.items()
    )
    title = row_title(row)
    layers = "".join(_layer(result, row, layer, everything) for layer in row.layers)
    return (
        f'<section class="step"><h2>{escape(title[:1].upper() + title[1:])}</h2>'
        f'<div class="legend">{legend}</div>{layers}</section>'
    )


def _layer(result: AddressResult, row: RowAddress, layer: LayerAddress, everything: Path) -> str:
    pools = {access.pool for access in layer.accesses} | {u.pool for u in layer.unseen}
    ordered = sorted(pools, key=lambda pool: (pool != "window", pool.endswith("_state"), pool))
    figures = "".join(pool_figure(result, row, layer, pool) for pool in ordered)
    first, count = layer.own_positions
    facts = [f"{span('position', first, count)} read from the step's own rows, from no pool"]
    facts += [pick_text(layer.pick)] if layer.pick else []
    facts += [f"not read: {unseen_text(unseen)}" for unseen in layer.unseen]
    facts += layer.notes
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f"<h3>Layer {layer.layer}, {KIND_NAMES[layer.kind]}</h3>{figures}<ul>{listed}</ul>"
        f"{_details(layer, everything)}"
    )


def _details(layer: LayerAddress, everything: Path) -> str:
    """Every run, folded away."""
    lines = []
    for access in sorted(layer.accesses, key=lambda one: not one.write):
        lines.append(f"<li>{_access_title(access)}<ul>")
        lines += [f"<li>{escape(run_text(access, run))}</li>" for run in access.runs[:SHOWN_RUNS]]
        if len(access.runs) > SHOWN_RUNS:
            more = len(access.runs) - SHOWN_RUNS
            lines.append(f"<li>and {more:,} more runs in {escape(everything.name)}</li>")
        lines.append("</ul></li>")
    return f"<details><summary>Slots, run by run</summary><ul>{''.join(lines)}</ul></details>"


def _access_title(access: PoolAccess) -> str:
    verb = "writes" if access.write else "reads"
    return escape(f"{verb} {access.pool}, {access.count:,} slots, through {access.table}")
