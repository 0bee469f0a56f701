import numpy as np
import pytest

from tests.workloads.ops.hand import UNIFORM, bf16, demand, fp32, infer, refuses, run
from workloads.dtype import FP32
from workloads.ops import RmsNorm
from workloads.work import Work

X = bf16(("tokens", 10), ("hidden", 48))
WEIGHT = bf16(("hidden", 48))
STREAMS = bf16(("tokens", 10), ("streams", 4), ("hidden", 48))


class TestRmsNorm:
    def test_shape_is_kept(self):
        assert infer(RmsNorm(1e-6), [X], [WEIGHT]) == (X,)
        assert infer(RmsNorm(1e-6, over=2, out=FP32), [STREAMS]) == (
            fp32(("tokens", 10), ("streams", 4), ("hidden", 48)),
        )

    def test_refuses_a_weight_of_another_axis(self):
        refuses(RmsNorm(1e-6), [X], [bf16(("hidden", 47))], naming=["'hidden', 47", "'hidden', 48"])
        refuses(RmsNorm(1e-6), [X], [bf16(("q_lora", 48))], naming=["q_lora", "hidden"])

    def test_refuses_more_operands_or_too_few_axes(self):
        refuses(RmsNorm(1e-6), [X, X], [WEIGHT], naming=["2 and 1"])
        refuses(RmsNorm(1e-6, over=3), [X], naming=["3 axes", "hidden"])

    def test_value_divides_by_the_root_of_the_mean_square(self):
        # mean(1, 49) = 25, and eps 11 makes the root 6.
        x, weight = np.array([[1.0, -7.0]]), np.array([2.0, 3.0])
        (y,) = run(RmsNorm(0.0), [x])
        assert y.tolist() == [[0.2, -1.4]]
        (y,) = run(RmsNorm(11.0), [x, weight])
        assert y[0] == pytest.approx([2 / 6, -21 / 6])

    def test_value_over_two_axes_norms_the_streams_together(self):
        x = np.array([[[1.0, 1.0], [1.0, -5.0]], [[2.0, 2.0], [2.0, 2.0]]])  # mean squares 7, 4
        (y,) = run(RmsNorm(0.0, over=2), [x])
        assert y[0] == pytest.approx(x[0] / 7**0.5)
        assert y[1] == pytest.approx(np.ones((2, 2)))

    def test_demand_with_a_weight(self):
        assert demand(RmsNorm(1e-6), [X], [WEIGHT]) == Work(
            vector_ops=4 * 10 * 48,
            special_ops=10,
            input_bytes=(10 * 48 * 2,),
            param_bytes=(48 * 2,),
            output_bytes=(10 * 48 * 2,),
        )

    def test_demand_without_a_weight_over_two_axes(self):
        streams = bf16(("tokens", 2), ("streams", 4), ("hidden", 48))
        assert demand(RmsNorm(1e-6, over=2, out=FP32), [streams], step=UNIFORM) == Work(
            vector_ops=3 * 2 * 4 * 48,
            special_ops=2,
            input_bytes=(2 * 4 * 48 * 2,),
            output_bytes=(2 * 4 * 48 * 4,),
        )

    def test_demand_of_a_norm_of_each_head(self):
        q = bf16(("tokens", 10), ("heads", 3), ("head_dim", 8))
        assert demand(RmsNorm(1e-6), [q]).special_ops == 10 * 3

    def test_demand_of_no_rows_is_nothing_but_the_weight(self):
        none = bf16(("entries", 0), ("hidden", 48))
        assert demand(RmsNorm(1e-6), [none], [WEIGHT]) == Work(
            input_bytes=(0,), param_bytes=(96,), output_bytes=(0,)
        )
