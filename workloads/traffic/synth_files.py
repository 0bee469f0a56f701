"""Writes synthetic sessions as Weka ranges or aiperf deltas; the same spec gives the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from simulator.basis.atomic import atomic_file
from simulator.basis.errors import InputError, unknown_name
from workloads.traffic.synth import SynthChain, SynthSession, synth_sessions
from workloads.traffic.synth_spec import SynthSpec

Ranges = list[tuple[int, int]]


class IdSource:
    """Hands out fresh ids from `first` up."""

    def __init__(self, first: int) -> None:
        self.next = first

    def fresh(self, count: int) -> Ranges:
        """An inclusive range of `count` new ids; none for 0."""
        self.next += count
        return [(self.next - count, self.next - 1)] if count > 0 else []


def chain_ranges(
    chain: SynthChain, system: Ranges, source: IdSource, block_tokens: int
) -> list[Ranges]:
    """Ids of every request of a chain: `floor(input / block)` of them, as inclusive ranges.

    `system`: ids of the system prompt's whole blocks, which every context begins with.
    """
    held = list(system)
    blocks = kept = sum(last - first + 1 for first, last in system)
    requests = []
    for tokens, rewritten in zip(chain.input_tokens.tolist(), chain.rewrites.tolist(), strict=True):
        if rewritten and blocks > kept:
            first, last = held.pop()
            if last > first:
                held.append((first, last - 1))
            blocks -= 1
        wanted = tokens // block_tokens
        held = _joined(held, source.fresh(wanted - blocks))
        blocks = wanted
        requests.append(held)
        held = list(held)
    return requests


def _joined(held: Ranges, more: Ranges) -> Ranges:
    if held and more and held[-1][1] + 1 == more[0][0]:
        return [*held[:-1], (held[-1][0], more[0][1])]
    return [*held, *more]


# A nominal service time, so that starts within a session have an order.
_SERVICE_NS, _NS_PER_TOKEN = 500_000_000, 20_000_000


def write_synth(path: Path | str, spec: SynthSpec, format: str) -> None:
    """Write a synthetic trace whole or not at all; a name that ends in .gz is compressed."""
    if format not in WRITERS:
        raise InputError(unknown_name("format of a synthetic trace", format, WRITERS))
    rows = WRITERS[format](spec)
    first = next(rows)  # what cannot be drawn is refused before a file is begun
    with atomic_file(path) as file:
        if str(path).endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                for row in (first, *rows):
                    packed.write(_line(row))
        else:
            for row in (first, *rows):
                file.write(_line(row))


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _weka_rows(spec: SynthSpec) -> Iterator[dict[str, Any]]:
    """A session a line; ids are private unless system prompts are shared.

    Assumes: in synthetic Weka sessions a request takes 0.5 s and 20 ms a reply token, which only
    orders the recorded starts; a sub-agent starts with the reply that called it.
    """
    system_blocks = spec.system_tokens // spec.block_tokens
    source = IdSource(1 + spec.groups * system_blocks)
    for number, session in enumerate(synth_sessions(spec)):
        if not spec.groups:
            source = IdSource(1)
        first = 1 + session.group * system_blocks
        shared = [(first, first + system_blocks - 1)] if system_blocks else []
        system = shared if spec.groups else source.fresh(system_blocks)
        ids = partial(chain_ranges, system=system, source=source, block_tokens=spec.block_tokens)
        requests = _weka_requests(session, ids)
        yield {
            "id": f"synth_{number + 1:05d}",
            "block_size": spec.block_tokens,
            "scope": "global" if spec.groups else "local",
            "start": _seconds(session.start_ns),
            "sys": spec.system_tokens,
            "n": len(requests),
            "reqs": requests,
        }


def _weka_requests(
    session: SynthSession, ids: Callable[[SynthChain], list[list[tuple[int, int]]]]
) -> list[dict[str, Any]]:
    """Main requests, each followed by the whole chains of the sub-agents it called."""
    main = _weka_chain(session.main, ids(session.main), 0, "")
    chains: dict[int, list[dict[str, Any]]] = {}
    for number, chain in enumerate(session.subagents):
        caller = main[chain.after]
        begin = round((caller["t"] + caller["api"]) * 1e9)
        rows = _weka_chain(chain, ids(chain), begin, f"agent_{number + 1:03d}")
        chains.setdefault(chain.after, []).extend(rows)
    return [row for place, request in enumerate(main) for row in (request, *chains.get(place, ()))]


def _weka_chain(
    chain: SynthChain, ids: list[list[tuple[int, int]]], begin_ns: int, agent: str
) -> list[dict[str, Any]]:
    rows, now = [], begin_ns
    columns = (chain.input_tokens, chain.output_tokens, chain.wait_ns)
    for place, (tokens, reply, wait) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        service = _SERVICE_NS + reply * _NS_PER_TOKEN
        now += wait
        rows.append(
            {
                "t": _seconds(now), "k": "sub" if agent else "main", "a": agent, "in": tokens,
                "out": reply, "api": _seconds(service), "think": _seconds(wait), "h": ids[place],
            }
        )  # fmt: skip
        now += service
    return rows


def _aiperf_rows(spec: SynthSpec) -> Iterator[dict[str, Any]]:
    """A turn a line: the first whole with its group's ids, later ones their new input only."""
    for name in ("subagent_share", "rewrite_share"):
        if getattr(spec, name):
            raise InputError(
                f"{name} is {getattr(spec, name):g}, expected 0: aiperf deltas only ever add to "
                "one context; write weka-ranges instead"
            )
    block = spec.block_tokens
    system_blocks = spec.system_tokens // block if spec.groups else 0
    source = IdSource(spec.groups * system_blocks)
    for number, session in enumerate(synth_sessions(spec)):
        chain = session.main
        columns = (chain.new_tokens, chain.output_tokens, chain.wait_ns)
        first = session.group * system_blocks
        for turn, (new, reply, wait) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            shared = 0 if turn else system_blocks
            fresh = source.fresh(-(-new // block) - shared)
            row: dict[str, Any] = {
                "session_id": f"synth-{number + 1:05d}",
                "input_length": new,
                "output_length": reply,
                "hash_ids": [
                    *range(first, first + shared),
                    *(i for low, high in fresh for i in range(low, high + 1)),
                ],
            }
            if turn:
                row["delay"] = wait / 1e6
            else:
                row["timestamp"] = session.start_ns / 1e6
                row["group_id"] = session.group if spec.groups else number
                row["block_size"] = block
            yield row


def _seconds(time_ns: int) -> float:
    return round(time_ns / 1e9, 3)


WRITERS: dict[str, Callable[[SynthSpec], Iterator[dict[str, Any]]]] = {
    "weka-ranges": _weka_rows,
    "aiperf": _aiperf_rows,
}
