"""Compression ratios of any size: executed as the dense reference, counted, stored and priced."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import FileFormatError, UnsupportedError
from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.engine.physical_layout import bind_layout
from simulator.engine.profile import find_profile, layout_of, list_profiles
from simulator.evaluate.dense_reference import forward
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import RAW_CONFIG
from workloads.deepseek_v4.config import find_model, model_from_mapping
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.step_shape import StepShape

TYPES = {
    "swa": "sliding_attention",
    "csa": "compressed_sparse_attention",
    "hca": "heavily_compressed_attention",
}


def small(ratios: list[int], kinds: list[str] | None = None) -> dict[str, object]:
    given = {"num_hidden_layers": len(ratios), "compress_ratios": ratios}
    if kinds is not None:
        given["layer_types"] = [TYPES[kind] for kind in kinds]
    return RAW_CONFIG | {"num_nextn_predict_layers": 0, "num_hash_layers": 0} | given


def assert_runs_as_reference(raw: dict[str, object], count: int, chunks: tuple[int, ...]) -> None:
    config = model_from_mapping(raw)
    pools = pools_of(model_state(config, Precision()))
    table = RequestTable(1, count, page_tokens=page_multiple(pools), pools=pools)
    weights = random_weights(raw, 5)
    runner = Evaluator(config, weights, table, all_logits=True)
    ids = np.random.default_rng(1).integers(0, RAW_CONFIG["vocab_size"], count)
    row, start, logits = table.admit(), 0, []
    for size in chunks:
        logits.append(runner.step([(row, ids[start : start + size])]).logits)
        start += size
    whole = forward(raw, weights, ids)
    np.testing.assert_allclose(np.concatenate(logits), whole.logits, atol=1e-9)


@settings(max_examples=12)
@given(
    ratios=st.lists(
        st.sampled_from([0, 1, 2, 3, 5, 7, 8, 16, 32, 33, 48, 64]), min_size=1, max_size=3
    ),
    cut=st.integers(1, 129),
)
def test_any_ratio_runs_as_the_dense_reference(ratios: list[int], cut: int) -> None:
    assert_runs_as_reference(small(ratios), 130, (cut, 130 - cut))


@pytest.mark.parametrize(
    ("ratios", "kinds"), [([64, 8], ["csa", "hca"]), ([0, 4, 4], ["swa", "hca", "csa"])]
)
def test_the_kind_comes_from_layer_types(ratios: list[int], kinds: list[str]) -> None:
    raw = small(ratios, kinds)
    config = model_from_mapping(raw)
    assert list(config.layer_kinds) == kinds
    assert config.notes == model_from_mapping(raw | {"layer_types": raw["layer_types"]}).notes
    assert_runs_as_reference(raw, 150, (100, 49, 1))


def test_ratios_come_from_rates_of_layer_types() -> None:
    rates = {TYPES["csa"]: 8, TYPES["hca"]: 256}
    raw = small([0, 8, 256], ["swa", "csa", "hca"]) | {"compress_rates": rates}
    del raw["compress_ratios"]
    config = model_from_mapping(raw)
    assert config.layer_ratios == (0, 8, 256)
    assert [layer.pool for layer in config.layers[1:]] == ["c8", "c256"]
    with pytest.raises(FileFormatError, match="contradicts layer_types and compress_rates"):
        model_from_mapping(raw | {"compress_ratios": [0, 4, 256]})


def test_kinds_that_ratios_alone_decide_are_said() -> None:
    config = model_from_mapping(small([32, 33, 0]) | {"expert_dtype": "fp4"})
    assert config.layer_kinds == ("csa", "hca", "swa")
    (note,) = config.notes
    assert "32 as CSA, 33 as HCA" in note
    assert not model_from_mapping(small([4, 128]) | {"expert_dtype": "fp4"}).notes


@pytest.mark.parametrize("ratio", [-1, 1025])
def test_ratios_out_of_range_are_refused(ratio: int) -> None:
    with pytest.raises(FileFormatError, match=r"compress_ratios\[1\] is .*2 to 1,024"):
        model_from_mapping(small([4, ratio]))


def test_a_ratio_of_one_is_window_only() -> None:
    one, none = (model_from_mapping(small([ratio, 4])) for ratio in (1, 0))
    assert one.layers == none.layers
    step = StepShape.uniform(2, 1, 100)
    assert build_graph(one, step).nodes == build_graph(none, step).nodes


def test_state_of_other_ratios_by_hand() -> None:
    config = model_from_mapping(small([8, 64, 24]))
    pools = model_state(config, Precision()).by_pool(1000)
    row = 24 + 2 * 8 + 8  # 24 e4m3, 8 bf16, one scale padded to 8
    assert [pools["c8"], pools["c64"], pools["c24"]] == [125 * row, 15 * row, 41 * row]
    assert pools["c8_index"] == 125 * (16 + 4)
    # Values and scores in fp32; CSA pools two halves of two blocks.
    assert pools["c8_state"] == 16 * 2 * 2 * 32 * 4
    assert pools["c64_state"] == 64 * 2 * 32 * 4
    assert pools["c24_index_state"] == 48 * 2 * 2 * 16 * 4


def flash(*ratios: int, **given: object):
    """V4-Flash with the ratios of its compressed layers in turn."""
    config, count = find_model("v4-flash"), 0
    changed = []
    for ratio in config.compress_ratios:
        changed.append(ratios[count % len(ratios)] if ratio else 0)
        count += bool(ratio)
    return config.model_copy(update={"compress_ratios": tuple(changed), **given})


@pytest.mark.parametrize("engine", list_profiles())
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_every_engine_prices_other_ratios(engine: str, phase: str) -> None:
    chip = "ascend-910c" if "ascend" in engine else "h200"
    times = {}
    for csa in (2, 4, 8, 16):
        asked = ask(
            model="v4-flash", chip=chip, count=8, engine=engine, batch=4, context=65_536,
            phase=phase, new_tokens=None if phase == "decode" else 2048,
            page_tokens=2048,  # whole tiles of keys at every ratio
        )  # fmt: skip
        result = cost_step(asked.changed(config=flash(csa, 128)))
        indexer = [k for k in result.kernels if k.name in ("index_score", "top_k")]
        times[csa] = sum(kernel.duration_ps for kernel in indexer)
    assert times[2] > times[4] > times[8] > times[16]


@pytest.mark.parametrize("engine", list_profiles())
def test_pages_that_end_inside_an_entry_are_refused_with_the_smallest_that_do_not(
    engine: str,
) -> None:
    chip = "ascend-910c" if "ascend" in engine else "h200"
    config = flash(3, 5)
    asked = ask(model="v4-flash", chip=chip, count=8, engine=engine, context=8190)
    with pytest.raises(UnsupportedError, match=r"multiples of 15 .*or 15, the smallest"):
        cost_step(asked.changed(config=config))
    with pytest.raises(UnsupportedError, match="or 15, the smallest"):
        bind_layout(layout_of(find_profile(engine)), config)
    own = find_profile(engine, 960)
    paged = asked.changed(config=config, profile=own, layout=layout_of(own))
    assert cost_step(paged).total_ps > 0
    bound = bind_layout(layout_of(find_profile(engine, 960)), config)
    assert {p.name for p in bound.pools} >= {"c3", "c5", "c3_index", "c5_state"}
    assert math.lcm(*(pool.ratio for pool in bound.pools)) == 15
