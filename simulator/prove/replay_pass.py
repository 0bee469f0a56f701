"""Tokens before a hit boundary run again, layer by layer, over what the caches hold.

Every layer runs the tokens that it is given, whole, plus some of which only the rows that it caches
are wanted. Compressed entries are read from the cache and never written: those before the boundary
are cached already, and what a replay would write can be wrong, as it lacks rows of its own past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.metadata import TokenIds
from simulator.evaluate.pools import BoundRegion
from simulator.prove.replay_count import OVERLAP_ROWS, ReplayCount
from workloads.batch import Batch, pack
from workloads.deepseek_v4.state import layer_name
from workloads.graph import Graph, Node
from workloads.op import Array, EvalContext, Op
from workloads.ops import SparseAttention, WriteWindow
from workloads.ops.compressor import CompressPool
from workloads.state_layout import Every

EMBEDDING = "embed"


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """Where one layer begins: with rows only from `rows_from`, whole from `whole_from`."""

    rows_from: int
    whole_from: int


@dataclass(frozen=True, slots=True)
class ReplayWorkDone:
    """What a pass ran: tokens in the lowest layer, token-layers run whole, window rows written."""

    tokens: int = 0
    token_layers: int = 0
    kv_rows: int = 0


class HeldRegion(BoundRegion):
    """A region during a replay: compressed entries are read only."""

    def write(self, request: int, entries: Array, values: Array) -> None:
        """Store rows of windows and compressors; an entry stays as it is cached."""
        if not isinstance(self._pool.region.growth, Every):
            super().write(request, entries, values)


@dataclass(frozen=True, slots=True)
class WindowFrom(SparseAttention):
    """Sparse attention whose windows begin at a position: what lies before is not seen.

    Assumes: in a bounded replay, windows see no token before the first replayed one.
    """

    first: int = 0

    def _keys(
        self,
        raw: Array,
        raw_start: int,
        entries: Array | None,
        positions: Array,
        picks: Array | None,
    ) -> tuple[Array, Array]:
        keys, mask = SparseAttention._keys(self, raw, raw_start, entries, positions, picks)
        seen = positions[:, None] - np.arange(self.window)[::-1] >= self.first
        keys, mask = keys.copy(), mask.copy()
        keys[:, : self.window][~seen] = 0.0
        mask[:, : self.window] &= seen
        return keys, mask


def whole_spans(layers: int, start: int) -> list[LayerSpan]:
    """Every layer runs every token from `start`."""
    return [LayerSpan(start, start)] * layers


def trimmed_spans(count: ReplayCount, boundary: int) -> list[LayerSpan]:
    """Each layer runs what the layers above need, and of the rest only the cached rows."""
    return [
        LayerSpan(max(0, boundary - need.inputs), max(0, boundary - need.whole))
        for need in count.layers
    ]


class ReplayPass:
    """Runs `tokens[start:boundary]` of the request in `row`, whose pages are allocated."""

    def __init__(
        self, evaluator: Evaluator, row: int, tokens: TokenIds, boundary: int, first_seen: int = 0
    ) -> None:
        self.evaluator = evaluator
        self.row = np.array([row])
        self.tokens = np.asarray(tokens)
        self.boundary = boundary
        self.first_seen = first_seen

    def run(self, spans: Sequence[LayerSpan]) -> ReplayWorkDone:
        """Fill rings and overlap rows; `spans` is one a layer."""
        start = spans[0].rows_from
        if start >= self.boundary:
            return ReplayWorkDone()
        with np.errstate(all="ignore"):  # NaN in most rows is what a replay begins with
            streams = self._embed(start)
            for layer, span in enumerate(spans):
                lost = span.rows_from - start
                assert lost >= 0, "a layer cannot begin before the one below it ends"
                streams, start = streams[lost:], span.rows_from
                streams = self._layer(layer, span, streams)
                start = span.whole_from
        whole = sum(self.boundary - span.whole_from for span in spans)
        rows = sum(self.boundary - span.rows_from for span in spans)
        return ReplayWorkDone(self.boundary - spans[0].rows_from, whole, rows)

    def _embed(self, start: int) -> Array:
        batch, graph = self._step(start, self.boundary)
        nodes = [node for node in graph.nodes if node.scope == EMBEDDING]
        values = self._evaluate(nodes, {"token_ids": batch.token_ids}, batch)
        return values[nodes[-1].outputs[0]]

    def _layer(self, layer: int, span: LayerSpan, streams: Array) -> Array:
        """Streams out of the tokens that run whole, from those of all tokens of the span."""
        parts = span.whole_from - span.rows_from
        if parts:
            self._cached_rows(layer, span.rows_from, span.whole_from, streams[:parts])
        if span.whole_from == self.boundary:
            return streams[parts:]
        batch, graph = self._step(span.whole_from, self.boundary)
        nodes = _layer_nodes(graph, layer)
        values = self._evaluate(nodes, _layer_inputs(nodes, batch, streams[parts:]), batch)
        return values[_streams_out(nodes)]

    def _cached_rows(self, layer: int, start: int, stop: int, streams: Array) -> None:
        """Rows of the window; just before the boundary, overlap rows of the compressors, too."""
        self._rows_of(layer, start, stop, streams, WriteWindow)
        first = max(start, self.boundary - OVERLAP_ROWS)
        if self.evaluator.config.layers[layer].indexed and first < stop:
            self._rows_of(layer, first, stop, streams[first - start :], CompressPool)

    def _rows_of(
        self, layer: int, start: int, stop: int, streams: Array, kind: type[object]
    ) -> None:
        """Only what leads to the operations of a kind, which write the rows."""
        batch, graph = self._step(start, stop)
        nodes = _layer_nodes(graph, layer)
        wanted = [node for node in nodes if isinstance(node.op, kind)]
        needed = _leading_to(wanted, nodes)
        self._evaluate(needed, _layer_inputs(nodes, batch, streams), batch)

    def _step(self, start: int, stop: int) -> tuple[Batch, Graph]:
        batch = pack([(self.tokens[start:stop], start)])
        return batch, self.evaluator.graph(batch.step)

    def _evaluate(
        self, nodes: Sequence[Node], inputs: Mapping[str, Array], batch: Batch
    ) -> dict[str, Array]:
        values = dict(inputs)
        for node in nodes:
            arrays = [values[name] for name in node.inputs]
            arrays += [self.evaluator.params[name] for name in node.params]
            regions = tuple(
                HeldRegion(self.evaluator.pools[name], self.row, node.path, None)
                for name in node.regions
            )
            context = EvalContext(batch, regions, ChoiceRecord(), node.path, self.evaluator.dtype)
            outputs = self._op(node).evaluate(arrays, context)
            values.update(zip(node.outputs, outputs, strict=True))
        return values

    def _op(self, node: Node) -> Op:
        op = node.op
        if self.first_seen and isinstance(op, SparseAttention):
            return WindowFrom(op.window, op.ratio, op.top_k, first=self.first_seen)
        return op


def _layer_nodes(graph: Graph, layer: int) -> list[Node]:
    return [node for node in graph.nodes if node.scope == layer_name(layer)]


def _layer_inputs(nodes: Sequence[Node], batch: Batch, streams: Array) -> dict[str, Array]:
    """Streams and token ids under the names by which the layer knows them."""
    made = {name for node in nodes for name in node.outputs}
    wanted = {name for node in nodes for name in node.inputs} - made
    return {name: batch.token_ids if name == "token_ids" else streams for name in wanted}


def _streams_out(nodes: Sequence[Node]) -> str:
    return nodes[-1].outputs[0]


def _leading_to(wanted: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """The wanted nodes and all they depend on, in order."""
    names = {name for node in wanted for name in node.inputs}
    paths = {node.path for node in wanted}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.path in paths or names & set(node.outputs):
            kept.append(node)
            names |= set(node.inputs)
    return kept[::-1]
