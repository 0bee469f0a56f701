import math

import numpy as np
import pytest

from tests.workloads.ops.hand import UNIFORM, bf16, demand, infer, int32, matrix, refuses, run
from workloads.dtype import BF16
from workloads.op import Types
from workloads.ops import Add, Embed, LastRows, Repeat, SwiGlu
from workloads.work import Work

IDS = int32(("tokens", 10))
X = bf16(("tokens", 10), ("hidden", 6))
STREAMS = bf16(("tokens", 10), ("streams", 3), ("hidden", 6))


class TestEmbed:
    TABLE = matrix(BF16, ("vocab", 50), ("hidden", 6))

    def test_shape_is_a_row_a_token(self):
        assert infer(Embed(), [IDS], [self.TABLE]) == (X,)

    def test_refuses_a_table_that_is_no_matrix_and_ids_that_are_no_list(self):
        refuses(Embed(), [IDS], [bf16(("vocab", 50))], naming=["tokens", "vocab"])
        refuses(Embed(), [X], [self.TABLE], naming=["hidden", "vocab"])
        refuses(Embed(), [IDS], naming=["1 and 0"])

    def test_value_is_the_row_of_the_id(self):
        table = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        (y,) = run(Embed(), [[2, 0, 2], table])
        assert y.tolist() == [[4, 5], [0, 1], [4, 5]]

    def test_value_of_a_rank_is_zero_for_ids_of_other_ranks(self):
        table = np.array([[4.0, 5.0], [6.0, 7.0]])  # rows 2 and 3 of the whole table
        (y,) = run(Embed(), [[3, 0, 2, 5], table], shard={"vocab": 1})
        assert y.tolist() == [[6, 7], [0, 0], [4, 5], [0, 0]]
        assert Embed().contracted_axes(Types((IDS,), (self.TABLE,))) == {"vocab"}

    def test_demand_reads_a_row_a_token_and_not_the_table(self):
        assert demand(Embed(), [IDS], [self.TABLE]) == Work(
            input_bytes=(10 * 4,), param_bytes=(10 * 6 * 2,), output_bytes=(10 * 6 * 2,)
        )
        assert demand(Embed(), [int32(("tokens", 2))], [self.TABLE], UNIFORM) == Work(
            input_bytes=(2 * 4,), param_bytes=(2 * 6 * 2,), output_bytes=(2 * 6 * 2,)
        )


class TestRepeat:
    def test_shape_has_the_new_axis_after_the_tokens(self):
        assert infer(Repeat("streams", 3), [X]) == (STREAMS,)

    def test_refuses_another_number_of_operands(self):
        refuses(Repeat("streams", 3), [X, X], naming=["2 and 0"])

    def test_value_copies_every_row(self):
        (y,) = run(Repeat("streams", 2), [[[1.0, 2.0], [3.0, 4.0]]])
        assert y.tolist() == [[[1, 2], [1, 2]], [[3, 4], [3, 4]]]

    def test_demand_reads_once_and_writes_every_copy(self):
        assert demand(Repeat("streams", 3), [X]) == Work(
            input_bytes=(10 * 6 * 2,), output_bytes=(3 * 10 * 6 * 2,)
        )
        x = bf16(("tokens", 2), ("hidden", 6))
        assert demand(Repeat("streams", 4), [x], step=UNIFORM).output_bytes == (4 * 2 * 6 * 2,)


class TestAdd:
    def test_shape_is_that_of_the_first(self):
        assert infer(Add(), [X, X]) == (X,)
        assert infer(Add(), [STREAMS, X]) == (STREAMS,)

    def test_refuses_axes_that_do_not_meet(self):
        wide = bf16(("tokens", 10), ("hidden", 7))
        refuses(Add(), [X, wide], naming=["'hidden', 6", "'hidden', 7"])
        refuses(Add(), [X, STREAMS], naming=["streams"])
        four = bf16(("tokens", 10), ("streams", 4), ("hidden", 6))
        refuses(Add(), [STREAMS, four], naming=["'streams', 3", "'streams', 4"])

    def test_value_adds_elements_or_the_same_row_to_every_stream(self):
        (y,) = run(Add(), [[[1.0, 2.0]], [[10.0, 20.0]]])
        assert y.tolist() == [[11, 22]]
        (y,) = run(Add(), [[[[1.0, 2.0], [3.0, 4.0]]], [[10.0, 20.0]]])
        assert y.tolist() == [[[11, 22], [13, 24]]]

    def test_demand(self):
        assert demand(Add(), [STREAMS, X]) == Work(
            vector_ops=10 * 3 * 6,
            input_bytes=(10 * 3 * 6 * 2, 10 * 6 * 2),
            output_bytes=(10 * 3 * 6 * 2,),
        )
        x = bf16(("tokens", 2), ("hidden", 6))
        assert demand(Add(), [x, x], step=UNIFORM) == Work(
            vector_ops=2 * 6, input_bytes=(24, 24), output_bytes=(24,)
        )


class TestLastRows:
    def test_shape_is_a_row_a_request(self):
        (out,) = infer(LastRows(), [STREAMS])
        assert out == bf16(("requests", 3), ("streams", 3), ("hidden", 6))

    def test_refuses_another_number_of_rows_than_tokens(self):
        refuses(LastRows(), [bf16(("tokens", 9), ("hidden", 6))], naming=["10 tokens", "9"])

    def test_value_is_the_last_row_of_each_request(self):
        (y,) = run(LastRows(), [[[row] for row in range(10)]])
        assert y.tolist() == [[6 - 1], [6 + 3 - 1], [6 + 3 + 1 - 1]]

    def test_demand_moves_only_those_rows(self):
        assert demand(LastRows(), [X]) == Work(input_bytes=(3 * 6 * 2,), output_bytes=(3 * 6 * 2,))
        x = bf16(("tokens", 2), ("hidden", 6))
        assert demand(LastRows(), [x], step=UNIFORM).input_bytes == (2 * 6 * 2,)


class TestSwiGlu:
    GATE_UP = bf16(("rows", 5), ("gate_up", 2), ("ffn", 8))

    def test_shape_loses_the_gate_up_axis(self):
        assert infer(SwiGlu(10.0), [self.GATE_UP]) == (bf16(("rows", 5), ("ffn", 8)),)

    def test_refuses_inputs_without_gate_and_up(self):
        refuses(SwiGlu(10.0), [bf16(("rows", 5), ("ffn", 8))], naming=["gate_up", "ffn"])
        refuses(SwiGlu(10.0), [bf16(("ffn", 8))], naming=["gate_up"])
        refuses(SwiGlu(10.0), [bf16(("rows", 5), ("gate_up", 3), ("ffn", 8))], naming=["3"])

    @pytest.mark.parametrize(
        ("gate", "up", "used_gate", "used_up"),
        [(0.5, 3.0, 0.5, 3.0), (12.0, 2.0, 10.0, 2.0), (1.0, -11.0, 1.0, -10.0),
         (-30.0, 11.0, -30.0, 10.0)],
    )  # fmt: skip
    def test_value_clamps_gate_above_and_up_on_both_sides(self, gate, up, used_gate, used_up):
        (y,) = run(SwiGlu(10.0), [[[[gate], [up]]]])
        silu = used_gate / (1 + math.exp(-used_gate))
        assert y.tolist() == [[pytest.approx(silu * used_up, rel=1e-14)]]

    def test_value_without_a_limit(self):
        (y,) = run(SwiGlu(None), [[[[12.0], [-20.0]]]])
        assert y[0, 0] == pytest.approx(-240 / (1 + math.exp(-12)))

    def test_demand(self):
        # An element: clamps 1 + 2, sum of the sigmoid, two products; exponential and reciprocal.
        assert demand(SwiGlu(10.0), [self.GATE_UP]) == Work(
            vector_ops=(3 + 1 + 2) * 5 * 8,
            special_ops=2 * 5 * 8,
            input_bytes=(5 * 2 * 8 * 2,),
            output_bytes=(5 * 8 * 2,),
        )
        none = bf16(("rows", 0), ("gate_up", 2), ("ffn", 8))
        assert demand(SwiGlu(10.0), [none], step=UNIFORM) == Work(
            input_bytes=(0,), output_bytes=(0,)
        )
