"""Parameters, FLOP and bytes of the V4 graphs against the published and derived tables.

Conventions: context n means that the query stands at position n - 1; GF and GB are 1e9; 1 M is
2^20; tables are compared to half a unit of their last digit.
"""

from functools import cache

import pytest

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.ops import (
    HcSplit,
    IndexScore,
    Linear,
    RmsNorm,
    Rope,
    SparseAttention,
    SwiGlu,
    TopK,
)
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.work import FLOP_WEIGHTS

MODELS = ("v4-pro", "v4-flash")
KINDS = {"v4-pro": {"hca": 31, "csa": 30}, "v4-flash": {"swa": 2, "csa": 21, "hca": 20}}
# A layer of each kind that routes by score: the first three look experts up by token id.
LAYER_OF = {
    "v4-pro": {"csa": "layer04", "hca": "layer03"},
    "v4-flash": {"csa": "layer04", "hca": "layer03", "swa": "layer01"},
}
FP4_INDEX = Precision(index="fp4")
CONTEXTS = (4096, 8192, 32_768, 65_536, 131_072, 262_144, 524_288, 2**20)


@cache
def decode(model, n=2**20, batch=1, mtp=False, precision=FP4_INDEX):
    return build_graph(find_model(model), StepShape.uniform(batch, 1, n - 1), precision, mtp=mtp)


@cache
def works(graph_key):
    """(node, demand) of every node of `decode(*graph_key)`."""
    graph = decode(*graph_key)
    return tuple((node, graph.work(node, RunStats())) for node in graph.nodes)


def flops(pairs, scope="", *parts):
    """FLOP of the nodes of a layer whose local path ends in one of the parts."""
    return sum(
        work.flops
        for node, work in pairs
        if (not scope or node.scope == scope) and node.local_path.endswith(parts or ("",))
    )


def million(graph, *names):
    return sum(graph.params[name].size for name in names) / 1e6


def digits(value, places):
    """Within half a unit of the last printed digit."""
    return pytest.approx(value, abs=0.5 * 10**-places * 1.001)


# --- parameters ---------------------------------------------------------------------------------

PER_LAYER = {
    "attn/wq_a": (11.01, 4.19),
    "attn/wq_b": (100.66, 33.55),
    "attn/wkv": (3.67, 2.10),
    "attn/wo_a": (67.11, 33.55),
    "attn/wo_b": (117.44, 33.55),
    "moe/gate": (2.75, 1.05),
}
PER_CSA_LAYER = {
    ("attn/compressor/wkv", "attn/compressor/wgate"): (14.68, 8.39),
    ("attn/indexer/wq_b",): (12.58, 8.39),
    ("attn/indexer/compressor/wkv", "attn/indexer/compressor/wgate"): (3.67, 2.10),
}
EXPERT = {"v4-pro": 66_060_288, "v4-flash": 25_165_824}  # 3 d inter


@pytest.mark.parametrize("model", MODELS)
def test_parameters_of_a_layer(model):
    column, graph = MODELS.index(model), decode(model)
    for kind, layer in LAYER_OF[model].items():
        for name, size in PER_LAYER.items():
            assert million(graph, f"{layer}/{name}") == digits(size[column], 2), (kind, name)
        hc = million(graph, f"{layer}/attn_hc/fn", f"{layer}/moe_hc/fn")
        assert hc == digits((1.38, 0.79)[column], 2)
        routed = million(graph, f"{layer}/moe/w13", f"{layer}/moe/w2")
        assert routed == digits((25_367, 6_442)[column], 0)
        assert routed * 1e6 == (384, 256)[column] * EXPERT[model]
        shared = million(graph, f"{layer}/moe/shared/w13", f"{layer}/moe/shared/w2")
        assert shared * 1e6 == EXPERT[model]
    base = [f"layer04/attn/{name}" for name in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")]
    assert million(graph, *base) == digits((299.89, 106.95)[column], 2)
    for names, size in PER_CSA_LAYER.items():
        assert million(graph, *(f"layer04/{name}" for name in names)) == digits(size[column], 2)
    assert million(graph, "layer04/attn/indexer/weights") == digits((0.459, 0.262)[column], 3)
    hca = million(graph, "layer03/attn/compressor/wkv", "layer03/attn/compressor/wgate")
    assert hca == digits((7.34, 4.19)[column], 2)
    for name in ("embed/table", "head/weight"):
        assert million(graph, name) == digits((926.7, 529.5)[column], 1)


MODEL_SUMS = {  # billions
    ("attn/wq_a", "attn/wq_b", "attn/wkv", "attn/wo_a", "attn/wo_b"): (18.293, 4.599),
    ("attn/compressor/wkv", "attn/compressor/wgate"): (0.668, 0.260),
    ("indexer/wq_b", "indexer/weights", "indexer/compressor/wkv", "indexer/compressor/wgate"): (
        0.501,
        0.226,
    ),
    ("moe/w13", "moe/w2"): (1547.396, 277.025),
    ("shared/w13", "shared/w2"): (4.030, 1.082),
    ("moe/gate",): (0.168, 0.045),
    ("attn_hc/fn", "moe_hc/fn"): (0.084, 0.034),
}


@pytest.mark.parametrize("model", MODELS)
def test_parameters_of_the_model_by_component(model):
    graph = decode(model)
    for ends, billions in MODEL_SUMS.items():
        names = [
            name
            for name in graph.params
            if name.startswith("layer")
            and any(name.partition("/")[2] in (end, f"attn/{end}", f"moe/{end}") for end in ends)
        ]
        total = million(graph, *names) / 1e3
        assert total == digits(billions[MODELS.index(model)], 3), ends


@pytest.mark.parametrize(
    ("model", "total", "active"), [("v4-pro", 1573.0, 48.85), ("v4-flash", 284.33, 13.27)]
)
def test_total_and_active_parameters(model, total, active):
    graph, config = decode(model), find_model(model)
    whole = sum(t.size for t in graph.params.values()) / 1e9
    assert whole == pytest.approx(total, abs=0.01 if model == "v4-flash" else 0.05)
    # A token meets every tensor but the embedding table, and its share of the routed experts.
    share = config.num_experts_per_tok / config.n_routed_experts
    used = sum(
        t.size * (share if name.endswith(("moe/w13", "moe/w2")) else 1)
        for name, t in graph.params.items()
        if name != "embed/table" and not name.endswith("tid2eid")
    )
    assert used / 1e9 == pytest.approx(active, abs=0.01)


@pytest.mark.parametrize(
    ("model", "gb", "gib", "mtp_gb", "with_mtp"),
    [("v4-pro", 864.7, 805.3, 13.96, 1599), ("v4-flash", 159.6, 148.6, 3.59, None)],
)
def test_checkpoint_bytes_with_the_prediction_layer(model, gb, gib, mtp_gb, with_mtp):
    graph = decode(model, mtp=True)
    assert graph.weight_bytes / 1e9 == digits(gb, 1)
    assert graph.weight_bytes / 2**30 == pytest.approx(gib, abs=0.05)
    mtp = sum(t.nbytes for name, t in graph.params.items() if name.startswith("mtp/"))
    assert mtp / 1e9 == digits(mtp_gb, 2)
    assert graph.weight_bytes - mtp == decode(model).weight_bytes
    if with_mtp:
        assert sum(t.size for t in graph.params.values()) / 1e9 == digits(with_mtp, 0)


STORED = {
    "fp8": "attn/wq_a attn/wq_b attn/wkv attn/wo_a attn/wo_b indexer/wq_b shared/w13 shared/w2"
    " mtp/e_proj mtp/h_proj",
    "fp4": "moe/w13 moe/w2",
    "bf16": "embed/table head/weight moe/gate compressor/wkv compressor/wgate indexer/weights"
    " norm q_norm kv_norm enorm hnorm",
    "fp32": "compressor/ape attn/sink fn base scale moe/bias",
    "int64": "moe/tid2eid",
}


def test_stored_formats_of_every_tensor():
    graph = decode("v4-flash", mtp=True)
    formats = {end: dtype for dtype, ends in STORED.items() for end in ends.split()}
    used = set()
    for name, tensor in graph.params.items():
        end = name.split("/")
        key = "/".join(end[-2:]) if "/".join(end[-2:]) in formats else end[-1]
        assert tensor.dtype.name == formats[key], name
        used.add(key)
    assert used == set(formats)
    assert graph.params["layer04/attn/wq_b"].dtype.block == (128, 128)
    assert graph.params["layer04/moe/w13"].dtype.block == (1, 32)


def test_repacked_experts_are_a_byte_a_weight():
    graph = decode("v4-flash", precision=Precision(expert="fp8"))
    up = graph.params["layer04/moe/w13"]
    assert up.nbytes == 256 * (4096 * 4096 + 32 * 32)
    work = dict((n.path, w) for n, w in works(("v4-flash", 2**20, 1, False, Precision("fp8"))))
    assert set(work["layer04/moe/up"].macs) == {"fp8"}


# --- FLOP ---------------------------------------------------------------------------------------

BASE = ("wq_a", "attn/wq_b", "attn/wkv", "wo_a", "wo_b")
EXPERTS = ("moe/up", "moe/down", "shared/up", "shared/down")


@pytest.mark.parametrize("model", MODELS)
def test_flops_of_a_token_and_layer_in_millions(model):
    column, pairs = MODELS.index(model), works((model,))
    for layer in LAYER_OF[model].values():
        assert flops(pairs, layer, *BASE) / 1e6 == digits((599.8, 213.9)[column], 1)
        assert flops(pairs, layer, *EXPERTS) / 1e6 == digits((924.8, 352.3)[column], 1)
        assert flops(pairs, layer, "moe/gate") / 1e6 == digits((5.5, 2.1)[column], 1)
        hc = flops(pairs, layer, "hc/project") / 1e6
        assert hc == digits((2.75, 1.57)[column], 2)
    main = ("attn/compressor/wkv", "attn/compressor/wgate")
    index = ("indexer/compressor/wkv", "indexer/compressor/wgate")
    assert flops(pairs, "layer04", *main) / 1e6 == digits((29.4, 16.8)[column], 1)
    assert flops(pairs, "layer04", *index) / 1e6 == digits((7.3, 4.2)[column], 1)
    assert flops(pairs, "layer04", "indexer/wq_b") / 1e6 == digits((25.2, 16.8)[column], 1)
    assert flops(pairs, "layer04", "indexer/weights") / 1e6 == digits((0.92, 0.52)[column], 2)
    assert flops(pairs, "layer03", *main) / 1e6 == digits((14.7, 8.4)[column], 1)
    assert flops(pairs, "head", "logits") / 1e6 == digits((1853, 1059)[column], 0)
    assert flops(pairs, "layer04", "indexer/score") == 4096 * 2**20


CORE = {"v4-pro": (302.0, 2181.0, 33.6), "v4-flash": (83.9, 1090.5, 16.8)}


@pytest.mark.parametrize("model", MODELS)
def test_core_attention_of_a_token_in_millions(model):
    csa, hca, window = CORE[model]
    pairs = works((model, 2**20, 1, True))
    assert flops(pairs, "layer04", "attn/core") / 1e6 == digits(csa, 1)
    assert flops(pairs, "layer03", "attn/core") / 1e6 == digits(hca, 1)
    assert flops(pairs, "mtp", "attn/core") / 1e6 == digits(window, 1)
    if model == "v4-flash":
        assert flops(pairs, "layer00", "attn/core") / 1e6 == digits(window, 1)


@pytest.mark.parametrize(
    ("model", "heads", "top_k"), [("v4-pro", 128, 1024), ("v4-flash", 64, 512)]
)
@pytest.mark.parametrize("n", [1, 3, 4, 127, 128, 2047, 2048, 4096, 131_072, 2**20])
def test_keys_that_a_query_sees(model, heads, top_k, n):
    pairs = works((model, n))
    visible = {"swa": 0, "csa": min(n // 4, top_k), "hca": n // 128}
    for kind, layer in LAYER_OF[model].items():
        keys = min(n, 128) + visible[kind]
        assert flops(pairs, layer, "attn/core") == 4 * heads * 512 * keys
    assert flops(pairs, "layer04", "indexer/score") == 2 * 64 * 128 * (n // 4)


@pytest.mark.parametrize(("model", "hca_beats_csa"), [("v4-pro", 131_072), ("v4-flash", 65_536)])
def test_hca_overtakes_csa_where_it_sees_more_than_the_picks(model, hca_beats_csa):
    for n, more in ((hca_beats_csa, False), (hca_beats_csa + 128, True)):
        pairs = works((model, n))
        assert (flops(pairs, "layer03", "attn/core") > flops(pairs, "layer04", "attn/core")) is more


RAW = {  # GF of a token at 2^20
    "v4-pro": {"fp8": 93.76, "gate": 0.34, "hc": 0.17, "compress": 1.58, "core": 76.67,
               "index": 128.85, "head": 1.85},
    "v4-flash": {"fp8": 24.70, "gate": 0.09, "hc": 0.07, "compress": 0.62, "core": 23.61,
                 "index": 90.19, "head": 1.06},
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_flops_of_a_token_by_term_and_class(model):
    pairs, raw = works((model,)), RAW[model]

    def billions(classes, *ends):
        return sum(
            2 * macs / 1e9
            for node, work in pairs
            if node.local_path.endswith(ends or ("",))
            for math, macs in work.macs.items()
            if math in classes
        )

    assert billions({"fp8", "fp8xfp4"}) == digits(raw["fp8"], 2)
    assert billions({"fp8xfp4"}) == pytest.approx(billions({"fp8xfp4"}, "moe/up", "moe/down"))
    assert billions({"bf16"}, "moe/gate") == digits(raw["gate"], 2)
    assert billions({"fp32"}) == digits(raw["hc"], 2)
    compress = ("compressor/wkv", "compressor/wgate", "indexer/weights")
    assert billions({"bf16"}, *compress) == digits(raw["compress"], 2)
    assert billions({"bf16"}, "attn/core") == digits(raw["core"], 2)
    assert billions({"fp4_index"}) == digits(raw["index"], 2)
    assert billions({"bf16"}, "logits") == digits(raw["head"], 2)
    everything = sum(work.flops for _, work in pairs) / 1e9
    assert everything == pytest.approx(sum(raw.values()), abs=0.04)


def weighted(model, n):
    """FP8-equivalent GF of a token at context n."""
    return sum(
        FLOP_WEIGHTS[math] * 2 * macs / 1e9
        for _, work in works((model, n))
        for math, macs in work.macs.items()
    )


CURVE = {
    4096: (122.6, 33.0), 8192: (123.4, 33.3), 32_768: (128.0, 35.4), 65_536: (134.2, 38.1),
    131_072: (146.5, 43.6), 262_144: (171.2, 54.6), 524_288: (220.6, 76.7),
    10**6: (310.2, 116.6), 2**20: (319.4, 120.7),
}  # fmt: skip


@pytest.mark.parametrize(("n", "expected"), CURVE.items())
def test_weighted_flops_of_a_token(n, expected):
    assert weighted("v4-pro", n) == digits(expected[0], 1)
    assert weighted("v4-flash", n) == digits(expected[1], 1)


PREFILL_PAIRS = {  # window, index, picks of 512, picks of 1024, HCA
    8192: (1_040_448, 8_386_560, 3_669_504, 6_290_432, 258_112),
    2**20: (134_209_600, 137_438_691_328, 536_346_112, 1_071_643_648, 4_294_451_200),
}


@pytest.mark.parametrize(("s", "sums"), PREFILL_PAIRS.items())
@pytest.mark.parametrize(("model", "heads"), [("v4-pro", 128), ("v4-flash", 64)])
def test_prefill_of_a_whole_prompt(model, heads, s, sums):
    graph = build_graph(find_model(model), StepShape(((s, 0),)), FP4_INDEX)
    pairs = [(node, graph.work(node, RunStats())) for node in graph.nodes]
    window, index, picks_flash, picks_pro, hca = sums
    picks = picks_pro if model == "v4-pro" else picks_flash
    assert flops(pairs, "layer04", "attn/core") == 4 * heads * 512 * (window + picks)
    assert flops(pairs, "layer03", "attn/core") == 4 * heads * 512 * (window + hca)
    assert flops(pairs, "layer04", "indexer/score") == 16_384 * index
    assert flops(pairs, "layer04", "wq_a") == s * flops(works((model,)), "layer04", "wq_a")
    assert flops(pairs, "head", "logits") == flops(works((model,)), "head", "logits")


# --- bytes --------------------------------------------------------------------------------------


def weight_bytes(pairs):
    """Parameter bytes, norm weights (some 20 KB a layer) left out as in the published sums."""
    return sum(sum(w.param_bytes) for node, w in pairs if not isinstance(node.op, RmsNorm))


def weight_gb(model, batch, stats):
    graph = decode(model, 4096, batch)
    return weight_bytes((node, graph.work(node, stats)) for node in graph.nodes) / 1e9


@pytest.mark.parametrize(
    ("batch", "pro", "flash", "places"),
    [(1, 39.66, 11.22, 2), (8, 124.1, 33.2, 1), (64, 548.8, 122.7, 1), (256, 834.3, 154.6, 1)],
)
def test_weight_bytes_of_a_step(batch, pro, flash, places):
    assert weight_gb("v4-pro", batch, RunStats()) == digits(pro, places)
    assert weight_gb("v4-flash", batch, RunStats()) == digits(flash, places)


def test_weight_bytes_with_all_experts_touched():
    everything = RunStats(distinct_experts=1e9)
    assert weight_gb("v4-pro", 1, everything) == digits(848.9, 1)
    assert weight_gb("v4-flash", 1, everything) == digits(154.9, 1)


@pytest.mark.parametrize(
    ("model", "megabytes"),
    [("v4-pro", {"csa": 637.8, "hca": 602.5}), ("v4-flash", {"csa": 247.5, "hca": 226.2,
                                                             "swa": 217.6})],
)  # fmt: skip
def test_weight_bytes_of_a_layer_at_batch_one(model, megabytes):
    for kind, expected in megabytes.items():
        layer = LAYER_OF[model][kind]
        read = weight_bytes(pair for pair in works((model,)) if pair[0].scope == layer)
        assert read / 1e6 == digits(expected, 1), kind


def cache_read(model, n, pools=("window", "c4", "c4_index", "c128")):
    """MB of cache entries that a decode step at context n reads for one sequence."""
    graph = decode(model, n)
    total = 0.0
    for node, work in works((model, n)):
        for read in work.reads:
            region = graph.regions[node.regions[read.region]]
            if region.pool in pools:
                total += read.distinct * region.format.nbytes
    return total / 1e6


READ_AND_RESIDENT = {
    4096: (25.2, 25.2, 11.3, 17.6), 8192: (27.8, 45.8, 13.2, 32.0),
    32_768: (43.8, 169.4, 24.2, 118.4), 65_536: (65.2, 334.3, 38.9, 233.5),
    131_072: (107.9, 664.0, 68.2, 463.8), 262_144: (193.3, 1323.5, 127.0, 924.5),
    524_288: (364.0, 2642.5, 244.5, 1845.7), 2**20: (705.6, 5280.4, 479.5, 3688.2),
}  # fmt: skip


@pytest.mark.parametrize(("n", "row"), READ_AND_RESIDENT.items())
def test_cache_bytes_read_and_resident_of_a_decode_step(n, row):
    for model, read, resident in (("v4-pro", *row[:2]), ("v4-flash", *row[2:])):
        assert cache_read(model, n) == digits(read, 1)
        pools = decode(model, n).state_layout.by_pool(n)
        kept = sum(pools[pool] for pool in ("window", "c4", "c4_index", "c128"))
        assert kept / 1e6 == digits(resident, 1)


def test_cache_bytes_read_follow_the_formula():
    swa, csa, hca, top_k = 2, 21, 20, 512
    for n in (*CONTEXTS, 5, 127, 129, 2051):
        expected = (
            (swa + csa + hca) * 584 * min(n, 128)
            + csa * (68 * (n // 4) + 584 * min(top_k, n // 4))
            + hca * 584 * (n // 128)
        )
        assert cache_read("v4-flash", n) == pytest.approx(expected / 1e6, rel=1e-12)


def test_most_of_a_long_read_is_index_keys():
    assert cache_read("v4-pro", 2**20, ("c4_index",)) == digits(534.8, 1)
    assert cache_read("v4-pro", 2**20, ("c4_index",)) / cache_read("v4-pro", 2**20) == digits(
        0.76, 2
    )


# --- structure ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_layers_and_their_kinds(model):
    kinds = decode(model, mtp=True).kinds
    counts = {kind: list(kinds.values()).count(kind) for kind in set(kinds.values())}
    assert counts == KINDS[model] | {"embed": 1, "head": 1, "mtp": 1}
    first = {"v4-pro": ["hca", "hca"], "v4-flash": ["swa", "swa"]}[model]
    assert [kinds[f"layer{i:02d}"] for i in range(6)] == [*first, "csa", "hca", "csa", "hca"]
    scopes = [scope for scope, _ in decode(model, mtp=True).scopes()]
    assert scopes == list(kinds)


def test_hash_layers_route_by_token_id_and_still_run_the_gate():
    graph = decode("v4-flash")
    for layer in range(5):
        name = f"layer{layer:02d}/moe"
        assert (f"{name}/tid2eid" in graph.params) == (layer < 3)
        assert (f"{name}/bias" in graph.params) == (layer >= 3)
        assert f"{name}/gate" in graph.params
    assert graph.params["layer00/moe/tid2eid"].shape == (129_280, 6)


def test_rotations_by_kind_of_layer():
    graph = decode("v4-flash", mtp=True)
    kinds = {"layer01": "plain", "mtp": "plain", "layer03": "yarn", "layer04": "yarn"}
    for scope, kind in kinds.items():
        ropes = [node for node in graph.nodes if node.scope == scope and isinstance(node.op, Rope)]
        for node in ropes:
            table = node.op.table
            assert table.dims == 64
            if kind == "plain":
                assert (table.theta, table.factor) == (10_000, 1)
            else:
                assert (table.theta, table.factor) == (160_000, 16)
                assert table.original_positions == 65_536
                assert (table.beta_fast, table.beta_slow) == (32, 1)
            ratio = {"layer03": 128, "layer04": 4}.get(scope, 0)
            assert node.op.ratio == (ratio if "compressor" in node.path else 0)
            assert node.op.inverse == node.path.endswith("out_rope")
        assert len(ropes) == {"layer03": 4, "layer04": 6}.get(scope, 3)


def test_constants_of_the_operations():
    nodes = {node.path: node.op for node in decode("v4-pro").nodes}
    assert nodes["layer04/attn/core"] == SparseAttention(128, 4, 1024)
    assert nodes["layer03/attn/core"] == SparseAttention(128, 128, 0)
    assert nodes["layer04/attn/indexer/score"] == IndexScore(4, "fp4_index")
    assert nodes["layer04/attn/indexer/top_k"] == TopK(4, 1024)
    weights = nodes["layer04/attn/indexer/weights"]
    assert isinstance(weights, Linear)
    assert weights.scale == digits(0.0110485, 7)
    assert nodes["layer04/attn_hc/split"] == HcSplit(4, 20, 1e-6)
    assert nodes["layer04/moe/act"] == nodes["layer04/moe/shared/act"] == SwiGlu(10.0)
    assert nodes["layer04/attn/q_head_norm"] == RmsNorm(1e-6)
    route = nodes["layer04/moe/route"]
    assert (route.per_token, route.scale, route.normalise) == (6, 2.5, True)
    flash = {node.path: node.op for node in decode("v4-flash").nodes}
    assert flash["layer04/moe/route"].scale == 1.5


def test_the_indexer_shares_the_query_latent():
    nodes = {node.path: node for node in decode("v4-flash").nodes}
    assert nodes["layer04/attn/indexer/wq_b"].inputs == nodes["layer04/attn/wq_b"].inputs
    assert nodes["layer04/attn/wq_b"].inputs == ("layer04/attn/q_norm",)


def test_the_window_is_read_before_the_chunk_is_written_and_entries_after():
    graph = decode("v4-flash")
    paths = [node.path for node in graph.nodes]
    core = paths.index("layer04/attn/core")
    assert paths.index("layer04/attn/window_write") > core
    for path in ("compressor/append", "indexer/compressor/append"):
        assert paths.index(f"layer04/attn/{path}") < core
    score = paths.index("layer04/attn/indexer/score")
    assert paths.index("layer04/attn/indexer/compressor/append") < score


def test_the_prediction_layer_shares_embedding_and_head():
    without, graph = decode("v4-flash"), decode("v4-flash", mtp=True)
    assert (without.outputs, graph.outputs) == (
        ("head/logits",),
        ("head/logits", "mtp/logits"),
    )
    assert "next_ids" not in without.values
    assert not any(node.scope == "mtp" for node in without.nodes)
    assert graph.nodes[: len(without.nodes)] == without.nodes
    nodes = {node.path: node for node in graph.nodes}
    assert nodes["mtp/tokens"].params == ("embed/table",)
    assert nodes["mtp/logits"].params == ("head/weight",)
    assert nodes["mtp/hnorm"].inputs == nodes["head/last_rows"].inputs
    assert graph.values["mtp/h_proj"].shape == (1, 4, 4096)
    assert graph.values["mtp/e_proj"].shape == (1, 4096)
    added = set(graph.regions) - set(without.regions)
    assert added == {"mtp/attn/window"}
    assert "mtp/moe/bias" in graph.params


def test_logits_of_the_last_rows_or_of_all():
    step, config = StepShape(((6, 0), (3, 3), (1, 130))), find_model("v4-flash")
    last = build_graph(config, step)
    assert last.values["head/logits"].axes == (("requests", 3), ("vocab", 129_280))
    every = build_graph(config, step, all_logits=True)
    assert every.values["head/logits"].axes == (("tokens", 10), ("vocab", 129_280))


def test_the_clamp_of_the_shared_expert_is_a_switch():
    graph = build_graph(
        find_model("v4-flash"), StepShape.uniform(1, 1, 0), clamp_shared_expert=False
    )
    nodes = {node.path: node.op for node in graph.nodes}
    assert nodes["layer04/moe/shared/act"] == SwiGlu(None)
    assert nodes["layer04/moe/act"] == SwiGlu(10.0)


@pytest.mark.parametrize("model", MODELS)
def test_everything_that_is_bound_is_used(model):
    graph = decode(model, mtp=True)
    consumed = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    discarded = set(graph.values) - consumed
    assert discarded == set()
    assert {name for node in graph.nodes for name in node.params} == set(graph.params)
    for name, region in graph.regions.items():
        assert any(name in node.updates for node in graph.nodes), name
        if region.pool in ("window", "c4", "c4_index", "c128"):
            touched = [w for n, w in works((model, 2**20, 1, True)) if name in n.regions]
            assert any(work.reads for work in touched), name
            assert any(work.appends for work in touched), name


def test_a_ragged_step_asks_for_the_sum_of_its_requests():
    """Products, reads and writes add up over the requests of a batch."""
    requests = ((6, 0), (3, 3), (1, 130), (200, 1000))
    config = find_model("tiny")
    whole = build_graph(config, StepShape(requests))
    alone = [build_graph(config, StepShape((request,))) for request in requests]
    for nodes in zip(whole.nodes, *(graph.nodes for graph in alone), strict=True):
        total, *parts = (
            graph.work(node, RunStats()) for graph, node in zip((whole, *alone), nodes, strict=True)
        )
        assert total.flops == sum(part.flops for part in parts), nodes[0].path
        for kind in ("reads", "appends"):
            counts = [[a.entries for a in getattr(work, kind)] for work in (total, *parts)]
            assert counts[0] == [sum(column) for column in zip(*counts[1:], strict=True)]


def three_stages():
    return find_model("v4-flash").model_copy(update={"num_nextn_predict_layers": 3})


def test_every_prediction_layer_has_weights_of_its_own_and_reads_the_one_before():
    one = decode("v4-flash", mtp=True)
    graph = build_graph(three_stages(), StepShape.uniform(1, 1, 2**20 - 1), FP4_INDEX, mtp=True)
    assert graph.outputs == ("head/logits", "mtp/logits", "mtp1/logits", "mtp2/logits")
    assert graph.nodes[: len(one.nodes)] == one.nodes
    nodes = {node.path: node for node in graph.nodes}
    for stage, (before, ids) in {
        "mtp1": ("mtp/moe_hc/expand", "next_ids1"),
        "mtp2": ("mtp1/moe_hc/expand", "next_ids2"),
    }.items():
        assert nodes[f"{stage}/hnorm"].inputs == (before,)
        assert nodes[f"{stage}/tokens"].inputs == (ids,)
        assert nodes[f"{stage}/tokens"].params == ("embed/table",)
        assert nodes[f"{stage}/logits"].params == ("head/weight",)
        own = {n.partition("/")[2] for n in graph.params if n.startswith(f"{stage}/")}
        assert own == {n.partition("/")[2] for n in one.params if n.startswith("mtp/")}
    assert set(graph.regions) - set(one.regions) == {"mtp1/attn/window", "mtp2/attn/window"}
    # By hand from the one: 284.33 B + 3 x 6.61 B, 152.42 GB + 3 x 7.19 / 2 GB of stored weights.
    assert sum(t.size for t in graph.params.values()) / 1e9 == digits(304.2, 1)
    assert graph.weight_bytes / 1e9 == digits(166.8, 1)
    stage = one.weight_bytes - decode("v4-flash").weight_bytes
    assert graph.weight_bytes == decode("v4-flash").weight_bytes + 3 * stage


def test_a_model_without_prediction_layers_has_none_to_add():
    config = find_model("v4-flash").model_copy(update={"num_nextn_predict_layers": 0})
    with pytest.raises(UnsupportedError, match="v4-flash has no MTP layer; leave it out"):
        build_graph(config, StepShape.uniform(1, 1, 0), mtp=True)
