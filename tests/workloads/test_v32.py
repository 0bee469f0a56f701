"""DeepSeek-V3.2: its graph against a dense form, its counts against the published comparison."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import FileFormatError, UnsupportedError
from simulator.count.count import count_graph
from simulator.evaluate.latent_evaluator import POOLS, LatentEvaluator, random_v32_weights
from simulator.evaluate.request_table import RequestTable
from tests.oracles.v32_dense import forward
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v32.config import V32Config, find_v32
from workloads.deepseek_v32.graph import build_v32_graph, v32_state
from workloads.deepseek_v41 import V41_FLASH
from workloads.latent_entry import Fp8LatentEntry
from workloads.step_shape import StepShape

V32 = find_v32()
SMALL = V32Config(
    name="small", vocab_size=50, hidden_size=32, intermediate_size=24, first_k_dense_replace=1,
    num_hidden_layers=3, num_attention_heads=3, q_lora_rank=12, kv_lora_rank=16,
    qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, index_n_heads=32, index_head_dim=8,
    index_topk=7, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
    moe_intermediate_size=10, n_group=4, topk_group=2, max_position_embeddings=4096,
    rope_scaling=V32.rope_scaling,
)  # fmt: skip
MILLION = 2**20


def run(chunks: list[int], page: int = 4, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """(logits of the paged evaluator beside another request, logits of the dense form)."""
    weights, total = random_v32_weights(SMALL, 3), sum(chunks)
    table = RequestTable(3, total, page_tokens=page, pools=POOLS, page_order=None)
    evaluator = LatentEvaluator(SMALL, weights, table, all_logits=True, **options)  # type: ignore[arg-type]
    other, row = table.admit(), table.admit()
    ids = np.random.default_rng(1).integers(0, 50, total)
    found, start = [], 0
    for count in chunks:
        part = ids[start : start + count]
        found.append(evaluator.step([(other, part[::-1]), (row, part)]).logits[count:])
        start += count
    return np.concatenate(found), forward(SMALL.model_dump(), weights, ids.tolist())


@pytest.mark.parametrize("chunks", [[40], [1] * 12, [25, 1, 1, 13]])
def test_the_graph_is_its_dense_form(chunks: list[int]) -> None:
    found, dense = run(chunks)
    assert np.abs(found - dense).max() < 1e-9


def test_quantised_rows_are_near() -> None:
    found, dense = run([25, 15], quantised=True)
    assert 1e-6 < np.abs(found - dense).mean() < 0.5
    entry = Fp8LatentEntry(512, 64)
    assert entry.nbytes == 656
    values = np.random.default_rng(0).standard_normal((9, 576)) * 3
    off = np.abs(entry.decode(entry.encode(values)) - values)
    assert (off <= entry.half_step(values) * (1 + 1e-6)).all()


def graph(context: int, kv: str = "fp8") -> object:
    return build_v32_graph(V32, StepShape.uniform(1, 1, context - 1), kv=kv)


def flops(context: int, *paths: str) -> int:
    nodes = count_graph(graph(context)).nodes  # type: ignore[arg-type]
    return sum(
        sum(n.tally.flops.values()) for n in nodes
        if not paths or n.local_path in paths
    )  # fmt: skip


def test_parameters_without_mtp() -> None:
    params = graph(8).params  # type: ignore[attr-defined]
    assert sum(t.size for t in params.values()) == pytest.approx(671.9e9, abs=0.05e9)
    attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    own = {k: t for k, t in params.items() if k.startswith("layer10/attn/")}
    mla = sum(t.size for k, t in own.items() if "indexer" not in k and "norm" not in k)
    assert mla == attention == 187_105_280
    index = sum(t.size for k, t in own.items() if "indexer" in k and "norm" not in k)
    assert index == 1536 * 64 * 128 + 7168 * (128 + 64)


def test_terms_at_a_million_tokens() -> None:
    assert flops(MILLION, "attn/core") == 2 * 2048 * (576 + 512) * 128 * 61
    assert flops(MILLION, "attn/indexer/score") == 2 * 64 * 128 * MILLION * 61
    assert flops(MILLION, "logits") == 2 * 7168 * 129280
    # Short contexts attend to what is there.
    per_key = 2 * 61 * (576 + 512) * 128
    assert flops(100, "attn/core") == 100 * per_key
    assert flops(2049, "attn/core") == 2048 * per_key


@pytest.mark.parametrize(
    ("context", "gflops"),
    [(4096, 150.5), (32_768, 179.1), (131_072, 277.4), (524_288, 670.4), (1_000_000, 1145.8),
     (MILLION, 1194.4)],
)  # fmt: skip
def test_weighted_curve(context: int, gflops: float) -> None:
    total = count_graph(graph(context)).total  # type: ignore[arg-type]
    assert total.weighted_flops / 1e9 == pytest.approx(gflops, abs=0.06)


def test_cache_bytes() -> None:
    assert v32_state(V32).growth_bytes_per_token == 61 * (656 + 132) == 48_068
    assert v32_state(V32).nbytes(MILLION) / 2**30 == pytest.approx(46.94, abs=0.01)
    assert v32_state(V32, "bf16").nbytes(MILLION) / 2**30 == pytest.approx(83.88, abs=0.05)


def test_a_published_file_is_read_and_slips_are_found(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    data = V32.model_dump(exclude={"name"}) | {"torch_dtype": "bfloat16"}
    path.write_text(json.dumps(data, indent=1))
    assert find_v32(path).model_copy(update={"name": "v3.2"}) == V32
    path.write_text(json.dumps(data | {"index_topkk": 1}, indent=1))
    with pytest.raises(FileFormatError, match=r"unknown key 'index_topkk': did you mean 'index_t"):
        find_v32(path)


def test_engines_refuse_it_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"v3\.2 .*no engine here has kernels"):
        find_model("v3.2")


def test_v41_is_known_by_its_cache() -> None:
    # Three sources of ratio 2 and one of ratio 1: (288 + 68) x 2.5.
    assert V41_FLASH.entry_bytes == 288 + 68
    assert V41_FLASH.growth_bytes_per_token == 890
    with pytest.raises(UnsupportedError, match="missing for a step are its cross-decoder"):
        find_model("v4.1-flash")
