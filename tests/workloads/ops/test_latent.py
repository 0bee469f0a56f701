import math
from dataclasses import replace

import numpy as np
import pytest

from tests.workloads.ops.hand import (
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
from workloads.ops.latent import Concat, GroupedRoute, LatentAttention, LayerNorm
from workloads.step_shape import StepShape
from workloads.work import Work

# Two requests that decode position 130, four heads of 8 latents and 2 rope values, 3 picks.
Q = bf16(("tokens", 2), ("heads", 4), ("latent", 8))
ROPE = bf16(("tokens", 2), ("heads", 4), ("rope", 2))
IDS = int32(("tokens", 2), ("picks", 3))
ATTENTION = LatentAttention(top_k=3, scale=0.5)


class TestLatentAttention:
    def test_shape_is_that_of_the_latent_queries(self):
        assert infer(ATTENTION, [Q, ROPE, IDS], step=UNIFORM) == (Q,)

    def test_refuses_other_heads_or_picks(self):
        other = bf16(("tokens", 2), ("heads", 5), ("rope", 2))
        refuses(ATTENTION, [Q, other, IDS], step=UNIFORM, naming=["'heads', 5"])
        few = int32(("tokens", 2), ("picks", 2))
        refuses(ATTENTION, [Q, ROPE, few], step=UNIFORM, naming=["'picks', 2"])
        refuses(ATTENTION, [Q, ROPE], step=UNIFORM, naming=["2 and 0"])

    def test_value_weighs_the_latents_of_picked_rows(self):
        # Scores 1 and 1 + log 3 weigh the rows by 1/4 and 3/4; the third pick is none.
        rows = Cells({(0, 0): [1.0, 0.0, 2.0], (0, 1): [0.0, 1.0, 2.0]}, dim=3)
        q, rope = np.array([[[0.0, 2 * math.log(3)]]]), np.array([[[1.0]]])
        (out,) = run(LatentAttention(3, 0.5), [q, rope, [[0, 1, -1]]], StepShape(((1, 1),)), [rows])
        assert out == pytest.approx(np.array([[[0.25, 0.75]]]))

    def test_demand_by_hand(self):
        # 2 queries x 3 picks; a head and pair: 8 + 2 for the score, 8 for the sum.
        found = demand(ATTENTION, [Q, ROPE, IDS], step=UNIFORM)
        assert replace(found, reads=()) == Work(
            macs={"bf16": 18 * 4 * 6},
            vector_ops=4 * 4 * 6 + 2 * 4 * 8,
            special_ops=4 * 6 + 4 * 2,
            input_bytes=(2 * 4 * 8 * 2, 2 * 4 * 2 * 2, 2 * 3 * 4),
            output_bytes=(2 * 4 * 8 * 2,),
        )
        (read,) = found.reads
        assert (read.region, read.entries, read.pattern) == (0, 6, "gather")
        assert read.distinct == pytest.approx(6.0)


class TestConcat:
    def test_shape_adds_the_last_axes(self):
        assert infer(Concat("query"), [Q, ROPE]) == (
            bf16(("tokens", 2), ("heads", 4), ("query", 10)),
        )

    def test_refuses_other_leading_axes(self):
        other = bf16(("tokens", 3), ("heads", 4), ("rope", 2))
        refuses(Concat("query"), [Q, other], naming=["'tokens', 3"])

    def test_value_stands_side_by_side(self):
        (out,) = run(Concat("query"), [[[1.0, 2.0]], [[3.0]]])
        assert out.tolist() == [[1.0, 2.0, 3.0]]

    def test_demand_is_a_copy(self):
        assert demand(Concat("query"), [Q, ROPE]) == Work(
            input_bytes=(128, 32), output_bytes=(160,)
        )


X = bf16(("tokens", 2), ("hidden", 8))
HIDDEN = fp32(("hidden", 8))


class TestLayerNorm:
    def test_shape_is_kept(self):
        assert infer(LayerNorm(1e-6), [X], [HIDDEN, HIDDEN]) == (X,)

    def test_refuses_a_bias_of_another_axis(self):
        refuses(LayerNorm(1e-6), [X], [HIDDEN, fp32(("hidden", 7))], naming=["'hidden', 8"])
        refuses(LayerNorm(1e-6), [X], [HIDDEN], naming=["1 and 1"])

    def test_value_is_centred_and_scaled(self):
        # Mean 2, variance 9, and eps 7 makes the root 4.
        (y,) = run(LayerNorm(7.0), [[[5.0, -1.0]], [4.0, 8.0], [1.0, 0.0]])
        assert y.tolist() == [[4.0, -6.0]]

    def test_demand_by_hand(self):
        assert demand(LayerNorm(1e-6), [X], [HIDDEN, HIDDEN]) == Work(
            vector_ops=6 * 16,
            special_ops=4,
            input_bytes=(32,),
            param_bytes=(32, 32),
            output_bytes=(32,),
        )


LOGITS = fp32(("tokens", 2), ("experts", 8))
BIAS = fp32(("experts", 8))
ROUTE = GroupedRoute(per_token=2, scale=2.5, groups=4, kept=2)


class TestGroupedRoute:
    def test_shape_is_ids_and_weights(self):
        slots = (("tokens", 2), ("slots", 2))
        assert infer(ROUTE, [LOGITS], [BIAS]) == (int32(*slots), fp32(*slots))

    def test_refuses_groups_that_do_not_divide(self):
        refuses(GroupedRoute(2, 2.5, 3, 2), [LOGITS], [BIAS], naming=["3 groups"])
        refuses(ROUTE, [LOGITS], [fp32(("experts", 7))], naming=["'experts', 7"])

    def test_value_stays_within_the_best_groups(self):
        # Scores 0.5; the bias makes groups 0 and 3 the best by their two, though expert 4 of
        # group 2 has the largest of all. Without bias the chosen weigh the same.
        bias = np.array([0.6, 0.6, 0.0, 0.0, 0.9, -0.9, 0.5, 0.55])
        choices = OwnChoices()
        ids, weights = run(ROUTE, [np.zeros((1, 8)), bias], choices=choices)
        assert ids.tolist() == [[0, 1]]
        assert weights == pytest.approx(np.array([[1.25, 1.25]]))
        assert choices.asked == [("path", "experts")]

    def test_demand_by_hand(self):
        assert demand(ROUTE, [LOGITS], [BIAS]) == Work(
            vector_ops=16 * 5,
            special_ops=32,
            input_bytes=(64,),
            param_bytes=(32,),
            output_bytes=(16, 16),
        )
