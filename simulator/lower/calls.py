"""What a priced kernel is asked to do, in the terms of its program: sizes read off its nodes.

A call is hashable and holds plain numbers only, so that equal kernels are priced once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.basis.errors import UnsupportedError
from simulator.lower.kernel_section import FusedKernel
from workloads.graph import Graph, Node
from workloads.op import Op
from workloads.ops import (
    AllGather,
    AllReduce,
    ExpertCombine,
    ExpertDispatch,
    ExpertUp,
    HcCollapse,
    HcExpand,
    ReduceScatter,
    SparseAttention,
)
from workloads.step_shape import StepShape

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
HEAD_DIM, INDEX_HEADS, INDEX_DIM = 512, 64, 128
# DSpark drafts at most 8 tokens; the token that was answered last is computed with them.
MOST_VERIFIED = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One attention module: `kind` is csa, hca or swa; requests are alike (see `uniform`)."""

    kind: str
    decode: bool
    batch: float
    new: float
    past: float
    heads: int
    hidden: int
    query_rank: int
    top_k: int
    fp8: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsCall:
    """Picked experts of one rank: `tokens` choose `per_token` of all `experts`, `held` are here.

    `own_tokens` are those of the rank's own requests.
    """

    tokens: int
    own_tokens: int
    experts: int
    per_token: int
    held: int
    hidden: int
    inner: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsCall:
    """Residual streams of so many tokens."""

    tokens: int
    hidden: int
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """A collective of `message_bytes`: what is summed up, or what a gather ends with.

    For an all-to-all they are what one rank sends.
    """

    operation: Operation
    message_bytes: int
    decode: bool


Call = AttentionCall | ExpertsCall | StreamsCall | CollectiveCall


def call_of(kernel: FusedKernel, nodes: Sequence[Node], graph: Graph, sent: int) -> Call | None:
    """The call of a kernel's nodes; None where its demand says everything. `sent` link bytes."""
    if kernel.program == "moe":
        return _experts(next(n for n in nodes if isinstance(n.op, ExpertUp)), graph.step)
    if kernel.program in ("mhc_pre", "mhc_post"):
        return _streams(next(n for n in nodes if isinstance(n.op, HcCollapse | HcExpand)))
    if kernel.program in ("all_reduce", "gather_scatter", "exchange"):
        return _collective(nodes[0], graph.step, sent)
    return None


def is_decode(step: StepShape) -> bool:
    """Whether every request adds one token, or so few that they are drafts to be verified.

    Assumes: drafts are verified by the kernels of a decode step, each draft a row of its own (as in
        SGLang 0.5.23, dsv4/indexer.py); a request that adds up to 9 tokens to as many or more is
        taken for one whose drafts are verified.
    """
    return step.total(_in_prompt) == 0


def _in_prompt(new: int, past: int) -> int:
    return new if new > MOST_VERIFIED or (new > 1 and past < new) else 0


def uniform(step: StepShape) -> tuple[float, float, float]:
    """(batch, new, past) of equal requests with the step's tokens and visible tokens.

    Assumes: a ragged batch takes as long as one of equal requests with the same number of tokens,
        the same sum of visible tokens over its queries, and as many new tokens each as the
        request of a token has on average: decoding requests beside a prompt do not split it up.
    """
    visible = step.total(lambda new, past: new * past + new * (new + 1) // 2)
    new = step.total(lambda new, _: new * new) / step.tokens
    return step.tokens / new, new, visible / step.tokens - (new + 1) / 2


def attention_call(nodes: Sequence[Node], graph: Graph) -> AttentionCall | None:
    """The call of a layer's attention module; None for a layer without one.

    Raises `UnsupportedError` where the model has other head sizes than DeepSeek-V4.
    """
    by_path = {node.local_path: node for node in nodes}
    core = by_path.get("attn/core")
    if core is None:
        return None
    assert isinstance(core.op, SparseAttention)
    _, heads, dim = core.types.inputs[0].shape
    _check_sizes(dim, by_path)
    down = by_path["attn/wq_a"].types.params[0]
    _, query_rank, hidden = down.matrix
    batch, new, past = uniform(graph.step)
    return AttentionCall(
        kind={0: "swa", 4: "csa"}.get(core.op.ratio, "hca"),
        decode=is_decode(graph.step),
        batch=batch,
        new=new,
        past=past,
        heads=heads,
        hidden=hidden,
        query_rank=query_rank,
        top_k=core.op.top_k,
        fp8=down.dtype.math == "fp8",
    )


def _check_sizes(head_dim: int, by_path: Mapping[str, Node]) -> None:
    found = {"head size": (head_dim, HEAD_DIM)}
    if "attn/indexer/score" in by_path:
        _, heads, dim = by_path["attn/indexer/score"].types.inputs[0].shape
        found |= {"index heads": (heads, INDEX_HEADS), "index head size": (dim, INDEX_DIM)}
    for what, (given, expected) in found.items():
        if given != expected:
            raise UnsupportedError(
                f"this engine's attention kernels are those of DeepSeek-V4 with {what} {expected}, "
                f"but the model has {given}; use --engine ideal"
            )


def _experts(node: Node, step: StepShape) -> ExpertsCall:
    x, ids = node.types.inputs
    weight = node.types.params[0]
    assert isinstance(node.op, ExpertUp)
    return ExpertsCall(
        tokens=x.axes[0][1],
        own_tokens=step.tokens,
        experts=node.op.experts,
        per_token=ids.axes[1][1],
        held=weight.axes[0][1],
        hidden=weight.axes[3][1],
        inner=weight.axes[2][1],
    )


def _streams(node: Node) -> StreamsCall:
    tokens, count, hidden = node.types.inputs[1 if isinstance(node.op, HcExpand) else 0].shape
    return StreamsCall(tokens=tokens, hidden=hidden, streams=count)


def _collective(node: Node, step: StepShape, sent: int) -> CollectiveCall:
    op, decode = node.op, is_decode(step)
    inputs = sum(t.nbytes for t in node.types.inputs)
    return CollectiveCall(
        operation=operation_of(op),
        message_bytes={
            "all_reduce": inputs,
            "reduce_scatter": inputs,
            "all_gather": sum(t.nbytes for t in node.types.outputs),
            "all_to_all": sent,
        }[operation_of(op)],
        decode=decode,
    )


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
