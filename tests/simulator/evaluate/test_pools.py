"""Bytes that the evaluator really allocates, against the logical state."""

import itertools

import numpy as np
import pytest

from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.pools import allocate_pools
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import config, tokens, weights
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.state_layout import Every
from workloads.step_shape import StepShape

INDEX_BYTES = {"fp4": 64 + 4, "fp8": 128 + 4, "bf16": 256}
KV_BYTES = {"fp8": 448 + 2 * 64 + 8, "bf16": 1024}
LAYERS = {"v4-pro": (0, 30, 31), "v4-flash": (2, 21, 20)}  # window only, CSA, HCA


def allocated(pools):
    """Bytes of the arrays by kind of pool."""
    found: dict[str, int] = {}
    for pool in pools.values():
        assert pool.data.dtype == np.uint8
        kind = pool.region.pool
        found[kind] = found.get(kind, 0) + pool.data.nbytes
    return found


@pytest.mark.parametrize("model", LAYERS)
@pytest.mark.parametrize(("index", "kv"), [("fp4", "fp8"), ("fp8", "fp8"), ("bf16", "bf16")])
@pytest.mark.parametrize(("mtp", "drafts"), [(False, 0), (True, 3)])
def test_the_full_models_allocate_what_the_logical_state_says(model, index, kv, mtp, drafts):
    context = 1024
    precision = Precision(index=index, kv=kv)
    state = model_state(find_model(model), precision, mtp=mtp, draft_tokens=drafts)
    regions = {region.name: region for region in state.regions}
    pools = allocate_pools(regions, RequestTable(1, context), lambda region: region.format)
    found = allocated(pools)
    assert found == state.by_pool(context)
    swa, csa, hca = LAYERS[model]
    # By hand: rows times bytes, compressor rows as (values, scores) in fp32.
    assert found == {
        "window": (swa + csa + hca + mtp) * (128 + drafts) * KV_BYTES[kv],
        "c4": csa * 256 * KV_BYTES[kv],
        "c4_index": csa * 256 * INDEX_BYTES[index],
        "c128": hca * 8 * KV_BYTES[kv],
        "c4_state": csa * (8 + drafts) * 2 * 1024 * 4,
        "c128_state": hca * (128 + drafts) * 2 * 512 * 4,
        "c4_index_state": csa * (8 + drafts) * 2 * 256 * 4,
    }
    terms = state.terms(context)
    assert terms.nbytes == state.nbytes(context) == sum(found.values())
    assert terms.per_request | terms.per_token == found
    assert set(terms.per_token) == {"c4", "c4_index", "c128"}


def test_the_graph_names_the_same_regions_as_the_logical_state():
    for model in LAYERS:
        graph = build_graph(find_model(model), StepShape.uniform(1, 1, 0), Precision(), mtp=True)
        state = model_state(find_model(model), Precision(), mtp=True)
        assert graph.state_layout == state


@pytest.mark.parametrize("index", INDEX_BYTES)
@pytest.mark.parametrize("drafts", [0, 2])
def test_the_quantised_evaluator_with_its_draft_layer_allocates_the_same(index, drafts):
    precision = Precision(index=index)
    table = RequestTable(3, 384, page_tokens=128)
    evaluator = Evaluator(
        config(),
        weights(),
        table,
        quantised=True,
        precision=precision,
        mtp=True,
        draft_tokens=drafts,
    )
    state = model_state(config(), precision, mtp=True, draft_tokens=drafts)
    assert allocated(evaluator.pools) == {k: 3 * v for k, v in state.by_pool(384).items()}
    assert sum(pool.nbytes for pool in evaluator.pools.values()) == 3 * state.nbytes(384)
    assert "mtp/attn/window" in evaluator.pools


@pytest.mark.parametrize("context", [1, 3, 4, 127, 128, 131, 300])
def test_the_slots_written_at_any_context_hold_the_bytes_that_grow_with_it(context):
    precision = Precision(index="fp4")
    table = RequestTable(1, 384, page_tokens=128)
    evaluator = Evaluator(config(), weights(), table, quantised=True, precision=precision, mtp=True)
    row, log = table.admit(), []
    ids = tokens(context + 1)
    for start, stop in itertools.pairwise((0, context // 2, context)):
        if stop > start:
            next_ids = [ids[start + 1 : stop + 1]]
            evaluator.step([(row, ids[start:stop])], next_ids=next_ids, log=log)
    slots: dict[str, set[int]] = {}
    for access in log:
        if access.write:
            slots.setdefault(access.region, set()).update(access.slots.tolist())
    state, written = model_state(config(), precision, mtp=True), {}
    for region in state.regions:
        used = len(slots.get(region.name, ()))
        assert used == region.growth.entries(context)
        if isinstance(region.growth, Every):
            # What was written is no longer fresh, what was not still is, to the byte.
            stale = (evaluator.pools[region.name].data != 0xFF).any(axis=1)
            assert set(np.flatnonzero(stale)) == slots.get(region.name, set())
            written[region.pool] = written.get(region.pool, 0) + used * region.format.nbytes
    assert written == state.terms(context).per_token
