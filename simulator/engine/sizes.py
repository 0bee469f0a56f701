"""Sizes of a kernel's program, read off the nodes that it covers: their types, work and access.

A row of sizes is one call of a program, as named numbers; equal rows are priced once. Nothing here
knows a model: a size comes from a node, from the step's shapes, or from how the engine stores rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from simulator.basis.errors import UnsupportedError
from simulator.engine.cache_runs import moved_row_bytes
from simulator.engine.kernel_section import FusedKernel
from simulator.engine.phase import Phase, uniform
from simulator.engine.physical_layout import PhysicalLayout
from workloads.graph import Graph, Node
from workloads.op import Op
from workloads.ops import (
    AllGather,
    AllReduce,
    ExpertCombine,
    ExpertDispatch,
    ExpertDown,
    ExpertUp,
    HcCollapse,
    HcExpand,
    IndexScore,
    ReduceScatter,
    SparseAttention,
    TopK,
)
from workloads.ops.collective import rows_by_expert
from workloads.run_stats import alone_tokens
from workloads.work import Work

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
# Named sizes of one call; values are numbers or, for what chooses a form, text.
Row = tuple[tuple[str, Any], ...]
O = TypeVar("O", bound=Op)  # noqa: E741


@dataclass(frozen=True, slots=True)
class Members:
    """A kernel, the nodes that it covers with their work, and how the engine stores cache rows."""

    kernel: FusedKernel
    nodes: Sequence[tuple[Node, Work]]
    graph: Graph
    rows: PhysicalLayout
    phase: Phase
    layer: Sequence[Node] = ()

    def one(self, op: type[O]) -> tuple[Node, Work, O]:
        """The node with an operation of a type; an engine may not fuse two of them."""
        found = [(n, w, n.op) for n, w in self.nodes if isinstance(n.op, op)]
        if len(found) != 1:
            raise UnsupportedError(
                f"kernel {self.kernel.name!r} covers {len(found)} nodes of {op.__name__}, but its "
                f"program {self.kernel.program!r} prices one"
            )
        return found[0]


def row(**sizes: Any) -> Row:
    """Sizes by name."""
    return tuple(sizes.items())


def _index_logits(members: Members) -> tuple[Row, ...]:
    node, work, op = members.one(IndexScore)
    requests, new, past = uniform(members.graph.step)
    _, heads, dim = node.types.inputs[0].shape
    keys = members.rows.of(members.graph.regions[node.regions[0]])
    pairs = node.types.outputs[0].size
    ((math, macs),) = work.macs.items()
    return (
        row(
            math=math,
            requests=requests,
            new=new,
            past=past,
            ratio=op.ratio,
            values=dim,
            pairs=pairs,
            macs=macs,
            vector_ops=work.vector_ops + work.special_ops,
            key_bytes=keys.scanned_row_bytes,
            page_rows=keys.page_rows,
            run_bytes=keys.run_bytes,
            # Heads of a query are stored as keys are, a weight in the place of the scale.
            query_bytes=heads * keys.row_bytes,
        ),
    )


def _top_k(members: Members) -> tuple[Row, ...]:
    node, work, op = members.one(TopK)
    requests, new, past = uniform(members.graph.step)
    scores = node.types.inputs[0]
    return (
        row(
            decode=float(members.phase.decode),
            requests=requests,
            new=new,
            past=past,
            ratio=op.ratio,
            top_k=op.top_k,
            pairs=scores.size,
            vector_ops=work.vector_ops + work.special_ops,
            score_bytes=scores.dtype.bits // 8,
            ties=0.0,
        ),
    )


def _core(members: Members) -> tuple[Row, ...]:
    node, work, op = members.one(SparseAttention)
    requests, new, past = uniform(members.graph.step)
    _, heads, dim = node.types.inputs[0].shape
    regions = [members.graph.regions[name] for name in node.regions]
    stored = [members.rows.of(region) for region in regions]
    read = sum(moved_row_bytes(stored[r.region], r) * r.distinct for r in work.reads)
    return (
        row(
            stored=regions[0].format.precision,
            requests=requests,
            new=new,
            past=past,
            heads=heads,
            values=dim,
            window=op.window,
            ratio=op.ratio,
            top_k=op.top_k,
            pairs=op.pairs(members.graph.step),
            macs=sum(work.macs.values()),
            vector_ops=work.vector_ops,
            special_ops=work.special_ops,
            key_bytes=stored[0].row_bytes,
            scaled_values=stored[0].scaled_values,
            cache_bytes=read,
            # Picked rows lie apart, rows in order side by side in their pages.
            run_bytes=(
                members.rows.picked_run_bytes(stored[-1]) if op.top_k else stored[-1].run_bytes
            ),
            operand_bytes=sum(work.input_bytes) + sum(work.output_bytes),
        ),
    )


def _experts(members: Members) -> tuple[Row, ...]:
    up, up_work, op = members.one(ExpertUp)
    down, down_work, _ = members.one(ExpertDown)
    x, ids = up.types.inputs
    weight, back = up.types.params[0], down.types.params[0]
    slots = up.types.outputs[0].axes[0][1]
    gate_up, inner, hidden = (size for _, size in weight.axes[1:])
    return (
        row(
            tokens=x.axes[0][1],
            # With expert groups a rank quantises its own tokens before they are sent.
            own_tokens=members.graph.step.tokens
            if weight.axes[0][1] < op.experts
            else x.axes[0][1],
            experts=op.experts,
            per_token=ids.axes[1][1],
            alone=alone_tokens(members.graph.step, x.axes[0][1]),
            held=weight.axes[0][1],
            hidden=hidden,
            inner=inner,
            slots=slots,
            up_columns=gate_up * inner,
            up_macs=sum(up_work.macs.values()),
            down_macs=sum(down_work.macs.values()),
            up_bytes=weight.nbytes / weight.size,
            down_bytes=back.nbytes / back.size,
            vector_ops=sum(w.vector_ops + w.special_ops for _, w in members.nodes),
        ),
    )


def _streams(members: Members) -> tuple[Row, ...]:
    expands = any(isinstance(node.op, HcExpand) for node, _ in members.nodes)
    node, _, _ = members.one(HcExpand if expands else HcCollapse)
    tokens, count, hidden = node.types.inputs[1 if expands else 0].shape
    gates = [w for n, w in members.nodes if n.op.__class__.__name__ in ("HcSplit", "HcHeadGate")]
    return (
        row(
            tokens=tokens,
            hidden=hidden,
            streams=count,
            gates=_mixed_columns(members),
            gate_ops=sum(w.vector_ops + w.special_ops for w in gates),
            macs=sum(sum(w.macs.values()) for _, w in members.nodes),
            vector_ops=sum(
                w.vector_ops + w.special_ops for _, w in members.nodes if w not in gates
            ),
            weight_bytes=sum(sum(w.param_bytes) for n, w in members.nodes if w.macs),
            sites=1.0,
        ),
    )


def _mixed_columns(members: Members) -> Any:
    """Columns of the mixing product; 0 where the kernel has none."""
    products = [n.types.params[0].matrix[1] for n, w in members.nodes if w.macs]
    return sum(products)


def _collective(members: Members) -> tuple[Row, ...]:
    node, _ = members.nodes[0]
    operation = operation_of(node.op)
    inputs = sum(t.nbytes for t in node.types.inputs)
    message = {
        "all_reduce": inputs,
        "reduce_scatter": inputs,
        "all_gather": sum(t.nbytes for t in node.types.outputs),
        "all_to_all": sum(work.link_bytes for _, work in members.nodes),
    }[operation]
    return (
        row(
            operation=operation,
            message_bytes=message,
            decode=float(members.phase.decode),
            floating=1.0,
        ),
    )


def _exchange(members: Members) -> tuple[Row, ...]:
    """Of a collective around experts; rows by expert are those of low-latency kernels."""
    (own,) = _collective(members)
    return ((*own, ("by_expert", _rows_by_expert(members))),)


def _rows_by_expert(members: Members) -> float:
    """Rows of (token, expert) for each of (token, rank)."""
    for node, _ in members.nodes:
        if isinstance(node.op, ExpertCombine):
            return rows_by_expert(node.op.per_token, node.op.layout)
        if isinstance(node.op, ExpertDispatch):
            return rows_by_expert(node.types.inputs[1].shape[1], node.op.layout)
    return 1.0


def _fused_experts(members: Members) -> tuple[Row, ...]:
    """A layer of experts with the exchange around it in the same kernel."""
    (own,) = _experts(members)
    sent = sum(work.link_bytes for _, work in members.nodes)
    return ((*own, ("message_bytes", sent), ("by_expert", _rows_by_expert(members))),)


def operation_of(op: Op) -> Operation:
    """How a node's ranks exchange values."""
    if isinstance(op, AllReduce):
        return "all_reduce"
    if isinstance(op, ReduceScatter):
        return "reduce_scatter"
    if isinstance(op, AllGather) or (isinstance(op, ExpertDispatch) and op.layout.expert == 1):
        return "all_gather"
    assert isinstance(op, ExpertDispatch | ExpertCombine), f"{type(op).__name__} sends nothing"
    return "all_to_all"


def _launch(members: Members) -> tuple[Row, ...]:
    kernel = members.kernel
    extra = 0 if members.phase.decode else kernel.prefill_launches
    return (row(launches=float(kernel.launches + extra)),)


def _pad(members: Members) -> tuple[Row, ...]:
    """Queries copied into a tile of `pads_to` heads, read off the layer's core."""
    core = core_of(members.layer)
    assert core is not None
    tokens, _, dim = core.types.inputs[0].shape
    width = dim * core.types.inputs[0].dtype.bits // 8
    return (row(moved_bytes=tokens * (members.kernel.pads_to or 0) * width, operations=0),)


def core_of(layer: Sequence[Node]) -> Node | None:
    """The attention itself among the nodes of a layer."""
    return next((node for node in layer if isinstance(node.op, SparseAttention)), None)


# Programs whose sizes come from nodes; the others read the demand's products and bytes.
SIZES: dict[str, Callable[[Members], tuple[Row, ...]]] = {
    "index_logits": _index_logits,
    "top_k": _top_k,
    "core": _core,
    "moe": _experts,
    "mhc_pre": _streams,
    "mhc_post": _streams,
    "all_reduce": _collective,
    "gather_scatter": _collective,
    "exchange": _exchange,
    "fused_moe": _fused_experts,
    "launch": _launch,
    "pad": _pad,
}
