import math

import numpy as np
import pytest

from tests.workloads.ops.hand import (
    UNIFORM,
    OwnChoices,
    bf16,
    demand,
    fp32,
    infer,
    int32,
    matrix,
    refuses,
    run,
)
from workloads.dtype import FP4_GROUP, INT64
from workloads.op import Types
from workloads.ops import ExpertDown, ExpertUp, Route
from workloads.run_stats import RunStats
from workloads.work import Work

X = bf16(("tokens", 10), ("hidden", 64))
IDS = int32(("tokens", 10), ("slots", 2))
WEIGHTS = fp32(("tokens", 10), ("slots", 2))
UP = matrix(FP4_GROUP, ("experts", 8), ("gate_up", 2), ("ffn", 32), ("hidden", 64), lead=1)
DOWN = matrix(FP4_GROUP, ("experts", 8), ("hidden", 64), ("ffn", 32), lead=1)
UP_BYTES, DOWN_BYTES = 64 * 64 // 2 + 64 * 2, 64 * 32 // 2 + 64  # of one expert: 2176 and 1088
# Experts that 10 tokens of 2 slots touch, of 8: a prompt of 6, 3 that are verified together, 1.
ALONE = 6 + (1 + 2 * 1.76 / 3) + 1
TOUCHED = 8 * (1 - (1 - 2 / 8) ** ALONE)


def score(logit):
    return math.sqrt(math.log1p(math.exp(logit)))


class TestRoute:
    LOGITS = fp32(("tokens", 10), ("expert_scores", 8))
    BIAS = fp32(("expert_scores", 8))
    TABLE = matrix(INT64, ("token_ids", 50), ("slots", 2))

    def test_shape_is_ids_and_weights_of_the_slots(self):
        assert infer(Route(2, 1.5), [self.LOGITS], [self.BIAS]) == (IDS, WEIGHTS)
        hashed = Route(2, 1.5, hashed=True)
        assert infer(hashed, [self.LOGITS, int32(("tokens", 10))], [self.TABLE]) == (IDS, WEIGHTS)

    def test_refuses_a_bias_of_other_experts(self):
        bias = fp32(("expert_scores", 7))
        refuses(Route(2, 1.5), [self.LOGITS], [bias], naming=["'expert_scores', 7"])

    def test_refuses_ids_or_a_table_that_do_not_fit_a_hash_layer(self):
        hashed = Route(2, 1.5, hashed=True)
        refuses(hashed, [self.LOGITS], [self.TABLE], naming=["1 and 1"])
        refuses(hashed, [self.LOGITS, int32(("tokens", 9))], [self.TABLE], naming=["'tokens', 9"])
        table = matrix(INT64, ("token_ids", 50), ("slots", 6))
        ids = int32(("tokens", 10))
        refuses(hashed, [self.LOGITS, ids], [table], naming=["'slots', 6"])

    def test_value_selects_with_the_bias_and_weighs_without(self):
        logits, bias = [[0.0, 1.0, 2.0]], [2.0, 0.0, 0.0]  # best with the bias: 0, then 2
        choices = OwnChoices()
        ids, weights = run(Route(2, 1.5), [logits, bias], choices=choices)
        assert ids.tolist() == [[0, 2]]
        total = score(0) + score(2)
        assert weights[0] == pytest.approx([1.5 * score(0) / total, 1.5 * score(2) / total])
        assert weights.sum() == pytest.approx(1.5)
        assert choices.asked == [("path", "experts")]

    def test_value_of_ties_takes_the_lowest_ids(self):
        ids, _ = run(Route(2, 1.0), [np.zeros((1, 4)), np.zeros(4)])
        assert ids.tolist() == [[0, 1]]

    def test_value_unnormalised(self):
        _, weights = run(Route(1, 2.5, normalise=False), [[[0.5, -40.0]], [0.0, 0.0]])
        assert weights.tolist() == [[pytest.approx(2.5 * score(0.5))]]

    def test_value_of_large_and_small_logits_is_finite(self):
        _, weights = run(Route(2, 1.0, normalise=False), [[[800.0, -800.0]], [0.0, 0.0]])
        assert weights[0] == pytest.approx([800**0.5, 0.0])

    def test_value_of_a_hash_layer_looks_the_experts_up_by_token(self):
        table = np.array([[0, 1], [2, 0], [1, 2]])
        logits = [[0.0, 1.0, 2.0], [5.0, 0.0, -1.0]]
        choices = OwnChoices()
        hashed = Route(2, 1.5, hashed=True)
        ids, weights = run(hashed, [logits, [2, 1], table], choices=choices)
        assert ids.tolist() == [[1, 2], [2, 0]]
        assert weights[0] == pytest.approx(
            [1.5 * score(1) / (score(1) + score(2)), 1.5 * score(2) / (score(1) + score(2))]
        )
        assert weights[1, 0] == pytest.approx(1.5 * score(-1) / (score(-1) + score(5)))
        assert choices.asked == []

    def test_demand(self):
        # A logit: bias and 2 passes of selection; exponential, logarithm, root.
        assert demand(Route(2, 1.5), [self.LOGITS], [self.BIAS]) == Work(
            vector_ops=10 * 8 * (1 + 2),
            special_ops=3 * 10 * 8,
            input_bytes=(10 * 8 * 4,),
            param_bytes=(8 * 4,),
            output_bytes=(10 * 2 * 4, 10 * 2 * 4),
        )

    def test_demand_of_a_hash_layer_reads_a_row_a_token_and_selects_nothing(self):
        logits, ids = fp32(("tokens", 2), ("expert_scores", 8)), int32(("tokens", 2))
        assert demand(Route(2, 1.5, hashed=True), [logits, ids], [self.TABLE], UNIFORM) == Work(
            special_ops=3 * 2 * 8,
            input_bytes=(2 * 8 * 4, 2 * 4),
            param_bytes=(2 * 2 * 8,),
            output_bytes=(2 * 2 * 4, 2 * 2 * 4),
        )


class TestExpertUp:
    def test_shape_is_a_row_a_slot(self):
        assert infer(ExpertUp(8, "fp8"), [X, IDS], [UP]) == (
            bf16(("rows", 20), ("gate_up", 2), ("ffn", 32)),
        )

    def test_shape_of_a_rank_that_holds_three_of_eight_experts(self):
        held = matrix(
            FP4_GROUP, ("experts", 3), ("gate_up", 2), ("ffn", 32), ("hidden", 64), lead=1
        )
        (out,) = infer(ExpertUp(8, "fp8"), [X, IDS], [held])
        assert out.dim("rows") == 8  # 20 x 3 / 8 = 7.5

    def test_refuses_another_hidden_size_other_tokens_or_a_fused_axis(self):
        up = ExpertUp(8, "fp8")
        refuses(up, [bf16(("tokens", 10), ("hidden", 63)), IDS], [UP], naming=["63", "64"])
        refuses(up, [X, int32(("tokens", 9), ("slots", 2))], [UP], naming=["'tokens', 9"])
        fused = matrix(FP4_GROUP, ("experts", 8), ("ffn", 64), ("hidden", 64), lead=1)
        refuses(up, [X, IDS], [fused], naming=["ffn"])

    def test_value_multiplies_each_slot_with_its_expert(self):
        x, ids = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[2, 0], [1, 2]])
        weight = np.random.default_rng(0).normal(size=(3, 2, 4, 2))
        (y,) = run(ExpertUp(3, "fp8"), [x, ids, weight])
        for row, (token, expert) in enumerate([(0, 2), (0, 0), (1, 1), (1, 2)]):
            for half in range(2):
                for out in range(4):
                    w = weight[expert, half, out]
                    expected = w[0] * x[token, 0] + w[1] * x[token, 1]
                    assert y[row, half, out] == pytest.approx(expected)

    def test_value_of_a_rank_holds_the_slots_of_its_experts_only(self):
        x, ids = np.array([[1.0], [10.0]]), np.array([[2, 0], [1, 3]])
        weight = np.array([2.0, 3.0]).reshape(2, 1, 1, 1)  # experts 2 and 3
        (y,) = run(ExpertUp(4, "fp8"), [x, ids, weight], shard={"experts": 1})
        assert y.reshape(-1).tolist() == [2.0, 30.0]

    def test_demand(self):
        assert demand(ExpertUp(8, "fp8xfp4"), [X, IDS], [UP]) == Work(
            macs={"fp8xfp4": 10 * 2 * (2 * 32) * 64},
            input_bytes=(10 * 64 * 2, 10 * 2 * 4),
            param_bytes=(round(TOUCHED * UP_BYTES),),
            output_bytes=(20 * 2 * 32 * 2,),
        )

    def test_demand_of_a_uniform_step_and_of_recorded_loads(self):
        operands = [bf16(("tokens", 2), ("hidden", 64)), int32(("tokens", 2), ("slots", 2))]
        up = ExpertUp(8, "fp8xfp4")
        work = demand(up, operands, [UP], UNIFORM)
        assert work.macs == {"fp8xfp4": 2 * 2 * (2 * 32) * 64}
        assert work.param_bytes == (round((8 - 8 * 0.75**2) * UP_BYTES),)  # 3.5 experts
        recorded = demand(up, operands, [UP], UNIFORM, RunStats(distinct_experts=3.0))
        assert recorded.param_bytes == (3 * UP_BYTES,)

    def test_demand_of_a_rank_is_its_share(self):
        held = matrix(
            FP4_GROUP, ("experts", 2), ("gate_up", 2), ("ffn", 32), ("hidden", 64), lead=1
        )
        work = demand(ExpertUp(8, "fp8xfp4"), [X, IDS], [held])
        assert work.macs == {"fp8xfp4": 5 * (2 * 32) * 64}
        assert work.param_bytes == (round(TOUCHED / 4 * UP_BYTES),)
        assert not ExpertUp(8, "fp8").contracted_axes(Types((X, IDS), (held,)))


class TestExpertDown:
    H = bf16(("rows", 20), ("ffn", 32))

    def test_shape_is_a_row_a_token(self):
        assert infer(ExpertDown(8, "fp8"), [self.H, IDS, WEIGHTS], [DOWN]) == (X,)

    def test_refuses_rows_ids_or_weights_that_do_not_fit(self):
        down = ExpertDown(8, "fp8")
        wide = bf16(("rows", 20), ("ffn", 31))
        refuses(down, [wide, IDS, WEIGHTS], [DOWN], naming=["'ffn', 31", "'ffn', 32"])
        few = bf16(("rows", 19), ("ffn", 32))
        refuses(down, [few, IDS, WEIGHTS], [DOWN], naming=["'rows', 19"])
        weights = fp32(("tokens", 10), ("slots", 3))
        refuses(down, [self.H, IDS, weights], [DOWN], naming=["'slots', 3"])

    def test_value_weighs_and_sums_the_slots(self):
        h = np.array([[1.0], [2.0], [3.0], [4.0]])
        ids, weights = np.array([[2, 0], [1, 2]]), np.array([[0.5, 10.0], [1.0, -1.0]])
        down = np.array([[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]])
        (y,) = run(ExpertDown(3, "fp8"), [h, ids, weights, down])
        assert y.tolist() == [
            [0.5 * 5 * 1 + 10 * 1 * 2, 0.5 * 6 * 1 + 10 * 2 * 2],
            [3 * 3 - 5 * 4, 4 * 3 - 6 * 4],
        ]

    def test_value_of_a_rank_leaves_out_slots_held_elsewhere(self):
        h, ids = np.array([[7.0]]), np.array([[2, 0], [1, 1]])  # one row: token 0, expert 2
        weights, down = np.array([[0.5, 10.0], [1.0, 1.0]]), np.array([[[3.0]], [[4.0]]])
        arrays = [h, ids, weights, down]
        (y,) = run(ExpertDown(4, "fp8"), arrays, shard={"experts": 1})
        assert y.tolist() == [[0.5 * 3 * 7], [0.0]]

    def test_demand(self):
        assert demand(ExpertDown(8, "fp8xfp4"), [self.H, IDS, WEIGHTS], [DOWN]) == Work(
            macs={"fp8xfp4": 10 * 2 * 64 * 32},
            vector_ops=2 * 20 * 64,
            input_bytes=(20 * 32 * 2, 10 * 2 * 4, 10 * 2 * 4),
            param_bytes=(round(TOUCHED * DOWN_BYTES),),
            output_bytes=(10 * 64 * 2,),
        )

    def test_demand_of_a_uniform_step(self):
        operands = [
            bf16(("rows", 4), ("ffn", 32)),
            int32(("tokens", 2), ("slots", 2)),
            fp32(("tokens", 2), ("slots", 2)),
        ]
        work = demand(ExpertDown(8, "fp8"), operands, [DOWN], UNIFORM)
        assert work.macs == {"fp8": 2 * 2 * 64 * 32}
        assert work.param_bytes == (round((8 - 8 * 0.75**2) * DOWN_BYTES),)

    def test_experts_and_their_inner_axis_are_summed_over(self):
        types = Types((self.H, IDS, WEIGHTS), (DOWN,))
        assert ExpertDown(8, "fp8").contracted_axes(types) == {"ffn", "experts"}
