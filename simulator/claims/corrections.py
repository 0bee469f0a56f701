"""Right values of the statements in `statements.yaml`, by key."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

from simulator.claims.figures import (
    MI,
    MILLION,
    core_flops,
    growth,
    replay,
    state,
)
from simulator.count.count import count_graph
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v32.config import find_v32
from workloads.deepseek_v32.graph import build_v32_graph
from workloads.index_entry import Fp4IndexEntry, Fp8IndexEntry
from workloads.state_layout import Every, Region
from workloads.step_shape import StepShape


def _regions() -> dict[str, Region]:
    return {region.pool: region for region in state("v4-pro")}


def _v32_attention() -> list[float]:
    graph = build_v32_graph(find_v32(), StepShape.uniform(1, 1, MI - 1))
    cores = [n.tally for n in count_graph(graph).nodes if n.local_path == "attn/core"]
    return [sum(cores[0].flops.values())]


def _hca_share() -> list[float]:
    counts: list[float] = []
    for model in ("v4-pro", "v4-flash"):
        kinds = find_model(model).layer_kinds
        counts += [kinds.count("hca"), len(kinds)]
    return counts


def _visible() -> list[float]:
    query = 3
    return [StepShape.uniform(1, 1, query).entry_pairs(4), query // 4]


def _state_rows() -> list[float]:
    regions = _regions()
    csa, hca = regions["c4_state"], regions["c128_state"]
    assert regions["c4_index_state"].growth.tokens == csa.growth.tokens
    return [csa.growth.tokens, csa.format.nbytes, hca.growth.tokens]


def _layer_megabytes() -> list[float]:
    regions = _regions()
    c4, index, c128 = (
        regions[pool].resident_bytes(MI) / 1e6 for pool in ("c4", "c4_index", "c128")
    )
    return [c4, c4 + index, c128]


def _window_ratios() -> list[float]:
    regions = state("v4-pro")
    window = sum(r.format.nbytes for r in regions if r.pool == "window")
    index = sum(
        r.format.nbytes / r.growth.tokens
        for r in regions
        if r.kind == "csa_index" and isinstance(r.growth, Every)
    )
    return [window / (growth("v4-pro") - index), window / growth("v4-pro")]


def _index_bytes() -> list[float]:
    dim = find_model("v4-pro").index_head_dim
    return [Fp4IndexEntry(dim).nbytes, Fp8IndexEntry(dim).nbytes]


def _index_query_weights() -> list[float]:
    config = find_model("v4-pro")
    return [config.q_lora_rank * config.index_n_heads * config.index_head_dim / 1e6]


CORRECTIONS: dict[str, Callable[[], list[float]]] = {
    "a": lambda: [core_flops("v4-pro", 4, MI)],
    "b": _v32_attention,
    "c": lambda: [MILLION / 128, MI / 128],
    "d": lambda: [core_flops("v4-pro", 128, MI)],
    "e": _hca_share,
    "f": _visible,
    "g": _state_rows,
    "h": _index_bytes,
    "i": _layer_megabytes,
    "j": lambda: [lcm(*(r.growth.tokens for r in state("v4-pro") if isinstance(r.growth, Every)))],
    "k": _window_ratios,
    "l": lambda: list(replay(find_model("v4-pro"))),
    "n": lambda: [find_model(m).index_topk for m in ("v4-pro", "v4-flash")],
    "r": _index_query_weights,
    "s": lambda: [2 * 4, 4],
}
