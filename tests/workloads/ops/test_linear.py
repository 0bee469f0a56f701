import numpy as np

from tests.workloads.ops.hand import RAGGED, UNIFORM, bf16, demand, infer, matrix, refuses, run
from workloads.dtype import BF16, FP4_GROUP, FP8_BLOCK, FP32
from workloads.op import Types
from workloads.ops import GroupedLinear, Linear
from workloads.tensor_type import TensorType
from workloads.work import Work

X = bf16(("tokens", 10), ("hidden", 256))
QUERY_UP = matrix(FP8_BLOCK, ("heads", 2), ("head_dim", 96), ("hidden", 256))


class TestLinear:
    def test_shape_is_that_of_the_rows_of_the_weight(self):
        assert infer(Linear(), [X], [QUERY_UP]) == (
            bf16(("tokens", 10), ("heads", 2), ("head_dim", 96)),
        )

    def test_shape_with_two_contracted_axes(self):
        x = bf16(("tokens", 10), ("groups", 2), ("o_rank", 3))
        w = matrix(FP8_BLOCK, ("hidden", 5), ("groups", 2), ("o_rank", 3), inner=2)
        assert infer(Linear(out=FP32, inner=2), [x], [w]) == (
            TensorType((("tokens", 10), ("hidden", 5)), FP32),
        )

    def test_refuses_other_columns_than_the_input_ends_in(self):
        for name, size in (("hidden", 255), ("q_lora", 256)):
            w = matrix(BF16, ("rows", 4), (name, size))
            refuses(Linear(), [X], [w], naming=["'hidden', 256", f"'{name}', {size}"])

    def test_refuses_a_weight_contracted_over_another_number_of_axes(self):
        w = matrix(BF16, ("rows", 4), ("tokens", 10), ("hidden", 256), inner=2)
        refuses(Linear(), [X], [w], naming=["hidden"])
        refuses(Linear(), [X, X], [QUERY_UP], naming=["2 and 1"])

    def test_value_contracts_the_last_axis_and_scales(self):
        x = np.array([[1.0, 2.0], [0.0, -1.0]])
        w = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 2.0]])
        (y,) = run(Linear(), [x, w])
        assert y.tolist() == [[1, 5, 4], [0, -1, -2]]
        (half,) = run(Linear(scale=0.5), [x, w])
        assert half.tolist() == [[0.5, 2.5, 2], [0, -0.5, -1]]

    def test_value_over_two_axes_in_row_major_order(self):
        x = np.array([[[1.0, 2.0], [3.0, 4.0]]])
        w = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [10.0, 100.0]]])
        (y,) = run(Linear(inner=2), [x, w])
        assert y.tolist() == [[1.0, 2 + 30 + 400]]

    def test_value_keeps_the_row_axes_of_the_weight(self):
        x = np.array([[2.0]])
        (y,) = run(Linear(), [x, np.arange(6.0).reshape(2, 3, 1)])
        assert y.tolist() == [[[0, 2, 4], [6, 8, 10]]]

    def test_demand(self):
        # 2 x 96 = 192 rows: two row blocks of 128, two column blocks.
        assert demand(Linear(), [X], [QUERY_UP]) == Work(
            macs={"fp8": 10 * 192 * 256},
            input_bytes=(10 * 256 * 2,),
            param_bytes=(192 * 256 + 2 * 2,),
            output_bytes=(10 * 192 * 2,),
        )

    def test_demand_of_a_uniform_step_in_another_rate_class(self):
        x = bf16(("tokens", 2), ("hidden", 64))
        w = matrix(FP4_GROUP, ("rows", 8), ("hidden", 64))
        assert demand(Linear(out=FP32, math="fp8xfp4"), [x], [w], UNIFORM) == Work(
            macs={"fp8xfp4": 2 * 8 * 64},
            input_bytes=(2 * 64 * 2,),
            param_bytes=(8 * 64 // 2 + 8 * 2,),
            output_bytes=(2 * 8 * 4,),
        )

    def test_columns_are_what_a_partial_sum_is_over(self):
        assert Linear().contracted_axes(Types((X,), (QUERY_UP,))) == {"hidden"}


class TestGroupedLinear:
    HEADS = bf16(("tokens", 10), ("heads", 4), ("head_dim", 64))
    WEIGHT = matrix(FP8_BLOCK, ("groups", 2), ("o_rank", 16), ("group_in", 128), lead=1)

    def test_shape_is_groups_and_rows(self):
        assert infer(GroupedLinear(), [self.HEADS], [self.WEIGHT]) == (
            bf16(("tokens", 10), ("groups", 2), ("o_rank", 16)),
        )

    def test_refuses_heads_that_do_not_fill_the_groups(self):
        heads = bf16(("tokens", 10), ("heads", 3), ("head_dim", 64))
        refuses(GroupedLinear(), [heads], [self.WEIGHT], naming=["heads", "2 groups", "128"])

    def test_refuses_a_weight_without_a_group_axis(self):
        w = matrix(FP8_BLOCK, ("o_rank", 16), ("group_in", 256))
        refuses(GroupedLinear(), [self.HEADS], [w], naming=["heads"])

    def test_value_multiplies_each_group_with_its_own_matrix(self):
        x = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])  # 2 heads of 2
        w = np.array([[[1.0, 1.0]], [[10.0, -1.0]]])  # one row a group
        (y,) = run(GroupedLinear(), [x, w])
        assert y.tolist() == [[[3.0], [26.0]], [[1.0], [-1.0]]]

    def test_value_joins_neighbouring_heads_in_a_group(self):
        x = np.array([[[1.0], [2.0], [3.0], [4.0]]])  # 4 heads of 1, 2 a group
        w = np.array([[[1.0, 10.0]], [[100.0, 1000.0]]])
        (y,) = run(GroupedLinear(), [x, w])
        assert y.tolist() == [[[21.0], [4300.0]]]

    def test_demand(self):
        assert demand(GroupedLinear(), [self.HEADS], [self.WEIGHT], RAGGED) == Work(
            macs={"fp8": 10 * 2 * 16 * 128},
            input_bytes=(10 * 256 * 2,),
            param_bytes=(2 * (16 * 128 + 1),),
            output_bytes=(10 * 2 * 16 * 2,),
        )

    def test_demand_of_a_uniform_step(self):
        heads = bf16(("tokens", 2), ("heads", 4), ("head_dim", 64))
        assert demand(GroupedLinear(out=FP32), [heads], [self.WEIGHT], UNIFORM) == Work(
            macs={"fp8": 2 * 2 * 16 * 128},
            input_bytes=(2 * 256 * 2,),
            param_bytes=(2 * (16 * 128 + 1),),
            output_bytes=(2 * 2 * 16 * 4,),
        )
