"""DeepSeek-V3.2 by hand: the V3.2 column of V4's published comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.basis.errors import FileFormatError
from workloads.deepseek_v4.reference_v32 import (
    attention_parameters,
    feed_forward_parameters,
    find_reference,
    flops_by_dtype,
    flops_by_part,
    indexer_parameters,
    kv_bytes_per_token,
    weighted_gflops,
)

CONFIG = find_reference()
MILLION = 2**20


def test_parameters_by_hand() -> None:
    attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    assert attention_parameters(CONFIG) == attention == 187_105_280
    assert indexer_parameters(CONFIG) == 1536 * 64 * 128 + 7168 * (128 + 64) == 13_959_168
    expert, dense = 3 * 7168 * 2048, 3 * 7168 * 18432
    assert feed_forward_parameters(CONFIG) == 3 * dense + 58 * (9 * expert + 7168 * 256)


def test_terms_at_a_million_tokens() -> None:
    parts = flops_by_part(CONFIG, MILLION)
    assert parts["linear"] / 1e9 == pytest.approx(71.4, abs=0.05)
    assert parts["indexer_linear"] / 1e9 == pytest.approx(1.7, abs=0.05)
    assert parts["core_attention"] == 2 * 2048 * (576 + 512) * 128 * 61
    assert parts["core_attention"] / 1e9 == pytest.approx(34.8, abs=0.05)
    assert parts["index_scores"] == 2 * 64 * 128 * MILLION * 61
    assert parts["index_scores"] / 1e9 == pytest.approx(1047.97, abs=0.005)
    assert parts["head"] / 1e9 == pytest.approx(1.85, abs=0.005)
    assert sum(parts.values()) == sum(flops_by_dtype(CONFIG, MILLION).values())


@pytest.mark.parametrize(
    ("context", "gflops"),
    [
        (4096, 150.5),
        (8192, 154.6),
        (32_768, 179.1),
        (65_536, 211.9),
        (131_072, 277.4),
        (262_144, 408.4),
        (524_288, 670.4),
        (1_000_000, 1145.8),
        (MILLION, 1194.4),
    ],
)
def test_weighted_curve(context: int, gflops: float) -> None:
    assert weighted_gflops(CONFIG, context) == pytest.approx(gflops, abs=0.06)


def test_short_contexts_attend_to_what_is_there() -> None:
    per_key = 2 * 61 * (576 + 512) * 128
    assert flops_by_part(CONFIG, 100)["core_attention"] == 100 * per_key
    assert flops_by_part(CONFIG, 2049)["core_attention"] == 2048 * per_key


def test_cache_bytes() -> None:
    assert kv_bytes_per_token(CONFIG) == 61 * (656 + 132) == 48_068
    assert kv_bytes_per_token(CONFIG) * MILLION / 2**30 == pytest.approx(46.94, abs=0.005)
    assert kv_bytes_per_token(CONFIG, "bf16") == 61 * 2 * (576 + 128)
    assert kv_bytes_per_token(CONFIG, "bf16") * MILLION / 2**30 == pytest.approx(83.88, abs=0.005)


def test_a_published_file_is_read_and_slips_are_found(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    data = CONFIG.model_dump() | {"rope_theta": 10000, "n_group": 8, "torch_dtype": "bfloat16"}
    path.write_text(json.dumps(data, indent=1))
    assert find_reference(path) == CONFIG
    path.write_text(json.dumps(data | {"index_topkk": 1}, indent=1))
    with pytest.raises(FileFormatError, match=r"unknown key 'index_topkk': did you mean 'index_t"):
        find_reference(path)
