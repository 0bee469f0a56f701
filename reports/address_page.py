"""The page of a batch's addresses: tables of the requests, then a drawing of every pool by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from reports.address_text import (
    KIND_NAMES,
    pick_text,
    row_title,
    run_text,
    span,
    unseen_text,
)
from reports.html_document import html_document
from simulator.address.result import (
    AddressResult,
    LayerAddress,
    PoolAccess,
    PoolGeometry,
    RequestTables,
    RowAddress,
)
from simulator.address.row import BEYOND, INCOMPLETE, LATER, NOT_PICKED
from simulator.basis.atomic import write_text

WIDTH, BAR, GAP = 1180, 22, 44
MOST_PAGES = 48

WRITTEN, READ, OWN, LEFT = "#e69f00", "#0072b2", "#56b4e9", "#b9d3e6"
HELD, OTHERS, FREE, PENDING = "var(--free)", "#aab2bd", "var(--paper)", "#f3e3bd"
UNKNOWN = "#d9c2e0"
LEGEND = {
    "written": WRITTEN,
    "read": READ,
    "read from the step's own rows": OWN,
    "visible, not in the top-k": LEFT,
    "visible, picked or not: not known": UNKNOWN,
    "not complete, or later": PENDING,
    "held, not read": HELD,
    "another request's": OTHERS,
    "free": FREE,
}
_REASONS = {BEYOND: HELD, LATER: PENDING, INCOMPLETE: PENDING, NOT_PICKED: LEFT}


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` entries from `first` on, in one colour."""

    first: int
    count: int
    color: str
    text: str


def pool_pieces(layer: LayerAddress, pool: str) -> tuple[str, list[Piece]]:
    """The unit of a pool, and its entries by what happens to them; later pieces lie on top."""
    pieces, unit = [], "position" if pool == "window" or pool.endswith("_state") else "entry"
    for unseen in layer.unseen:
        if unseen.pool == pool:
            color = _REASONS[unseen.reason]
            pieces += [Piece(*span, color, unseen.reason) for span in unseen.ranges]
    if pool == layer.attention.pool and layer.pick is not None and layer.pick.ids is None:
        pieces.append(Piece(0, layer.pick.visible, UNKNOWN, "visible, picked or not: not known"))
    if pool == "window":
        pieces.append(Piece(*layer.own_positions, OWN, "read from the step's own rows"))
    for write in (False, True):
        for access in layer.accesses:
            if access.pool == pool and access.write == write:
                color, text = (WRITTEN, "written") if write else (READ, "read")
                pieces += [Piece(run.first, run.count, color, text) for run in access.runs]
    return unit, pieces


def pool_figure(result: AddressResult, row: RowAddress, layer: LayerAddress, pool: str) -> str:
    """SVG of one pool; a sentence below says what is left out of the drawing."""
    unit, pieces = pool_pieces(layer, pool)
    request = result.requests[row.request]
    geometry = next((g for g in result.pools if g.pool == pool), None)
    if geometry is None:
        return _ring_figure(result, row, layer, pool, pieces)
    places = _drawn_places(request, geometry)
    return _paged_figure(result, request, geometry, unit, pieces, places)


def _table(request: RequestTables, geometry: PoolGeometry) -> tuple[int, ...]:
    return request.pages["token" if geometry.follows else geometry.pool]


def _drawn_places(request: RequestTables, geometry: PoolGeometry) -> list[int]:
    """Places of the page table to draw: all, or the last ones."""
    count = len(_table(request, geometry))
    return list(range(max(count - MOST_PAGES, 0), count))


def _paged_figure(
    result: AddressResult,
    request: RequestTables,
    geometry: PoolGeometry,
    unit: str,
    pieces: Sequence[Piece],
    places: Sequence[int],
) -> str:
    size, table = geometry.page_entries, _table(request, geometry)
    pages = _drawn_pages(geometry, [table[place] for place in places])
    top = {place: _box(number, len(places)) for number, place in enumerate(places)}
    below = {page: _box(number, len(pages)) for number, page in enumerate(pages)}
    owners = _owners(result, geometry)
    parts = []
    for page, box in below.items():
        color = FREE if page not in owners else HELD if request.request in owners[page] else OTHERS
        parts.append(_rect(box, GAP + BAR + 18, color, _page_text(page, owners), outline=True))
    for place, box in top.items():
        page = table[place]
        parts.append(_rect(box, 18, HELD, f"place {place:,} of the page table", outline=True))
        parts.append(_link(box, below[page], color="#cfd6de"))
        for piece in _cut(pieces, place * size, size):
            where = (piece.first - place * size) / size, piece.count / size
            text = f"{piece.text}: {unit} {piece.first:,}"
            parts.append(_rect(_within(box, *where), 18, piece.color, text))
            slot = page * size + piece.first - place * size
            text = f"{piece.text}: slot {slot:,}"
            parts.append(_rect(_within(below[page], *where), GAP + BAR + 18, piece.color, text))
        parts.append(_label(box, 12, "place", place))
    parts += [_label(box, GAP + 2 * BAR + 32, "page", page) for page, box in below.items()]
    rule = "token pages" if geometry.follows else "pages of its own"
    caption = (
        f"{geometry.pool}: {size:,} {'entry' if size == 1 else 'entries'} a page ({rule}, "
        f"{geometry.page_tokens:,} tokens). Above: places of the page table of row {request.row}; "
        f"below: physical pages by number."
    )
    if len(places) < len(table):
        caption += f" The last {len(places)} of {len(table):,} places are drawn."
    if len(pages) < geometry.pages:
        caption += f" {len(pages)} of {geometry.pages:,} pages are drawn."
    return _figure(caption, parts)


def _drawn_pages(geometry: PoolGeometry, held: Sequence[int]) -> list[int]:
    """All pages where there are few, else those that are linked."""
    return list(range(geometry.pages)) if geometry.pages <= MOST_PAGES else sorted(set(held))


def _owners(result: AddressResult, geometry: PoolGeometry) -> dict[int, list[int]]:
    owners: dict[int, list[int]] = {}
    for request in result.requests:
        for page in _table(request, geometry):
            owners.setdefault(page, []).append(request.request)
    return owners


def _page_text(page: int, owners: dict[int, list[int]]) -> str:
    if page not in owners:
        return f"page {page:,}: free"
    return f"page {page:,}: request {', '.join(str(r) for r in owners[page])}"


def _ring_figure(
    result: AddressResult,
    row: RowAddress,
    layer: LayerAddress,
    pool: str,
    pieces: Sequence[Piece],
) -> str:
    """Positions above, the ring of the row's state slot below."""
    length = _ring_length(layer, pool, result.window)
    last = row.position + 1 + sum(p.count for p in pieces if p.text == LATER)
    start, stop = max(row.position + 1 - 2 * length, 0), min(last, row.position + 1 + length)
    shown, parts = stop - start, []
    parts.append(_rect((0, WIDTH), 18, HELD, "positions of the request", outline=True))
    parts.append(_rect((0, WIDTH), GAP + BAR + 18, HELD, "slots of the ring", outline=True))
    for piece in _cut(pieces, start, shown):
        box = _within((0, WIDTH), (piece.first - start) / shown, piece.count / shown)
        parts.append(_rect(box, 18, piece.color, _piece_text(piece)))
        if piece.color not in (READ, WRITTEN):
            continue
        for first, count in _wrapped(piece.first, piece.count, length):
            slot = first % length
            target = _within((0, WIDTH), slot / length, count / length)
            origin = _within((0, WIDTH), (first - start) / shown, count / shown)
            parts.append(_link(origin, target, color="#cfd6de"))
            text = f"{piece.text}: slot {row.request_row * length + slot:,}, {count:,} slots"
            parts.append(_rect(target, GAP + BAR + 18, piece.color, text))
    parts += [_text(0, 12, f"position {start:,}"), _text(WIDTH, 12, f"{stop - 1:,}", "end")]
    base, under = row.request_row * length, GAP + 2 * BAR + 32
    parts += [
        _text(0, under, f"slot {base:,}"),
        _text(WIDTH, under, f"{base + length - 1:,}", "end"),
    ]
    caption = (
        f"{pool}: ring of {length} rows in state slot {row.request_row}. Above: positions; below: "
        f"slots, position mod {length}."
    )
    if start:
        caption += f" Positions before {start:,} are not drawn."
    if stop < last:
        caption += f" Positions from {stop:,} on are not drawn."
    return _figure(caption, parts)


def _ring_length(layer: LayerAddress, pool: str, window: int) -> int:
    if pool == "window":
        return window
    return layer.attention.halves * layer.attention.ratio


def _piece_text(piece: Piece) -> str:
    last = "" if piece.count == 1 else f" to {piece.first + piece.count - 1:,}"
    return f"{piece.text}: {piece.first:,}{last}"


def _wrapped(first: int, count: int, length: int) -> Iterator[tuple[int, int]]:
    """Parts that do not pass the end of the ring."""
    while count:
        part = min(count, length - first % length)
        yield first, part
        first, count = first + part, count - part


def _cut(pieces: Sequence[Piece], start: int, count: int) -> Iterator[Piece]:
    """What of the pieces lies within [start, start + count)."""
    for piece in pieces:
        first = max(piece.first, start)
        last = min(piece.first + piece.count, start + count)
        if first < last:
            yield Piece(first, last - first, piece.color, piece.text)


def _box(number: int, count: int) -> tuple[float, float]:
    """Left and width of one of `count` pages across the figure, at most 320 wide."""
    pitch = min(WIDTH / count, 320)
    return number * pitch, pitch - min(6, pitch / 8)


def _within(box: tuple[float, float], start: float, share: float) -> tuple[float, float]:
    return box[0] + start * box[1], max(share * box[1], 0.8)


def _rect(
    box: tuple[float, float], y: float, color: str, text: str, *, outline: bool = False
) -> str:
    line = ' stroke="#aab2bd" stroke-width="0.7"' if outline else ""
    return (
        f'<rect x="{box[0]:.2f}" y="{y}" width="{box[1]:.2f}" height="{BAR}" fill="{color}"{line}>'
        f"<title>{escape(text)}</title></rect>"
    )


def _link(top: tuple[float, float], below: tuple[float, float], color: str) -> str:
    y0, y1 = 18 + BAR, GAP + BAR + 18
    points = f"{top[0]:.1f},{y0} {top[0] + top[1]:.1f},{y0} "
    points += f"{below[0] + below[1]:.1f},{y1} {below[0]:.1f},{y1}"
    return f'<polygon points="{points}" fill="{color}" fill-opacity="0.35"/>'


def _label(box: tuple[float, float], y: float, what: str, number: int) -> str:
    """A number over or under its page: with its word where there is room, or none at all."""
    middle = box[0] + box[1] / 2
    if box[1] > 70:
        return _text(middle, y, f"{what} {number:,}", "middle")
    return _text(middle, y, f"{number:,}", "middle") if box[1] > 30 else ""


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="11" fill="var(--muted)" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _figure(caption: str, parts: Sequence[str]) -> str:
    height = GAP + 2 * BAR + 38
    return (
        f'<figure class="drawn"><p class="hint">swipe sideways for more →</p><div class="scroll">'
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(caption)}">'
        f"{''.join(parts)}</svg></div>"
        f'<figcaption class="note">{escape(caption)}</figcaption></figure>'
    )


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
        f'<section><h3>{escape(title)}</h3><p class="hint">swipe sideways for more →</p>'
        '<div class="scroll"><table class="grid"><thead><tr>'
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
