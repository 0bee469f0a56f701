"""Forward metadata of a batch as text, JSON and page: what an engine developer's debugger shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from reports.html_document import html_document
from simulator.address.forward_metadata import (
    EngineAddresses,
    ForwardMetadata,
    IndexIds,
    PoolWrites,
)
from simulator.basis.atomic import write_text

# Longer lists are shortened in text and on the page; JSON has them whole.
SHOWN = 24


def addresses_json(found: EngineAddresses) -> dict[str, Any]:
    """Every field by name."""
    return asdict(found)


def answer_line(found: EngineAddresses) -> str:
    """What is shown, in a sentence."""
    first = found.steps[0]
    return (
        f"Forward metadata of a {first.phase} step of {len(first.lengths)} requests and "
        f"{len(first.positions)} rows of {found.model} under {found.engine}, on a fresh allocator."
    )


def metadata_lines(found: EngineAddresses) -> list[str]:
    """The step and the one after it."""
    lines = [
        f"reserved: pages below {found.reserved_pages}, request rows below {found.reserved_rows}; "
        f"a returned page reads {found.freed} ({' '.join(found.origin.split())})"
    ]
    for number, step in enumerate(found.steps):
        title = "step" if number == 0 else "then one token each"
        lines += ["", f"{title} ({step.phase})", *_step_lines(step)]
    lines += ["", *(f"Assumes: {text}" for text in found.assumptions)]
    return lines


def _step_lines(step: ForwardMetadata) -> list[str]:
    lines = [f"  {name:<26} {value}" for name, value in _scalars(step)]
    for table in step.tables:
        pools = ", ".join(table.pools)
        lines.append(
            f"  page table {table.name} ({pools}; {table.page_tokens} tokens a page; ids: "
            f"{table.ids})"
        )
        for row, pages in zip(step.request_rows, table.pages, strict=True):
            lines.append(f"    row {row:<6} {listed(pages)}")
        lines.append(f"    slots of the packed rows {listed(table.slots)}")
    for pool in step.pools:
        lines.append(
            f"  {pool.pool}{_part(pool)}: {len(pool.writes)} written, slot = {pool.rule}; "
            f"{pool.row_bytes} B a row, {pool.page_bytes} B a page, {pool.layers} layers"
        )
        if pool.writes:
            shown = [f"row {w.packed_row}: {w.entry} -> {w.slot} @{w.byte}" for w in pool.writes]
            lines.append(f"    {listed(shown)}")
    if step.index_pool:
        lines.append(f"  index ids into {step.index_pool} (entry ids; slots):")
        lines += [f"    {text}" for text in _index_lines(step.index_ids)]
    return lines


def _part(pool: PoolWrites) -> str:
    """Name of the table that leads to a pool, where several share its layers."""
    return f" of {pool.table}" if pool.table and "." in pool.table else ""


def _scalars(step: ForwardMetadata) -> list[tuple[str, str]]:
    found = [
        ("query boundaries", listed(step.boundaries)),
        ("sequence lengths", listed(step.lengths)),
        ("request rows", listed(step.request_rows)),
        ("positions", listed(step.positions)),
        ("request of each row", listed(step.row_requests)),
    ]
    for pool, lengths in step.compressed_lengths.items():
        told = step.kernel_lengths[pool]
        text = listed(lengths)
        if told != lengths:
            text += f" (kernels are told {listed(told)})"
        found.append((f"compressed lengths {pool}", text))
    return found


def _index_lines(ids: Sequence[IndexIds]) -> list[str]:
    lines = []
    for one in ids[:SHOWN]:
        if one.ids is None or one.slots is None:
            text = f"{one.visible} visible, more than are picked: values decide"
        else:
            text = f"{listed(one.ids)}; {listed(one.slots)}"
        lines.append(f"row {one.packed_row}: {text}")
    if len(ids) > SHOWN:
        lines.append(f"... and {len(ids) - SHOWN} more rows (JSON has all)")
    return lines


def listed(values: Sequence[object]) -> str:
    """`[0, 6, 9]`; the middle of a long list is left out, and said."""
    if len(values) <= SHOWN:
        return "[" + ", ".join(map(str, values)) + "]"
    half = SHOWN // 2
    ends = [*map(str, values[:half]), f"... {len(values) - SHOWN} more ..."]
    return "[" + ", ".join([*ends, *map(str, values[-half:])]) + "]"


def write_metadata_page(path: Path, found: EngineAddresses, data: Path, command: str) -> None:
    """One page that works offline, with a link to its JSON."""
    parts = [f"<h1>{escape(answer_line(found))}</h1>"]
    for number, step in enumerate(found.steps):
        title = "The step" if number == 0 else "Then one token each"
        parts.append(f"<h2>{title} ({escape(step.phase)})</h2>")
        rows = [(name, value) for name, value in _scalars(step)]
        for table in step.tables:
            for row, pages in zip(step.request_rows, table.pages, strict=True):
                rows.append((f"page table {table.name}, row {row}", listed(pages)))
            rows.append((f"slots by {table.name}", listed(table.slots)))
        for pool in step.pools:
            shown = [f"{w.packed_row}: {w.entry} -> {w.slot} @{w.byte}" for w in pool.writes]
            rows.append((f"{pool.pool}{_part(pool)}: slot = {pool.rule}", listed(shown)))
        rows += [(f"index ids, {text.partition(':')[0]}", text.partition(": ")[2])
                 for text in _index_lines(step.index_ids)]  # fmt: skip
        body = "".join(
            f"<tr><td>{escape(name)}</td><td><code>{escape(value)}</code></td></tr>"
            for name, value in rows
        )
        parts.append(f"<table>{body}</table>")
    parts.append("".join(f"<p>Assumes: {escape(text)}</p>" for text in found.assumptions))
    parts.append(f'<p><a href="{escape(data.name)}">JSON</a> <code>{escape(command)}</code></p>')
    write_text(path, html_document(answer_line(found), "".join(parts), {}))
