import math

import numpy as np
import pytest

from tests.workloads.ops.hand import (
    RAGGED,
    UNIFORM,
    Cells,
    bf16,
    demand,
    fp32,
    infer,
    int32,
    refuses,
    run,
)
from workloads.ops import SparseAttention
from workloads.ops.attention import QUERY_BLOCK
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.work import Read, Work

Q = bf16(("tokens", 10), ("heads", 3), ("head_dim", 8))
KV = bf16(("tokens", 10), ("head_dim", 8))
IDS = int32(("tokens", 10), ("picks", 2))
SINK = fp32(("heads", 3))
WINDOW_ONLY, HCA, CSA = SparseAttention(4), SparseAttention(4, 4), SparseAttention(4, 4, 2)

# Sums over the queries of RAGGED at t = 0..5; 3, 4, 5; 130.
WINDOW_PAIRS = (1 + 2 + 3 + 4 + 4 + 4) + 3 * 4 + 4
ENTRY_PAIRS = (0 + 0 + 0 + 1 + 1 + 1) + (1 + 1 + 1) + 131 // 4
PICKED_PAIRS = 3 + 3 + 2


def plain(q, keys, sink):
    """One query over its keys, head by head: the sink has a score, but no value."""
    out = []
    for head, vector in enumerate(q):
        scores = [sum(a * b for a, b in zip(vector, key, strict=True)) for key in keys]
        weights = [math.exp(s / math.sqrt(len(vector))) for s in scores]
        total = sum(weights) + math.exp(sink[head])
        out.append(
            [
                sum(w * key[d] for w, key in zip(weights, keys, strict=True)) / total
                for d in range(len(vector))
            ]
        )
    return np.array(out)


class Case:
    """A ragged batch with its whole history: raw keys and entries of every request."""

    def __init__(self, step: StepShape, window: int, ratio: int) -> None:
        rng = np.random.default_rng(1)
        heads, dim = 2, 4
        self.step, self.window, self.ratio = step, window, ratio
        lengths = [new + past for new, past in step.requests]
        self.raw = [rng.normal(size=(n, dim)) for n in lengths]
        self.entries = [rng.normal(size=(n // ratio if ratio else 0, dim)) for n in lengths]
        self.q = rng.normal(size=(step.tokens, heads, dim))
        self.sink = rng.normal(size=heads)
        self.queries = [
            (request, t)
            for request, (new, past) in enumerate(step.requests)
            for t in range(past, past + new)
        ]
        self.kv = np.array([self.raw[request][t] for request, t in self.queries])
        ring = {
            (r, t): self.raw[r][t]
            for r, (_, past) in enumerate(step.requests)
            for t in range(max(past - window + 1, 0), past)
        }
        pool = {(r, s): e for r, entries in enumerate(self.entries) for s, e in enumerate(entries)}
        self.regions = (Cells(ring, dim), Cells(pool, dim))

    def expected(self, picks=None):
        rows = []
        for row, (request, t) in enumerate(self.queries):
            keys = list(self.raw[request][max(t - self.window + 1, 0) : t + 1])
            if picks is not None:
                keys += [self.entries[request][s] for s in picks[row] if s >= 0]
            elif self.ratio:
                keys += list(self.entries[request][: (t + 1) // self.ratio])
            rows.append(plain(self.q[row], keys, self.sink))
        return np.array(rows)


class TestSparseAttention:
    def test_shape_is_that_of_the_queries(self):
        assert infer(WINDOW_ONLY, [Q, KV], [SINK]) == (Q,)
        assert infer(HCA, [Q, KV], [SINK]) == (Q,)
        assert infer(CSA, [Q, KV, IDS], [SINK]) == (Q,)

    def test_refuses_another_number_of_operands(self):
        refuses(CSA, [Q, KV], [SINK], naming=["3 inputs", "2 and 1"])
        refuses(HCA, [Q, KV, IDS], [SINK], naming=["2 inputs", "3 and 1"])

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            (0, bf16(("tokens", 9), ("heads", 3), ("head_dim", 8))),
            (0, bf16(("tokens", 10), ("heads", 4), ("head_dim", 8))),
            (1, bf16(("tokens", 10), ("head_dim", 7))),
            (1, bf16(("tokens", 9), ("head_dim", 8))),
            (2, int32(("tokens", 9), ("picks", 2))),
            (2, int32(("tokens", 10), ("picks", 3))),
        ],
    )
    def test_refuses_axes_that_do_not_fit(self, place, wrong):
        operands = [Q, KV, IDS]
        operands[place] = wrong
        refuses(CSA, operands, [SINK], naming=["heads"])

    def test_value_of_one_query_by_hand(self):
        # Scores 0 and ln 2 at scale 1/sqrt(1), sink ln 3: weights 1/6, 2/6 and 3/6.
        ring = Cells({(0, 0): [0.0]})
        q, kv = [[[1.0]]], [[math.log(2)]]
        (y,) = run(SparseAttention(2), [q, kv, [math.log(3)]], StepShape(((1, 1),)), [ring])
        assert y.tolist() == [[[pytest.approx(math.log(2) * 2 / 6)]]]

    @pytest.mark.parametrize("window", [1, 4, 128])
    def test_value_of_the_window_only(self, window):
        case = Case(RAGGED, window, 0)
        arrays = [case.q, case.kv, case.sink]
        (y,) = run(SparseAttention(window), arrays, RAGGED, case.regions)
        assert y == pytest.approx(case.expected(), rel=1e-12)

    @pytest.mark.parametrize("ratio", [2, 4, 128])
    def test_value_with_every_visible_entry(self, ratio):
        case = Case(RAGGED, 4, ratio)
        arrays = [case.q, case.kv, case.sink]
        (y,) = run(SparseAttention(4, ratio), arrays, RAGGED, case.regions)
        assert y == pytest.approx(case.expected(), rel=1e-12)

    def test_value_with_picked_entries_and_unused_places(self):
        case = Case(RAGGED, 4, 4)
        picks = [[-1, -1]] * 3 + [[0, -1]] * 3 + [[0, -1]] * 3 + [[5, 31]]
        (y,) = run(CSA, [case.q, case.kv, picks, case.sink], RAGGED, case.regions)
        assert y == pytest.approx(case.expected(picks), rel=1e-12)

    def test_value_of_a_chunk_of_several_blocks_of_queries(self):
        step = StepShape(((2 * QUERY_BLOCK + 3, 5), (1, 0)))
        case = Case(step, 6, 4)
        arrays = [case.q, case.kv, case.sink]
        (y,) = run(SparseAttention(6, 4), arrays, step, case.regions)
        assert y == pytest.approx(case.expected(), rel=1e-12)

    def test_value_is_finite_for_large_scores(self):
        ring = Cells()
        (y,) = run(SparseAttention(1), [[[[1e4]]], [[1e4]], [0.0]], StepShape(((1, 0),)), [ring])
        assert y.tolist() == [[[1e4]]]

    def test_demand_of_the_window(self):
        # min(0, 3) + min(3, 3) + min(130, 3) rows from the ring, and the 10 own rows.
        assert demand(WINDOW_ONLY, [Q, KV], [SINK]) == Work(
            macs={"bf16": 2 * 8 * 3 * WINDOW_PAIRS},
            vector_ops=4 * 3 * WINDOW_PAIRS + 10 * 3 * 8,
            special_ops=3 * WINDOW_PAIRS + 2 * 3 * 10,
            input_bytes=(10 * 3 * 8 * 2, 0),
            param_bytes=(3 * 4,),
            output_bytes=(10 * 3 * 8 * 2,),
            reads=(Read(region=0, entries=WINDOW_PAIRS, distinct=6 + 10, pattern="window"),),
        )

    def test_demand_with_every_visible_entry(self):
        work = demand(HCA, [Q, KV], [SINK])
        pairs = WINDOW_PAIRS + ENTRY_PAIRS
        assert work.macs == {"bf16": 2 * 8 * 3 * pairs}
        assert work.special_ops == 3 * pairs + 2 * 3 * 10
        assert work.vector_ops == 4 * 3 * pairs + 10 * 3 * 8
        assert work.reads == (
            Read(region=0, entries=WINDOW_PAIRS, distinct=16, pattern="window"),
            Read(region=1, entries=ENTRY_PAIRS, distinct=1 + 1 + 32, pattern="scan"),
        )

    def test_demand_with_picked_entries(self):
        work = demand(CSA, [Q, KV, IDS], [SINK])
        assert work.macs == {"bf16": 2 * 8 * 3 * (WINDOW_PAIRS + PICKED_PAIRS)}
        assert work.input_bytes == (10 * 3 * 8 * 2, 0, 10 * 2 * 4)
        picked = work.reads[1]
        assert (picked.entries, picked.pattern) == (PICKED_PAIRS, "gather")
        assert picked.distinct == pytest.approx(1 + 1 + 2)

    def test_demand_counts_shared_picks_once(self):
        # 4 queries pick 2 of 8 visible entries each: 8 (1 - (6/8)^4) when they choose freely.
        step = StepShape(((4, 28),))
        q = bf16(("tokens", 4), ("heads", 3), ("head_dim", 8))
        operands = [q, bf16(("tokens", 4), ("head_dim", 8)), int32(("tokens", 4), ("picks", 2))]
        for overlap, distinct in ((0.0, 8 * (1 - 0.75**4)), (1.0, 2.0)):
            work = demand(CSA, operands, [SINK], step, RunStats(top_k_overlap=overlap))
            assert work.reads[1].entries == 4 * 2
            assert work.reads[1].distinct == pytest.approx(distinct)

    def test_demand_of_a_uniform_step(self):
        q = bf16(("tokens", 2), ("heads", 3), ("head_dim", 8))
        operands = [q, bf16(("tokens", 2), ("head_dim", 8))]
        work = demand(SparseAttention(128, 128), operands, [SINK], UNIFORM)
        assert work.macs == {"bf16": 2 * 8 * 3 * 2 * (128 + 1)}
        assert work.reads == (
            Read(region=0, entries=2 * 128, distinct=2 * (127 + 1), pattern="window"),
            Read(region=1, entries=2 * 1, distinct=2, pattern="scan"),
        )
