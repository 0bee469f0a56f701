import numpy as np
import pytest

from tests.workloads.ops.hand import (
    RAGGED_POSITIONS,
    UNIFORM,
    Cells,
    OwnChoices,
    bf16,
    demand,
    fp32,
    infer,
    int32,
    refuses,
    run,
)
from workloads.ops import IndexScore, TopK
from workloads.ops.indexer import QUERY_BLOCK
from workloads.step_shape import StepShape
from workloads.work import Read, Work

Q = bf16(("tokens", 10), ("index_heads", 3), ("index_dim", 4))
W = fp32(("tokens", 10), ("index_heads", 3))
PAIRS = 3 + 3 + 131 // 4  # visible entries of RAGGED's queries at ratio 4


def plain_scores(q, w, keys, visible):
    return [
        sum(
            weight * max(sum(a * b for a, b in zip(head, keys[s], strict=True)), 0.0)
            for head, weight in zip(q, w, strict=True)
        )
        for s in range(visible)
    ]


class TestIndexScore:
    def test_shape_is_one_packed_row_of_pairs(self):
        assert infer(IndexScore(4, "fp8"), [Q, W]) == (fp32(("pairs", 38)),)
        assert PAIRS == 38

    def test_refuses_weights_of_other_heads_or_tokens(self):
        score = IndexScore(4, "fp8")
        refuses(score, [Q, fp32(("tokens", 10), ("index_heads", 4))], naming=["'index_heads', 4"])
        refuses(score, [Q, fp32(("tokens", 9), ("index_heads", 3))], naming=["'tokens', 9"])
        refuses(score, [Q, W], step=UNIFORM, naming=["2 tokens", "10"])

    def test_value_adds_rectified_products_of_the_heads(self):
        # Head 1: relu(1 x 2 + 0) x 10; head 2: relu(-3) is 0; key 2: relu(-1), relu(5) x 100.
        pool = Cells({(0, 0): [2.0, 3.0], (0, 1): [-1.0, -5.0]})
        step = StepShape(((1, 7),))
        q, w = [[[1.0, 0.0], [0.0, -1.0]]], [[10.0, 100.0]]
        (y,) = run(IndexScore(4, "fp8"), [q, w], step, [pool])
        assert y.tolist() == [20.0, 500.0]

    @pytest.mark.parametrize("step", [StepShape(((6, 0), (3, 3), (1, 130))),
                                      StepShape(((QUERY_BLOCK + 9, 2), (5, 0)))])  # fmt: skip
    def test_value_of_every_visible_pair_query_after_query(self, step):
        rng = np.random.default_rng(2)
        q = rng.normal(size=(step.tokens, 2, 3))
        w = rng.normal(size=(step.tokens, 2))
        keys = [rng.normal(size=((new + past) // 4, 3)) for new, past in step.requests]
        pool = Cells({(r, s): key for r, rows in enumerate(keys) for s, key in enumerate(rows)})
        (y,) = run(IndexScore(4, "fp8"), [q, w], step, [pool])
        expected, row = [], 0
        for request, (new, past) in enumerate(step.requests):
            for t in range(past, past + new):
                expected += plain_scores(q[row], w[row], keys[request], (t + 1) // 4)
                row += 1
        assert y == pytest.approx(np.array(expected), rel=1e-12)

    def test_demand(self):
        assert demand(IndexScore(4, "fp4_index"), [Q, W]) == Work(
            macs={"fp4_index": PAIRS * 3 * 4},
            vector_ops=3 * PAIRS * 3,
            input_bytes=(10 * 3 * 4 * 2, 10 * 3 * 4),
            output_bytes=(PAIRS * 4,),
            reads=(Read(region=0, entries=PAIRS, distinct=1 + 1 + 32, pattern="scan"),),
        )

    def test_demand_of_a_uniform_step(self):
        q = bf16(("tokens", 2), ("index_heads", 64), ("index_dim", 128))
        work = demand(
            IndexScore(4, "fp8"), [q, fp32(("tokens", 2), ("index_heads", 64))], step=UNIFORM
        )
        # Facts: 16,384 FLOP a pair.
        assert work.flops == 2 * 32 * 16_384
        assert work.reads == (Read(region=0, entries=64, distinct=64, pattern="scan"),)


class TestTopK:
    SCORES = fp32(("pairs", PAIRS))

    def test_shape_is_the_picks_of_every_token(self):
        assert infer(TopK(4, 2), [self.SCORES]) == (int32(("tokens", 10), ("picks", 2)),)

    def test_refuses_another_number_of_pairs(self):
        refuses(TopK(4, 2), [fp32(("pairs", PAIRS + 1))], naming=["'pairs', 39"])

    def test_value_is_ascending_ids_of_the_best_with_minus_one_for_none(self):
        step = StepShape(((2, 2), (1, 15)))  # t = 2 sees none, t = 3 one, t = 15 four
        choices = OwnChoices()
        (ids,) = run(TopK(4, 3), [[5.0, 0.1, 0.4, 0.2, 0.3]], step, choices=choices)
        assert ids.tolist() == [[-1, -1, -1], [0, -1, -1], [1, 2, 3]]
        assert choices.asked == [("path", "top-k")]

    def test_value_of_ties_takes_the_lowest(self):
        (ids,) = run(TopK(4, 2), [[0.0, 1.0, 0.0, 1.0, 1.0]], StepShape(((1, 19),)))
        assert ids.tolist() == [[1, 3]]

    def test_value_counts_the_entry_that_the_query_completes(self):
        visible = [(t + 1) // 4 for t in RAGGED_POSITIONS]
        (ids,) = run(TopK(4, 64), [np.zeros(PAIRS)])
        assert (ids >= 0).sum(axis=1).tolist() == visible

    def test_demand(self):
        assert demand(TopK(4, 2), [self.SCORES]) == Work(
            vector_ops=2 * PAIRS, input_bytes=(PAIRS * 4,), output_bytes=(10 * 2 * 4,)
        )
        uniform = demand(TopK(4, 512), [fp32(("pairs", 64))], step=UNIFORM)
        assert uniform == Work(
            vector_ops=2 * 64, input_bytes=(64 * 4,), output_bytes=(2 * 512 * 4,)
        )
