"""Our value of every published figure, by its number; lists are in the order of `claims.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import lcm

import numpy as np

from simulator.count.count import count_graph
from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.pools import Access
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from workloads.deepseek_v4.config import ModelConfig, find_model, model_from_mapping
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.deepseek_v32.config import find_v32
from workloads.deepseek_v32.graph import build_v32_graph, v32_state
from workloads.deepseek_v41 import V41_FLASH
from workloads.graph import Graph, Node
from workloads.ops.attention import SparseAttention
from workloads.ops.collective import BF16_BYTES_PER_VALUE, FP8_BYTES_PER_VALUE
from workloads.run_stats import RunStats
from workloads.state_layout import Every, Region, Ring, Tail
from workloads.step_shape import StepShape
from workloads.work import Work

# The last token of a key count, and the length of the comparison: past an HCA entry of 128 tokens.
TOKENS = 261
COMPARED = 140


@cache
def _golden() -> tuple[GoldenFile, ModelConfig]:
    golden = GoldenFile.load(shipped_golden_file())
    return golden, model_from_mapping(golden.config)


def keys_read() -> list[float]:
    """Keys that the last decode step reads in a window, a CSA and an HCA layer, from its log."""
    golden, config = _golden()
    evaluator = Evaluator(config, golden.weights, RequestTable(1, 512))
    row = evaluator.table.admit()
    evaluator.step([(row, golden.input_ids[: TOKENS - 1])])
    log: list[Access] = []
    record = ChoiceRecord()
    evaluator.step([(row, golden.input_ids[TOKENS - 1 : TOKENS])], choices=record, log=log)
    reads: dict[str, int] = {}
    for access in log:
        if access.path.endswith("attn/core") and not access.write:
            reads[access.region] = len(access.slots)
    kinds = config.layer_kinds
    window, csa, hca = (kinds.index(kind) for kind in ("swa", "csa", "hca"))
    picked = int((record.taken[f"layer{csa:02d}/attn/indexer/top_k", "top-k"][0] >= 0).sum())
    # The query's own row is the one key that is not read from the ring.
    own = 1
    return [
        reads[f"layer{window:02d}/attn/window"] + own,
        reads[f"layer{csa:02d}/attn/window"] + own + picked,
        reads[f"layer{hca:02d}/attn/window"] + own + reads[f"layer{hca:02d}/attn/c128"],
    ]


def decode_against_prefill() -> list[float]:
    """Largest logit difference in float32 over the largest logit; ids of the prefill run."""
    golden, config = _golden()
    ids = golden.input_ids[:COMPARED]
    recorded = ChoiceRecord()
    prefill = _runner(golden, config)
    whole = prefill.step([(prefill.table.admit(), ids)], choices=recorded).logits
    decode = _runner(golden, config)
    row = decode.table.admit()
    worst = 0.0
    for position, token in enumerate(ids):
        one = {key: [taken[0][position : position + 1]] for key, taken in recorded.taken.items()}
        step = decode.step([(row, [int(token)])], choices=ChoiceRecord(given=one))
        worst = max(worst, float(np.abs(step.logits[0] - whole[position]).max()))
    return [worst / float(np.abs(whole).max())]


def _runner(golden: GoldenFile, config: ModelConfig) -> Evaluator:
    table = RequestTable(1, 512)
    return Evaluator(config, golden.weights, table, dtype=np.float32, all_logits=True)


MODELS = ("v4-pro", "v4-flash")
MILLION = 10**6
MI = 2**20
GIB = 2**30


@cache
def decode_graph(model: str, context: int, index: str = "fp4") -> Graph:
    """One request's decode step."""
    step = StepShape.uniform(1, 1, context - 1)
    return build_graph(find_model(model), step, Precision(index=index))


def works(model: str, context: int) -> list[tuple[Node, Work]]:
    """Every node of a decode step with its demand."""
    graph, stats = decode_graph(model, context), RunStats()
    return [(node, graph.work(node, stats)) for node in graph.nodes]


def weighted_flops(model: str, context: int) -> float:
    """FP8-equivalent FLOP of one decode token."""
    return count_graph(decode_graph(model, context)).total.weighted_flops


def state(model: str, index: str = "fp4", kv: str = "fp8") -> list[Region]:
    """Cache regions of the backbone."""
    return list(model_state(find_model(model), Precision(index=index, kv=kv)).regions)


def growth(model: str, index: str = "fp4", kv: str = "fp8") -> float:
    """Cache bytes that one more token adds."""
    return model_state(find_model(model), Precision(index=index, kv=kv)).growth_bytes_per_token


def kv_bytes(model: str, context: int, index: str = "fp4", kv: str = "fp8") -> int:
    """Window and pools of one request, compressor rows left out."""
    regions = state(model, index, kv)
    return sum(r.resident_bytes(context) for r in regions if not isinstance(r.growth, Tail))


def cache_read_bytes(model: str, context: int) -> float:
    """Bytes of window and pools that one decode step reads."""
    graph = decode_graph(model, context)
    return sum(
        read.distinct * graph.regions[node.regions[read.region]].format.nbytes
        for node, work in works(model, context)
        for read in work.reads
        if not isinstance(graph.regions[node.regions[read.region]].growth, Tail)
    )


def core_flops(model: str, ratio: int, context: int) -> int:
    """FLOP of core attention of one query in a layer of that ratio."""
    return next(
        work.flops
        for node, work in works(model, context)
        if isinstance(node.op, SparseAttention) and node.op.ratio == ratio
    )


def core_keys(model: str, ratio: int, context: int) -> int:
    """Keys of one query in a layer of that ratio."""
    step = StepShape.uniform(1, 1, context - 1)
    return next(
        node.op.pairs(step)
        for node in decode_graph(model, context).nodes
        if isinstance(node.op, SparseAttention) and node.op.ratio == ratio
    )


def index_flops(context: int) -> int:
    """FLOP of index scores of one query and CSA layer."""
    return next(
        w.flops for node, w in works("v4-pro", context) if node.path.endswith("indexer/score")
    )


def parameters(model: str) -> tuple[float, float]:
    """(all, active for one token) parameters of backbone, embedding and head.

    One token meets its picked experts and one row of the embedding.
    """
    config = find_model(model)
    total = active = 0.0
    for name, param in decode_graph(model, MI).params.items():
        if name.endswith("tid2eid"):
            continue
        total += param.size
        share = 1.0
        if param.has("experts"):
            share = config.num_experts_per_tok / config.n_routed_experts
        elif name == "embed/table":
            share = 1 / config.vocab_size
        active += param.size * share
    return total, active


def checkpoint_bytes(model: str) -> int:
    """Stored weights with the MTP layer."""
    step = StepShape.uniform(1, 1, 0)
    return build_graph(find_model(model), step, Precision(), mtp=True).weight_bytes


def weights_read(model: str) -> int:
    """Weight bytes of one decode step at batch 1."""
    return count_graph(decode_graph(model, MI)).total.weight_bytes


def replay(config: ModelConfig) -> tuple[int, int, int]:
    """(bound, reach, rows) of exact replay: each layer needs one window less than the one below.

    The last layer needs its window of n rows; a layer below must supply the windows of all of
    them, n - 1 more: so the first needs n + (L - 1)(n - 1) tokens, and rows are the sum.
    """
    window, layers = config.sliding_window, config.num_hidden_layers
    reach = window + (layers - 1) * (window - 1)
    rows = sum(window + layer * (window - 1) for layer in range(layers))
    return window * layers, reach, rows


def page_bytes(region: Region, block_tokens: int = 256, padding: int = 576) -> int:
    """Bytes of a region's page for a block of tokens, padded up."""
    raw = region.growth.entries(block_tokens) * region.format.nbytes
    return -(-raw // padding) * padding


def _layer_counts() -> list[float]:
    counts: list[float] = []
    for model in MODELS:
        kinds = find_model(model).layer_kinds
        counts += [kinds.count(kind) for kind in ("swa", "csa", "hca")]
    return [*counts, find_model("v4-pro").mtp_stages[0].ratio]


def v32_flops(context: int) -> float:
    """FP8-equivalent FLOP of one decode token of V3.2, counted on its graph."""
    graph = build_v32_graph(find_v32(), StepShape.uniform(1, 1, context - 1))
    return count_graph(graph).total.weighted_flops


def v32_growth(kv: str = "fp8") -> float:
    """Cache bytes that a token adds to a request of V3.2."""
    return v32_state(find_v32(), kv).growth_bytes_per_token


def _ratios_to_v32(context: int) -> list[float]:
    v32 = v32_flops(context)
    return [weighted_flops(model, context) / v32 * 100 for model in MODELS]


def _window_against_main() -> list[float]:
    values = []
    for model in MODELS:
        regions = state(model)
        window = sum(r.format.nbytes for r in regions if isinstance(r.growth, Ring) and _raw(r))
        main = sum(
            r.format.nbytes / r.growth.tokens
            for r in regions
            if isinstance(r.growth, Every) and r.kind != "csa_index"
        )
        values.append(window / main)
    return values


def _raw(region: Region) -> bool:
    return region.pool == "window"


def _fixed_state_mib() -> list[float]:
    layouts = [model_state(find_model(model), Precision()) for model in MODELS]
    return [layout.fixed_bytes / 2**20 for layout in layouts]


def _prefill_pairs() -> list[float]:
    step = StepShape.uniform(1, 65536, 0)
    return [
        step.window_pairs(128),
        step.entry_pairs(4),
        step.picked_pairs(4, 512),
        step.picked_pairs(4, 1024),
        step.entry_pairs(128),
    ]


def _page_bytes() -> list[float]:
    regions = {r.pool: r for r in state("v4-pro", index="fp8")}
    return [page_bytes(regions[pool]) for pool in ("c4", "c4_index", "c128")]


def _block() -> list[float]:
    block = lcm(*(r.growth.tokens for r in state("v4-pro") if isinstance(r.growth, Every)))
    return [block, block // 4, block // 128]


def _replays() -> list[float]:
    bounds: list[float] = []
    shares: list[float] = []
    for model in MODELS:
        config = find_model(model)
        bound, reach, rows = replay(config)
        bounds += [bound, reach]
        shares.append(rows / (bound * config.num_hidden_layers) * 100)
    return bounds + shares


def _balance() -> list[float]:
    config = find_model("v4-pro")
    flops = 6 * config.hidden_size * config.moe_intermediate_size
    return [flops / (config.hidden_size * (FP8_BYTES_PER_VALUE + BF16_BYTES_PER_VALUE))]


def _growth_v41() -> list[float]:
    return [V41_FLASH.growth_bytes_per_token]


FIGURES: dict[int, Callable[[], list[float]]] = {
    1: _layer_counts,
    2: lambda: [value / 1e9 for model in MODELS for value in parameters(model)],
    3: lambda: [checkpoint_bytes("v4-pro") / GIB],
    4: lambda: _ratios_to_v32(MILLION),
    5: lambda: [v32_growth() / growth(model) for model in MODELS],
    6: lambda: [
        growth(model) / (find_model(model).num_hidden_layers * 2 * 8 * 128 * 2) * 100
        for model in MODELS
    ],
    7: lambda: [growth(model) for model in MODELS],
    8: lambda: [growth(model, index="fp8") for model in MODELS],
    9: lambda: [kv_bytes(model, MI) / GIB for model in MODELS],
    10: lambda: [
        *(growth(model, index="bf16", kv="bf16") * MI / GIB for model in MODELS),
        v32_growth("bf16") * MI / GIB,
    ],
    11: lambda: [v32_growth() * MI / GIB],
    12: _window_against_main,
    13: _fixed_state_mib,
    14: keys_read,
    15: lambda: [core_keys(model, 4, MI) for model in MODELS],
    16: lambda: [core_keys("v4-pro", 128, MI)],
    17: lambda: [core_flops(m, ratio, MI) / 1e6 for m in MODELS for ratio in (4, 128)],
    18: lambda: [index_flops(MI) / 1e9],
    19: _prefill_pairs,
    20: _page_bytes,
    21: _block,
    22: _replays,
    23: _balance,
    25: _growth_v41,
    27: lambda: [cache_read_bytes(model, MI) / 1e6 for model in MODELS],
    28: lambda: [weights_read(model) / 1e9 for model in MODELS],
    29: decode_against_prefill,
    30: lambda: [
        v32_flops(131072) / 1e9,
        *(weighted_flops(model, 131072) / 1e9 for model in MODELS),
    ],
}
