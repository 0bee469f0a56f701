"""Quantised mode: what is stored is the rounded value, and how far the logits drift."""

import numpy as np
import pytest

from simulator.evaluate.choices import ChoiceRecord
from tests.laws.models import evaluator, run_alone, tokens
from workloads.deepseek_v4.precision import Precision
from workloads.step_shape import StepShape


def stored_and_exact(index: str):
    """(pool, region name, stored values, values before rounding) of every region of one run."""
    ids = tokens(260)
    runner = evaluator(quantised=True, precision=Precision(index=index))
    row = runner.table.admit()
    graph = runner.graph(StepShape.uniform(1, len(ids), 0))
    before = {
        node.reads[0]: node.inputs[0]
        for node in graph.nodes
        if node.path.endswith(("kv_round", "compressor/round"))
    }
    out = runner.step([(row, ids)], keep=list(before.values()))
    for region, value in before.items():
        pool = runner.pools[region]
        exact = pool.format.rotate(out.values[value])
        entries = np.arange(len(exact))
        if pool.region.pool == "window":
            entries, exact = entries[-16:], exact[-16:]
        yield pool, region, pool.format.decode(pool.data[pool.slots(row, entries)]), exact


@pytest.mark.parametrize("index", ["fp8", "fp4"])
def test_every_stored_value_is_within_half_a_step_of_the_value_before_rounding(index):
    seen = set()
    for pool, _, stored, exact in stored_and_exact(index):
        error = np.abs(stored - exact)
        assert (error <= pool.format.half_step(exact) * (1 + 1e-9)).all(), pool.region.name
        assert error.max() > 0
        seen.add(pool.region.pool)
    assert seen == {"window", "c4", "c128", "c4_index"}


def test_entries_are_stored_packed():
    runner = evaluator(quantised=True, precision=Precision(index="fp4"))
    by_pool = {pool.region.pool: pool.data.shape[1] for pool in runner.pools.values()}
    # head 32 = 24 e4m3 + 8 bf16 + 8 for scales; index 16 e2m1 + 1; rows of 2 x 2 x 32 fp32.
    assert by_pool["window"] == 24 + 16 + 8
    assert by_pool["c4_index"] == 8 + 1
    assert {p.data.shape[1] for n, p in runner.pools.items() if n == "layer01/attn/c4_state"} == {
        512
    }


@pytest.mark.parametrize("index", ["fp8", "fp4"])
def test_drift_of_the_logits_is_bounded_and_reported(index, record_property):
    ids = tokens(260)
    exact = ChoiceRecord()
    plain = run_alone(ids, (260,), record=exact)
    options = {"quantised": True, "precision": Precision(index=index)}
    fixed = ChoiceRecord(given=exact.taken)
    rounded = run_alone(ids, (260,), record=fixed, **options)
    drift = float(np.abs(rounded - plain).max())
    record_property("logit_drift", drift)
    print(f"{index} index: largest drift of a logit {drift:.3g}, flips {len(fixed.flips)}")
    assert 0 < drift < 1.0
