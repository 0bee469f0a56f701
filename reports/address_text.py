"""Addresses as lines of text: a block a packed row, in it a block a layer."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.address.result import (
    AddressResult,
    LayerAddress,
    Pick,
    PoolAccess,
    RowAddress,
    Run,
    Unseen,
)

KIND_NAMES = {"swa": "window only", "csa": "CSA", "hca": "HCA"}
SHOWN_RUNS = 6
SHOWN_IDS = 32


def address_lines(result: AddressResult) -> Iterator[str]:
    """All of it; what a line leaves out it counts."""
    yield ""
    for request in result.requests:
        tables = "; ".join(
            f"{pool} pages {_some([str(page) for page in pages])}"
            for pool, pages in request.pages.items()
        )
        last = request.first_packed_row + request.new - 1
        yield (
            f"request {request.request}: row {request.row}, {request.past:,} + {request.new:,} "
            f"tokens, packed rows {request.first_packed_row:,} to {last:,}; {tables}"
        )
    for row in result.rows:
        yield from _row_lines(row)


def span(unit: str, first: int, count: int) -> str:
    """`entry 75`, or `entries 64-75`."""
    if count == 1:
        return f"{unit} {first:,}"
    plural = {"entry": "entries"}.get(unit, f"{unit}s")
    return f"{plural} {first:,}-{first + count - 1:,}"


def run_text(access: PoolAccess, run: Run) -> str:
    """`entries 64-75 -> slots 128-139 (place 1 -> page 2)`."""
    through = "" if run.place is None else f" (place {run.place:,} -> page {run.page:,})"
    where = span("slot", run.slot, run.count)
    return f"{span(access.unit, run.first, run.count)} -> {where}{through}"


def unseen_text(unseen: Unseen) -> str:
    """`c4: 68 entries visible, not in the top-k: 0, 3-9`."""
    ranges = [
        f"{first:,}" if count == 1 else f"{first:,}-{first + count - 1:,}"
        for first, count in unseen.ranges
    ]
    unit = span(unseen.unit, 0, unseen.count).split(" ")[0]
    return f"{unseen.pool}: {unseen.count:,} {unit} {unseen.reason}: {_some(ranges)}"


def pick_text(pick: Pick) -> str:
    """What the indexer chose, and by how much."""
    if pick.ids is None:
        return (
            f"indexer: {pick.top_k:,} of {pick.visible:,} visible entries; which ones depends on "
            "values, and no model has run"
        )
    chosen = f"indexer: {len(pick.ids):,} of {pick.visible:,} visible entries picked"
    if not pick.ids:
        return chosen
    chosen += f": {_some([f'{i:,}' for i in pick.ids], SHOWN_IDS)}"
    if pick.best_left is None or pick.lowest_picked is None:
        return f"{chosen}; all that are visible"
    return (
        f"{chosen}; lowest score picked {pick.lowest_picked:.4g}, best left out "
        f"{pick.best_left:.4g}"
    )


def row_title(row: RowAddress) -> str:
    """Which row it is, and where its token slot comes from."""
    return (
        f"packed row {row.packed_row:,}: request {row.request} in row {row.request_row}, position "
        f"{row.position:,} of {row.context:,} tokens; token slot {row.token_slot:,} (place "
        f"{row.place:,} of its page table -> page {row.page:,})"
    )


def _row_lines(row: RowAddress) -> Iterator[str]:
    yield ""
    yield row_title(row)
    for layer in row.layers:
        yield f"  layer {layer.layer}, {KIND_NAMES[layer.kind]}"
        yield from _layer_lines(layer)


def _layer_lines(layer: LayerAddress) -> Iterator[str]:
    for access in sorted(layer.accesses, key=lambda access: not access.write):
        verb = "writes" if access.write else "reads "
        head = f"    {verb} {access.pool:<12}"
        shown = access.runs if len(access.runs) <= SHOWN_RUNS else access.runs[: SHOWN_RUNS - 1]
        for number, run in enumerate(shown):
            yield f"{head if not number else ' ' * len(head)}{run_text(access, run)}"
        if len(shown) < len(access.runs):
            more = len(access.runs) - len(shown)
            yield f"{' ' * len(head)}and {more:,} more runs, {access.count:,} slots in all (--json)"
        yield f"{' ' * len(head)}through {access.table}"
    first, count = layer.own_positions
    yield f"    reads  {'own rows':<12}{span('position', first, count)} of the step, from no pool"
    if layer.pick is not None:
        yield f"    {pick_text(layer.pick)}"
    for unseen in layer.unseen:
        yield f"    not read: {unseen_text(unseen)}"
    for note in layer.notes:
        yield f"    note: {note}"


def _some(texts: list[str], most: int = 12) -> str:
    if len(texts) <= most:
        return ", ".join(texts)
    return f"{', '.join(texts[: most - 1])}, and {len(texts) - most + 1:,} more"
