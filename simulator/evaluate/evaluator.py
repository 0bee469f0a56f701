"""The packed, paged evaluator: values of the graph as an engine computes them.

One instance serves one model with its pools; `step` runs a batch of any mix of prefill chunks and
decode tokens. Plain mode stores cache entries in the run's float type; quantised mode in the
packed formats of the graph's regions. With a parallel layout, the ranks of the sharded graph run
side by side, each with its own weights and pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.basis.errors import InputError
from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.graph_weights import graph_weights
from simulator.evaluate.metadata import (
    StepMetadata,
    TokenIds,
    build_metadata,
    check_metadata,
)
from simulator.evaluate.pools import FRESH, Access, BoundRegion, allocate_pools
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.window_pages import WindowPages
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state, next_ids_name
from workloads.entry_format import EntryFormat, PlainEntry
from workloads.graph import Graph, Node
from workloads.op import Array, Choices, EvalContext
from workloads.state_layout import Region, StateLayout
from workloads.step_shape import StepShape

KEPT_GRAPHS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """What a step computed. `logits` [rows, vocab]: each request's last row, or all rows.

    `draft_logits`: the same of each MTP layer that was run, in their order.
    """

    logits: Array
    draft_logits: tuple[Array, ...]
    values: Mapping[str, Array]
    metadata: StepMetadata


class Evaluator:
    """Runs steps of one model. `weights` are under Hugging Face names.

    `draft_tokens` lengthen the rings, so that as many tokens may be taken back after a step. With
    `window_page_tokens` windows lie in pages of so many tokens, handed out in `window_page_order`;
    a step writes its rows there before it attends.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Array],
        table: RequestTable,
        *,
        dtype: type[np.floating[Any]] = np.float64,
        quantised: bool = False,
        precision: Precision | None = None,
        mtp: bool = False,
        all_logits: bool = False,
        clamp_shared_expert: bool = True,
        draft_tokens: int = 0,
        window_page_tokens: int | None = None,
        window_page_order: Sequence[int] | None = None,
    ) -> None:
        self.config = config
        self.table = table
        self.draft_tokens = draft_tokens
        self.dtype = np.dtype(dtype)
        self.quantised = quantised
        self.precision = precision or Precision()
        self._options = {
            "mtp": mtp,
            "all_logits": all_logits,
            "clamp_shared_expert": clamp_shared_expert,
            "paged_window": window_page_tokens is not None,
        }
        self._graphs: dict[StepShape, Graph] = {}
        graph = self.graph(StepShape.uniform(1, 1, 0))
        self.params = {
            name: value.astype(self.dtype) if value.dtype.kind == "f" else value
            for name, value in self._weights(graph, weights).items()
        }
        self.window_pages = None
        if window_page_tokens is not None:
            longest = table.pages_per_row * table.page_tokens
            self.window_pages = WindowPages(
                table.rows,
                longest,
                config.sliding_window,
                window_page_tokens,
                order=window_page_order,
            )
        state = self._state(mtp, draft_tokens)
        regions = {region.name: region for region in state.regions}
        self.pools = allocate_pools(regions, table, self._entry, self.window_pages)

    def graph(self, step: StepShape) -> Graph:
        """The graph for a step's shapes; the last few are kept."""
        if step not in self._graphs:
            if len(self._graphs) >= KEPT_GRAPHS:
                self._graphs.clear()
            self._graphs[step] = self._built(step)
        return self._graphs[step]

    def _built(self, step: StepShape) -> Graph:
        return build_graph(self.config, step, self.precision, **self._options)

    def _weights(self, graph: Graph, weights: Mapping[str, Array]) -> Mapping[str, Array]:
        """Parameters of the graph by name."""
        return graph_weights(self.config, graph, weights)

    def _state(self, mtp: bool, draft_tokens: int) -> StateLayout:
        paged = self.window_pages is not None
        return model_state(self.config, self.precision, mtp, draft_tokens, paged)

    def step(
        self,
        additions: Sequence[tuple[int, TokenIds]],
        *,
        next_ids: Sequence[TokenIds] | None = None,
        keep: Iterable[str] = (),
        choices: Choices | None = None,
        log: list[Access] | None = None,
    ) -> StepOutput:
        """Run one step of (request row, new token ids); `keep` names values to return.

        `next_ids` are those of each addition that MTP layers read: [new tokens], or
        [layers, new tokens] where the model has several.
        """
        self._check_next(next_ids)
        metadata = build_metadata(self.table, additions, next_ids)
        check_metadata(self.table, metadata)
        self._grow_windows(metadata)
        graph = self.graph(metadata.batch.step)
        record = choices or ChoiceRecord()
        kept = set(keep) | set(graph.outputs)
        values = _inputs(metadata)
        last_use = _last_uses(graph)
        for index, node in enumerate(graph.nodes):
            arrays = self._arrays(node, values)
            context = self._context(node, metadata, record, log)
            outputs = node.op.evaluate(arrays, context)
            values.update(zip(node.outputs, outputs, strict=True))
            for name in node.inputs:
                if last_use[name] == index and name not in kept:
                    values.pop(name, None)
        return StepOutput(
            logits=values[graph.outputs[0]],
            draft_logits=tuple(values[name] for name in graph.outputs[1:]),
            values={name: values[name] for name in kept},
            metadata=metadata,
        )

    def _check_next(self, next_ids: Sequence[TokenIds] | None) -> None:
        if not self._options["mtp"] or self.config.drafts_blocks:
            return
        wanted = self.config.mtp_layers
        for found in {len(np.atleast_2d(given)) for given in next_ids or ()} or {0}:
            if found != wanted:
                raise InputError(
                    f"next_ids has rows for {found} MTP layers, but {self.config.name} runs "
                    f"{wanted}: give [{wanted}, new tokens], the k-th row k + 1 tokens ahead"
                )

    def take_back(self, row: int, tokens: int) -> None:
        """Forget all of a request beyond so many tokens; what it had stored reads as NaN.

        Only tokens of a step of at most 1 + `draft_tokens` can be taken back: rings and compressor
        tails keep what is in reach behind the last token of a step, and are longer by so many.
        """
        before = int(self.table.lengths[row])
        if before - tokens > self.draft_tokens:
            raise InputError(
                f"row {row} is to give back {before - tokens} tokens, but the evaluator was made "
                f"for {self.draft_tokens} ({before - tokens - self.draft_tokens} too many)"
            )
        gone = np.arange(tokens, before)
        for pool in self.pools.values():
            if pool.compressed:
                ratio = pool.region.growth.tokens
                entries = np.arange(tokens // ratio, before // ratio)
                if len(entries):
                    pool.data[pool.slots(row, entries)] = FRESH
            elif len(gone):
                pool.data[pool.slots(row, gone)] = FRESH
        if self.window_pages is not None:
            self._forget(self.window_pages.shorten(row, tokens))
        self.table.shorten(row, tokens)

    def _grow_windows(self, metadata: StepMetadata) -> None:
        """Pages for the step's rows; what returned pages held reads as NaN."""
        if self.window_pages is None:
            return
        spans = zip(metadata.request_rows, metadata.batch.past, metadata.lengths, strict=True)
        for row, past, length in spans:
            self._forget(self.window_pages.grow(int(row), int(past), int(length)))
        self.window_pages.check()

    def _forget(self, pages: Sequence[int]) -> None:
        for pool in self.pools.values():
            if pool.window is not None:
                size = pool.window.page_tokens
                for page in pages:
                    pool.data[page * size : (page + 1) * size] = FRESH

    def _arrays(self, node: Node, values: Mapping[str, Array]) -> list[Array]:
        """Operands of a node: inputs, then parameters."""
        return [values[name] for name in node.inputs] + [self.params[n] for n in node.params]

    def _context(
        self, node: Node, metadata: StepMetadata, record: Choices, log: list[Access] | None
    ) -> EvalContext:
        regions = tuple(
            BoundRegion(self.pools[name], metadata.request_rows, node.path, log)
            for name in node.regions
        )
        return EvalContext(metadata.batch, regions, record, node.path, self.dtype)

    def _entry(self, region: Region) -> EntryFormat:
        """The packed format in quantised mode; compressor rows stay float32 there."""
        if self.quantised:
            return region.format
        return PlainEntry(region.format.dim, self.dtype.name)


def _inputs(metadata: StepMetadata) -> dict[str, Array]:
    values: dict[str, Array] = {"token_ids": metadata.batch.token_ids}
    if metadata.batch.next_ids is not None:
        for stage, ids in enumerate(np.atleast_2d(metadata.batch.next_ids)):
            values[next_ids_name(stage)] = ids
    return values


def _last_uses(graph: Graph) -> dict[str, int]:
    return {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
