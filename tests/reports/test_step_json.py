"""JSON has stable keys, exact integers, and every launch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reports.step_json import SCHEMA, proof_json, step_to_json, write_json
from tests.reports.factory import make_proof, make_step

KEYS = [
    "schema",
    "answer",
    "question",
    "total_ps",
    "low_ps",
    "high_ps",
    "calibrated",
    "certainty",
    "standing",
    "tokens",
    "tokens_per_s",
    "tokens_per_s_per_request",
    "bound",
    "totals",
    "operations",
    "layer_kinds",
    "memory",
    "period",
    "peaks",
    "counts",
    "names",
    "assumptions",
    "priced_as",
    "notes",
    "kernel_list",
    "machine",
    "kernels",
]
QUESTION_KEYS = [
    "model",
    "chip",
    "chips",
    "layout",
    "phase",
    "batch_requests",
    "context_tokens",
    "new_tokens",
    "fidelity",
    "engine",
    "index_dtype",
    "expert_dtype",
    "kv_dtype",
]
KERNEL_KEYS = {
    "stretches",
    *("path", "name", "family", "scope", "kind", "stream", "start_ps", "end_ps", "nodes"),
    *("flops", "vector_ops", "special_ops", "weight_bytes", "activation_bytes"),
    *("cache_read_bytes", "cache_write_bytes", "dram_read_bytes", "dram_write_bytes"),
    *("link_bytes", "busy_ps", "bound", "duration_ps", "critical_ps", "causes_ps"),
    *("low_ps", "high_ps", "calibrated", "priced_by", "program", "shapes", "cut", "work"),
    "machine",
}


def test_keys_are_stable() -> None:
    data = step_to_json(make_step())
    assert list(data) == KEYS
    assert data["schema"] == SCHEMA == "v4sim.step/1"
    assert list(data["question"]) == QUESTION_KEYS
    assert set(data["kernels"][0]) == KERNEL_KEYS


def test_names_are_explained() -> None:
    names = step_to_json(make_step())["names"]
    assert names["operations"]["ring_write"] == "what ring_write does"
    assert names["layer_kinds"]["hca"].endswith("of 128 tokens each")
    assert names["pools"]["c4"] == "compressed entries, one per 4 tokens"


def test_the_file_reads_back_equal(tmp_path: Path) -> None:
    result = make_step()
    data = step_to_json(result)
    write_json(tmp_path / "a.json", data)
    assert json.loads((tmp_path / "a.json").read_text()) == data
    assert data["total_ps"] == result.total_ps
    assert [kernel["start_ps"] for kernel in data["kernels"]] == [
        kernel.start_ps for kernel in result.kernels
    ]
    assert sum(group["critical_ps"] for group in data["operations"]) == result.total_ps


def test_memory_says_what_is_free() -> None:
    memory = step_to_json(make_step())["memory"]
    assert memory["used_bytes"] + memory["free_bytes"] == memory["capacity_bytes"]


def test_proof() -> None:
    assert proof_json(make_proof()) == {
        "golden_name": "golden_tiny.npz",
        "layers": 5,
        "logits_difference": 2.384e-7,
        "logits_tolerance": 1e-5,
        "activations_difference": 3e-8,
        "activations_tolerance": 1e-6,
        "checks": 412,
        "holds": True,
    }


def test_numbers_that_json_lacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert os.listdir(tmp_path) == []
