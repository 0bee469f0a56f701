"""Operations, one visible line each."""

from workloads.op import Op
from workloads.ops.attention import SparseAttention
from workloads.ops.cache_write import AppendEntries, RoundToCache, WriteWindow
from workloads.ops.collective import (
    AllGather,
    AllReduce,
    ExpertCombine,
    ExpertDispatch,
    ReduceScatter,
)
from workloads.ops.compressor import CompressPool
from workloads.ops.draft import Confidence, DraftTokens, StreamMeans
from workloads.ops.elementwise import Add, Embed, LastRows, Repeat, SwiGlu
from workloads.ops.experts import ExpertDown, ExpertUp, Route
from workloads.ops.hyper_connection import HcCollapse, HcExpand, HcHeadGate, HcSplit
from workloads.ops.indexer import IndexScore, TopK
from workloads.ops.latent import Concat, GroupedRoute, LatentAttention, LayerNorm
from workloads.ops.linear import GroupedLinear, Linear
from workloads.ops.norm import RmsNorm
from workloads.ops.rope import Rope

OPERATIONS: dict[str, type[Op]] = {
    "add": Add,
    "all_gather": AllGather,
    "all_reduce": AllReduce,
    "append_entries": AppendEntries,
    "compress_pool": CompressPool,
    "concat": Concat,
    "confidence": Confidence,
    "draft_tokens": DraftTokens,
    "embed": Embed,
    "expert_combine": ExpertCombine,
    "expert_dispatch": ExpertDispatch,
    "expert_down": ExpertDown,
    "expert_up": ExpertUp,
    "grouped_linear": GroupedLinear,
    "grouped_route": GroupedRoute,
    "hc_collapse": HcCollapse,
    "hc_expand": HcExpand,
    "hc_head_gate": HcHeadGate,
    "hc_split": HcSplit,
    "index_score": IndexScore,
    "last_rows": LastRows,
    "latent_attention": LatentAttention,
    "layer_norm": LayerNorm,
    "linear": Linear,
    "reduce_scatter": ReduceScatter,
    "repeat": Repeat,
    "rms_norm": RmsNorm,
    "rope": Rope,
    "round_to_cache": RoundToCache,
    "route": Route,
    "sparse_attention": SparseAttention,
    "stream_means": StreamMeans,
    "swi_glu": SwiGlu,
    "top_k": TopK,
    "write_window": WriteWindow,
}
