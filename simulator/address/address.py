"""Answers an address question: builds the tables, runs a small model where asked, reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.address.picks import (
    MOST_PAIRS,
    TINY,
    PickRecord,
    asked_model,
    index_pairs,
    picked,
    run_model,
    run_step,
)
from simulator.address.question import AddressQuestion, RequestSpec
from simulator.address.result import AddressResult, PoolGeometry, RequestTables, RowAddress
from simulator.address.row import RowAddressing
from simulator.basis.assumptions import assumptions_of
from simulator.basis.errors import InputError
from simulator.cache.pool_spec import TOKEN, pools_of
from simulator.evaluate.metadata import StepMetadata, build_metadata
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state


def address(question: AddressQuestion) -> AddressResult:
    """Addresses of the rows and layers that are asked for.

    Assumes: every request's past was one step, all requests together, before the step shown; pages
        are handed out in that order.
    """
    config = asked_model(question.model)
    layers = _layers(question, config)
    rows = _packed_rows(question)
    _refuse_long(question, config)
    table = _table(question, config)
    requests = [
        (table.admit(spec.row), spec.past, spec.new) for spec in _in_admission_order(question)
    ]
    requests = _in_batch_order(question, requests)
    deepest = max(layers) + 1
    pairs = index_pairs(config, deepest, [(past, new) for _, past, new in requests])
    undecided = any(one.indexed for one in config.layers[:deepest]) and _undecided(
        question, rows, config
    )
    record, ran = PickRecord(), _runs(question, pairs, undecided)
    if ran:
        model = run_model(config, deepest, question.seed)
        metadata, _ = run_step(model, table, requests, question.seed, record)
    else:
        metadata = _tables_only(table, requests)
    return AddressResult(
        question=question,
        model=config.name,
        window=config.sliding_window,
        ran=ran,
        values=_values_sentence(config, ran, pairs, undecided),
        pools=_geometry(table),
        requests=_request_tables(table, metadata),
        rows=tuple(_row(config, table, metadata, row, layers, record) for row in rows),
        assumptions=assumptions_of(
            [address, *([run_model] if ran and config.name != TINY else [])]
        ),
    )


def _layers(question: AddressQuestion, config: ModelConfig) -> list[int]:
    kinds = config.layers
    for layer in question.layers:
        if layer >= len(kinds):
            raise InputError(
                f"layer {layer} does not exist: {config.name} has layers 0 to {len(kinds) - 1}"
            )
    if question.layers:
        return sorted(set(question.layers))
    return sorted({kind: layer for layer, kind in reversed(list(enumerate(kinds)))}.values())


def _packed_rows(question: AddressQuestion) -> list[int]:
    ends = np.cumsum([spec.new for spec in question.requests])
    for row in question.rows:
        if row >= ends[-1]:
            raise InputError(
                f"packed row {row} does not exist: the step has {int(ends[-1])} rows, 0 to "
                f"{int(ends[-1]) - 1}"
            )
    return sorted(set(question.rows)) or [int(end) - 1 for end in ends]


def _refuse_long(question: AddressQuestion, config: ModelConfig) -> None:
    most = config.max_position_embeddings
    for number, spec in enumerate(question.requests):
        if spec.context > most:
            raise InputError(
                f"request {number} would hold {spec.context:,} tokens, {config.name} allows "
                f"{most:,} ({spec.context - most:,} too many); shorten it"
            )


def _table(question: AddressQuestion, config: ModelConfig) -> RequestTable:
    count = len(question.requests)
    named = [spec.row + 1 for spec in question.requests if spec.row is not None]
    slots = max([count, *named]) if question.slots is None else question.slots
    if count > slots:
        raise InputError(
            f"{count} requests need {count} request slots, but there are {slots} "
            f"({count - slots} short); give more slots or fewer requests"
        )
    longest = max(spec.context for spec in question.requests)
    pools = pools_of(model_state(config, Precision()), question.pool_page_tokens)
    order = None
    if question.page_seed is not None and question.page_tokens > 0:
        rng = np.random.default_rng(question.page_seed)
        order = _shuffled(rng, slots, longest, question.page_tokens)
        pools = tuple(
            replace(pool, page_order=_shuffled(rng, slots, longest, pool.page_tokens))
            for pool in pools
        )
    return RequestTable(
        slots, longest, page_tokens=question.page_tokens, page_order=order, pools=pools
    )


def _shuffled(
    rng: np.random.Generator, slots: int, longest: int, page_tokens: int | None
) -> tuple[int, ...] | None:
    """An order of all pages of a pool; None for one that has no pages of its own."""
    if page_tokens is None:
        return None
    return tuple(int(page) for page in rng.permutation(slots * -(-longest // page_tokens)))


def _in_admission_order(question: AddressQuestion) -> list[RequestSpec]:
    """Requests with a row of their own first, so that the others take what is left."""
    return sorted(question.requests, key=lambda spec: spec.row is None)


def _in_batch_order(
    question: AddressQuestion, admitted: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Rows as they were admitted, put back into the order of the batch."""
    order = sorted(range(len(question.requests)), key=lambda n: question.requests[n].row is None)
    return [request for _, request in sorted(zip(order, admitted, strict=True))]


def _undecided(question: AddressQuestion, rows: Sequence[int], config: ModelConfig) -> bool:
    """Some row shown sees more entries than the indexer picks, so that values decide."""
    positions = np.concatenate([np.arange(r.past, r.context) for r in question.requests])
    return bool(((positions[rows] + 1) // 4 > config.index_topk).any())


def _runs(question: AddressQuestion, pairs: int, undecided: bool) -> bool:
    if question.values == "auto":
        return undecided and pairs <= MOST_PAIRS
    return question.values == "run"


def _tables_only(table: RequestTable, requests: Sequence[tuple[int, int, int]]) -> StepMetadata:
    table.extend_all([(row, past) for row, past, _ in requests])
    return build_metadata(table, [(row, np.zeros(new, dtype=np.int64)) for row, _, new in requests])


def _values_sentence(config: ModelConfig, ran: bool, pairs: int, undecided: bool) -> str:
    if ran and config.name == TINY:
        return "The indexer's ids are those of the golden file's model on random tokens."
    if ran:
        return (
            f"The indexer's ids are those of a small model with the kinds of layers, the window "
            f"and the top-k of {config.name} and random weights; all other addresses are exact."
        )
    if not pairs:
        return "The layers up to the last one shown have no indexer: every address is exact."
    if not undecided:
        return (
            f"No row shown sees more than the {config.index_topk:,} entries that the indexer "
            "picks: every address is exact without a run."
        )
    return (
        f"No model has run ({pairs:,} index scores; up to {MOST_PAIRS:,} run unasked): the "
        f"indexer's ids are not known for rows that see more than {config.index_topk:,} entries; "
        "all other addresses are exact."
    )


def _geometry(table: RequestTable) -> tuple[PoolGeometry, ...]:
    allocator = table.allocator
    ratios = {TOKEN: 1} | {name: pool.ratio for name, pool in allocator.pools.items()}
    return tuple(
        PoolGeometry(
            pool=name,
            ratio=ratio,
            page_tokens=allocator.page_entries(name) * ratio,
            page_entries=allocator.page_entries(name),
            pages=allocator.pool_slots(name) // allocator.page_entries(name),
            follows=name not in allocator.tables,
        )
        for name, ratio in ratios.items()
    )


def _request_tables(table: RequestTable, metadata: StepMetadata) -> tuple[RequestTables, ...]:
    return tuple(
        RequestTables(
            request=number,
            row=int(row),
            past=int(metadata.batch.past[number]),
            new=int(metadata.lengths[number] - metadata.batch.past[number]),
            first_packed_row=int(metadata.boundaries[number]),
            pages={
                name: tuple(int(page) for page in table.page_table(int(row), name))
                for name in table.allocator.tables
            },
        )
        for number, row in enumerate(metadata.request_rows)
    )


def _row(
    config: ModelConfig,
    table: RequestTable,
    metadata: StepMetadata,
    packed_row: int,
    layers: Sequence[int],
    record: PickRecord,
) -> RowAddress:
    found = RowAddressing(config, table, metadata, packed_row)
    slot = int(metadata.token_slots[packed_row])
    return RowAddress(
        packed_row=packed_row,
        request=found.request,
        request_row=found.request_row,
        position=found.position,
        context=found.context,
        token_slot=slot,
        place=found.position // table.page_tokens,
        page=slot // table.page_tokens,
        layers=tuple(found.layer(layer, picked(record, layer)) for layer in layers),
    )
