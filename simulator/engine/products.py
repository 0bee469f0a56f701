"""Dimensions of the matrix products inside operations, for cutting them into tiles.

One line per operation with multiply-adds; an operation that has some and is not listed is an
error, so that no work is lost on the way to a machine.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.basis.errors import UnsupportedError
from simulator.engine.kernel import Product, Shape
from workloads.graph import Node
from workloads.op import Op
from workloads.ops import (
    DraftTokens,
    ExpertDown,
    ExpertUp,
    GroupedLinear,
    IndexScore,
    Linear,
    SparseAttention,
)
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work


def products_of(
    node: Node, work: Work, step: StepShape, fetched: float = 0.0, operand: int = 0
) -> tuple[Product, ...]:
    """Matrix products of a node: none, or one whose multiply-adds are those of the work.

    `fetched` are the cache entries that blocks of queries fetch, each as often as it is fetched;
    `operand` numbers the activations among those of the kernel.
    """
    if not work.macs:
        return ()
    rule = _RULES.get(type(node.op))
    if rule is None:
        raise UnsupportedError(
            f"{node.path}: {type(node.op).__name__} has matrix products of unknown dimensions; "
            "say them in simulator/engine/products.py"
        )
    (math, macs), *more = work.macs.items()
    assert not more, f"{node.path}: products of several math classes"
    shape, count, rows, columns, depth, elements, partial = rule(node, work, step, fetched)
    if not macs:
        return ()
    if isinstance(node.op, DraftTokens):
        return _one_after_the_other(node, work, node.op.block)
    return (
        Product(
            shape=shape,
            math=math,
            count=count,
            rows=rows,
            columns=columns,
            depth=depth,
            macs=macs,
            weight_elements=elements,
            partial_columns=partial,
            weight_bytes=sum(work.param_bytes),
            operand=operand,
        ),
    )


def _one_after_the_other(node: Node, work: Work, block: int) -> tuple[Product, ...]:
    """Products of a block's positions, each of which waits for the one before."""
    ((math, macs),) = work.macs.items()
    _, columns, depth = node.types.params[1].matrix
    rows = node.types.inputs[0].axes[0][1] / block
    return tuple(
        Product(
            shape=Shape.MATRIX,
            math=math,
            count=1,
            rows=rows,
            columns=columns,
            depth=depth,
            macs=macs // block,
            weight_elements=columns * depth,
            partial_columns=columns,
            weight_bytes=node.types.params[1].nbytes,
            # Other activations each time, so that no two of them are joined.
            operand=position,
        )
        for position in range(block)
    )


_Dimensions = tuple[Shape, float, float, float, float, float, float]


def _linear(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    _, n, k = node.types.params[0].matrix
    return (Shape.MATRIX, 1, node.types.inputs[0].size // k, n, k, n * k, n)


def _grouped(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    groups, n, k = node.types.params[0].matrix
    return (Shape.MATRIX, groups, node.types.inputs[0].axes[0][1], n, k, groups * n * k, n)


def _expert_up(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    return _experts(node, work, node.types.outputs[0].axes[0][1])


def _expert_down(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    return _experts(node, work, node.types.inputs[0].axes[0][1])


def _experts(node: Node, work: Work, slots: int) -> _Dimensions:
    """One product per touched expert, of the average number of rows."""
    weight: TensorType = node.types.params[0]
    held, n, k = weight.matrix
    touched = work.param_bytes[0] * held / weight.nbytes
    # Fewer rows than touched experts: an expert that is touched has at least one row.
    count = max(min(touched, slots), 1e-9)
    return (Shape.MATRIX, count, slots / count, n, k, touched * n * k, n)


def _attention(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    queries, heads, dim = node.types.inputs[0].shape
    assert isinstance(node.op, SparseAttention)
    return (Shape.ATTENTION, queries, heads, node.op.pairs(step) / queries, 2 * dim, 0, dim)


def _index_score(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    queries, heads, dim = node.types.inputs[0].shape
    pairs = node.types.outputs[0].size
    return (Shape.ATTENTION, queries, heads, pairs / queries, dim, fetched * dim, 0)


def _draft_tokens(node: Node, work: Work, step: StepShape, fetched: float) -> _Dimensions:
    return (Shape.MATRIX, 1, 1, 1, 1, 1, 1)  # see `_one_after_the_other`


_RULES: dict[type[Op], Callable[[Node, Work, StepShape, float], _Dimensions]] = {
    Linear: _linear,
    GroupedLinear: _grouped,
    ExpertUp: _expert_up,
    ExpertDown: _expert_down,
    SparseAttention: _attention,
    DraftTokens: _draft_tokens,
    IndexScore: _index_score,
}
