"""A capacity answer in a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.text_table import TextColumn, left_out, text_table
from simulator.basis.assumptions import assumptions_of
from simulator.capacity import exact_fit, rank_memory, window_fit
from simulator.capacity.capacity import Capacity, _mixed_limits
from simulator.capacity.flips import flip_sentence
from simulator.capacity.verdict import GIB, Change, Verdict, mix_text, short_bytes
from simulator.engine.cited import Cited
from simulator.engine.default_engine import engine_text

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_CHANGES = 4


def capacity_assumptions(capacity: Capacity) -> tuple[str, ...]:
    """Approximations that this answer rests on, the profile's guesses among them."""
    sizing = {"exact": exact_fit, "ratio": window_fit, "cap": window_fit}
    objects: list[object] = [rank_memory.weight_bytes, rank_memory.activation_bytes, _mixed_limits]
    if capacity.question.layout.sizing.kind in sizing:
        module = sizing[capacity.question.layout.sizing.kind]
        objects += [module, module.fit_exact if module is exact_fit else module.fit_window]
    return (*capacity.question.config.notes, *assumptions_of(objects), *_guesses(capacity))


def as_if_of(capacity: Capacity) -> tuple[str, ...]:
    """Sentences on what the engine does not do and is taken to do, and on what it budgets."""
    deployment = capacity.question.deployment
    budget = (deployment.budget_note,) if deployment.budget_note else ()
    return (*deployment.as_if, *budget)


def _guesses(capacity: Capacity) -> tuple[str, ...]:
    layout = capacity.question.layout
    rules: dict[str, Cited] = {
        "layout": layout,
        "memory share": layout.memory,
        "sizing": layout.sizing,
    }
    rules.update({str(name): rule for name, rule in layout.pools.items()})
    return tuple(f"{name}: {rule.origin}" for name, rule in rules.items() if rule.guess)


def print_capacity(console: Console, capacity: Capacity, verdict: Verdict) -> None:
    """Verdict, memory by term, one request by pool, limits, and what would free most."""
    question = capacity.question
    stages = f", pp{question.stages} (stage {capacity.stage + 1} binds)" * (question.stages > 1)
    shared = f", cp{question.deployment.context_parallel}" * (
        question.deployment.context_parallel > 1
    )
    console.print(
        f"{question.config.name} on {question.chips} x {question.chip.name}, {question.parallel}"
        f"{shared}{stages}; {engine_text(question.engine)}, cache {question.formats.kv}, "
        f"index {question.formats.index}, experts {question.formats.expert}",
        soft_wrap=True,
    )
    for sentence in as_if_of(capacity):
        console.print(f"{sentence}.", soft_wrap=True)
    console.print(verdict.sentence, style="bold", soft_wrap=True)
    if turns := flip_sentence(verdict.flips):
        console.print(turns, soft_wrap=True)
    for title, table in capacity_tables(capacity):
        console.print()
        _print_table(console, title, table)
    console.print()
    console.print(terms_text(capacity), soft_wrap=True)
    _print_changes(console, capacity, verdict)
    console.print()
    for line in capacity_assumptions(capacity):
        console.print(f"Assumes: {line}", style="dim", soft_wrap=True)


def capacity_tables(capacity: Capacity) -> list[tuple[str, list[TextColumn]]]:
    """Titled tables: memory by term, a request by pool, what is set aside, and limits last."""
    whole = capacity.question.chip.hbm_capacity_bytes
    memory = [
        (term.name, f"{term.nbytes / GIB:,.2f}", f"{term.nbytes / whole:.1%}", term.about)
        for term in capacity.terms
    ]
    tables = [
        (
            f"One chip's {whole / GIB:,.2f} GiB",
            _columns(("term", "GiB", "share", "what it is"), memory),
        )
    ]
    for part, fit in zip(capacity.question.contexts, capacity.fits, strict=True):
        rows = [
            (
                c.name,
                f"{c.units:,}",
                f"{c.unit_bytes:,}",
                f"{c.nbytes / 1e6:,.2f}",
                f"{c.useful_bytes / 1e6:,.2f}",
                "context" if c.grows else "request",
            )
            for c in fit.charges
        ]
        heads = ("pool", "pages", "B a page", "MB", "MB useful", "grows with")
        title = f"One request of {part.context_tokens:,} tokens: {fit.request_bytes / 1e6:,.2f} MB"
        tables.append((title, _columns(heads, rows)))
    reserved = [(c.name, f"{c.nbytes / GIB:,.2f}") for c in capacity.fits[0].reserved if c.nbytes]
    if reserved:
        tables.append(("Set aside whatever is served", _columns(("pool", "GiB"), reserved)))
    limits = [(lim.name, f"{lim.requests:,.2f}", lim.about) for lim in capacity.limits]
    tables.append(
        (
            f"Limits on requests {mix_text(capacity)}, all replicas",
            _columns(("limit", "requests", "from"), limits),
        )
    )
    return tables


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[TextColumn]:
    words = {"what it is", "from", "grows with"}
    return [
        TextColumn(
            heading=heading,
            cells=[row[i] for row in rows],
            left=i == 0 or heading in words,
            rank=3 if heading in words else 0,
        )
        for i, heading in enumerate(headings)
    ]


def terms_text(capacity: Capacity) -> str:
    """What a request costs on a chip, and the tokens at once."""
    fit = capacity.fits[0]
    return (
        f"Cost on a chip: {fit.fixed_bytes / 1e6:,.2f} MB a request + "
        f"{fit.bytes_per_token:,.2f} B a token of context. "
        f"Tokens at once: {capacity.tokens:,}."
    )


def _print_changes(console: Console, capacity: Capacity, verdict: Verdict) -> None:
    settings = [c for c in verdict.found if not c.more_chips]
    shown = settings[:_SHOWN_CHANGES] + [c for c in verdict.found if c.more_chips]
    if not shown:
        return
    rows = change_rows(capacity, shown)
    console.print()
    one = len(verdict.found) == 1
    title = f"What would free most ({len(verdict.found)} single change{'s help' * (not one)}"
    heads = ("change", "requests", "against now", "what it is")
    _print_table(console, f"{title}{' helps' * one})", _columns(heads, rows))


def change_rows(capacity: Capacity, changes: Sequence[Change]) -> list[tuple[str, str, str, str]]:
    """Changes in words: option, requests, against now, what it is."""
    return [
        (c.option, f"{c.requests:,.2f}", f"x {c.requests / capacity.requests:,.2f}", c.about)
        if capacity.requests
        else (c.option, f"{c.requests:,.2f}", "", c.about)
        for c in changes
    ]


def _print_table(console: Console, title: str, table: Sequence[TextColumn]) -> None:
    """A table with its title, and the columns that had no room."""
    console.print(title, soft_wrap=True)
    console.print(text_table(table, console.width))
    if missing := left_out(table, console.width):
        console.print(missing, style="dim", soft_wrap=True)


def capacity_to_json(capacity: Capacity, verdict: Verdict) -> dict[str, Any]:
    """Every figure of the answer; bytes are those of one chip, requests of all replicas."""
    question = capacity.question
    return {
        "model": question.config.name,
        "chip": question.chip.name,
        "count": question.chips,
        "tp": question.parallel.tensor,
        "dp": question.parallel.data,
        "ep": question.parallel.expert,
        "pp": question.stages,
        "cp": question.deployment.context_parallel,
        "engine": question.engine,
        "kv_dtype": question.formats.kv,
        "index_dtype": question.formats.index,
        "expert_dtype": question.formats.expert,
        "in_flight_tokens": question.in_flight_tokens,
        "draft_tokens": question.draft_tokens,
        "memory_share": question.deployment.memory_share,
        "wanted_requests": question.wanted_requests,
        "verdict": {0: "fits", 3: "does not fit", 4: "unsupported"}[verdict.exit_code],
        "sentence": verdict.sentence,
        "short_bytes": 0 if capacity.is_enough else short_bytes(capacity),
        "requests": capacity.requests,
        "whole_requests": capacity.whole_requests,
        "tokens": capacity.tokens,
        "binds": capacity.binding.name,
        "binding_stage": capacity.stage,
        "memory_bytes": {term.name: term.nbytes for term in capacity.terms},
        "hbm_capacity_bytes": question.chip.hbm_capacity_bytes,
        "cache_budget_bytes": capacity.budget_bytes,
        "limits": {limit.name: limit.requests for limit in capacity.limits},
        "contexts": [_context_to_json(capacity, i) for i in range(len(capacity.question.contexts))],
        "flips": [
            {"input": flip.name, "now": flip.now, "at": flip.at, "text": flip.text}
            for flip in verdict.flips
        ],
        "changes": [
            {"option": c.option, "about": c.about, "requests": c.requests, "fits": c.is_enough}
            for c in verdict.found
        ],
        "assumptions": list(capacity_assumptions(capacity)),
    }


def _context_to_json(capacity: Capacity, index: int) -> dict[str, Any]:
    part, fit = capacity.question.contexts[index], capacity.fits[index]
    return {
        "context_tokens": part.context_tokens,
        "share": part.share,
        "request_bytes": fit.request_bytes,
        "fixed_bytes_per_request": fit.fixed_bytes,
        "bytes_per_token": fit.bytes_per_token,
        "pool_tokens": fit.tokens,
        "pools": [
            {
                "name": c.name,
                "pages": c.units,
                "page_bytes": c.unit_bytes,
                "bytes": c.nbytes,
                "useful_bytes": c.useful_bytes,
                "grows": c.grows,
            }
            for c in fit.charges
        ],
        "reserved_bytes": {c.name: c.nbytes for c in fit.reserved},
    }
