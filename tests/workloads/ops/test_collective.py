import numpy as np
import pytest

from tests.workloads.ops.hand import (
    RAGGED,
    UNIFORM,
    batch_of,
    bf16,
    demand,
    fp32,
    infer,
    int32,
    refuses,
    run,
)
from workloads.ops import AllGather, AllReduce, ExpertCombine, ExpertDispatch, ReduceScatter
from workloads.ops.collective import rows_by_expert
from workloads.parallel import ParallelLayout
from workloads.step_shape import StepShape
from workloads.work import Work

X = bf16(("tokens", 10), ("hidden", 64))
IDS = int32(("tokens", 10), ("slots", 6))
WEIGHTS = fp32(("tokens", 10), ("slots", 6))
X_BYTES, IDS_BYTES, WEIGHTS_BYTES = 10 * 64 * 2, 10 * 6 * 4, 10 * 6 * 4

ONE = ParallelLayout()
TENSOR4 = ParallelLayout(tensor=4)
# Ranks 0 1 | 2 3: two tensor groups, which are two data ranks.
TWO_BY_TWO = ParallelLayout(tensor=2, data=2)
# Batches of the two data ranks: 3 tokens and 2.
BATCHES = (batch_of(StepShape(((3, 0),))), batch_of(StepShape(((1, 4), (1, 0)))))


def on_rank(op, rank, peers):
    """Output of the operation on one rank of TWO_BY_TWO, given every rank's operands."""
    peers = tuple(tuple(np.asarray(a) for a in operands) for operands in peers)
    own = BATCHES[rank // 2]
    return run(op, peers[rank], batch=own, rank=rank, peers=peers, peer_batches=BATCHES)


class TestAllReduce:
    def test_shape_is_kept(self):
        assert infer(AllReduce(TENSOR4), [X]) == (X,)

    def test_refuses_another_number_of_operands(self):
        refuses(AllReduce(TENSOR4), [X, X], naming=["2 and 0"])

    def test_value_is_the_sum_over_the_own_tensor_group(self):
        peers = [([[1.0, 2.0]],), ([[10.0, 20.0]],), ([[100.0, 200.0]],), ([[0.5, 0.25]],)]
        for rank, total in enumerate([[11, 22], [11, 22], [100.5, 200.25], [100.5, 200.25]]):
            (y,) = on_rank(AllReduce(TWO_BY_TWO), rank, peers)
            assert y.tolist() == [total]

    def test_demand_sends_twice_the_payload_less_the_own_part(self):
        assert demand(AllReduce(TENSOR4), [X]) == Work(
            vector_ops=640 * 3 // 4,
            input_bytes=(X_BYTES,),
            output_bytes=(X_BYTES,),
            link_bytes=2 * X_BYTES * 3 // 4,
            link_phases=2,
        )
        x = bf16(("tokens", 2), ("hidden", 64))
        assert demand(AllReduce(TWO_BY_TWO), [x], step=UNIFORM).link_bytes == 2 * 2 * 64 * 2 // 2


class TestAllGather:
    def test_shape_grows_the_last_axis(self):
        part = fp32(("requests", 3), ("vocab", 25))
        assert infer(AllGather(TENSOR4), [part]) == (fp32(("requests", 3), ("vocab", 100)),)

    def test_refuses_another_number_of_operands(self):
        refuses(AllGather(TENSOR4), [], naming=["0 and 0"])

    def test_value_joins_the_own_tensor_group_in_rank_order(self):
        peers = [([[1.0, 2.0]],), ([[3.0, 4.0]],), ([[5.0, 6.0]],), ([[7.0, 8.0]],)]
        for rank, joined in enumerate([[1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 8]]):
            (y,) = on_rank(AllGather(TWO_BY_TWO), rank, peers)
            assert y.tolist() == [joined]

    def test_demand_sends_the_own_part_to_every_other_rank(self):
        part = fp32(("requests", 3), ("vocab", 25))
        assert demand(AllGather(TENSOR4), [part]) == Work(
            input_bytes=(3 * 25 * 4,),
            output_bytes=(3 * 100 * 4,),
            link_bytes=3 * (3 * 25 * 4),
            link_phases=1,
        )
        part = fp32(("requests", 2), ("vocab", 25))
        assert demand(AllGather(TWO_BY_TWO), [part], step=UNIFORM).link_bytes == 2 * 25 * 4


class TestReduceScatter:
    ALL = bf16(("tokens", 40), ("hidden", 64))
    DATA4 = ParallelLayout(data=4)

    def test_shape_is_the_own_tokens(self):
        assert infer(ReduceScatter(self.DATA4), [self.ALL]) == (X,)

    def test_refuses_fewer_rows_than_own_tokens(self):
        few = bf16(("tokens", 9), ("hidden", 64))
        refuses(ReduceScatter(self.DATA4), [few], naming=["10 own tokens", "'tokens', 9"])

    def test_value_is_the_sum_over_the_data_group_cut_to_own_tokens(self):
        rows = np.arange(5.0).reshape(5, 1)  # tokens 0..2 of data rank 0, 3 and 4 of data rank 1
        peers = [(rows,), (10 * rows,), (100 * rows,), (1000 * rows,)]
        expected = [[0, 101, 202], [0, 1010, 2020], [303, 404], [3030, 4040]]
        for rank, own in enumerate(expected):
            (y,) = on_rank(ReduceScatter(TWO_BY_TWO), rank, peers)
            assert y.reshape(-1).tolist() == own

    def test_demand_sends_all_but_the_own_part(self):
        assert demand(ReduceScatter(self.DATA4), [self.ALL]) == Work(
            vector_ops=40 * 64 * 3 // 4,
            input_bytes=(4 * X_BYTES,),
            output_bytes=(X_BYTES,),
            link_bytes=4 * X_BYTES * 3 // 4,
            link_phases=1,
        )
        both = bf16(("tokens", 4), ("hidden", 64))
        work = demand(ReduceScatter(TWO_BY_TWO), [both], step=UNIFORM)
        assert work.link_bytes == 4 * 64 * 2 // 2


class TestExpertDispatch:
    def test_shape_becomes_the_tokens_of_all_data_ranks(self):
        assert infer(ExpertDispatch(), [X, IDS, WEIGHTS]) == (X, IDS, WEIGHTS)
        assert infer(ExpertDispatch(TWO_BY_TWO, 17), [X, IDS, WEIGHTS]) == (
            bf16(("tokens", 17), ("hidden", 64)),
            int32(("tokens", 17), ("slots", 6)),
            fp32(("tokens", 17), ("slots", 6)),
        )

    def test_refuses_ids_or_weights_of_other_tokens_or_slots(self):
        for place, wrong in (
            (1, int32(("tokens", 9), ("slots", 6))),
            (2, fp32(("tokens", 10), ("slots", 5))),
            (0, bf16(("tokens", 10), ("streams", 4), ("hidden", 64))),
        ):
            operands = [X, IDS, WEIGHTS]
            operands[place] = wrong
            refuses(ExpertDispatch(), operands, naming=[str(wrong.axes)])

    def test_value_joins_the_data_ranks(self):
        peers = [([[float(r)]], [[r]], [[r / 10]]) for r in range(4)]
        for rank, joined in enumerate([[0, 2], [1, 3], [0, 2], [1, 3]]):
            x, ids, weights = on_rank(ExpertDispatch(TWO_BY_TWO, 2), rank, peers)
            assert x.reshape(-1).tolist() == joined
            assert ids.reshape(-1).tolist() == joined
            assert weights.reshape(-1).tolist() == [v / 10 for v in joined]

    def test_value_of_one_data_rank_is_left_alone(self):
        x, ids, weights = run(ExpertDispatch(), [[[1.0]], [[2]], [[3.0]]])
        assert (x.tolist(), ids.tolist(), weights.tolist()) == ([[1.0]], [[2]], [[3.0]])

    @pytest.mark.parametrize("layout", [ONE, TENSOR4, ParallelLayout(tensor=4, expert=4)])
    def test_demand_of_one_data_rank_is_nothing(self, layout):
        assert demand(ExpertDispatch(layout, 10), [X, IDS, WEIGHTS]) == Work()

    def test_demand_without_expert_groups_sends_the_tokens_to_the_other_data_ranks(self):
        work = demand(ExpertDispatch(ParallelLayout(data=4), 40), [X, IDS, WEIGHTS])
        own = X_BYTES + IDS_BYTES + WEIGHTS_BYTES
        assert work == Work(
            input_bytes=(X_BYTES, IDS_BYTES, WEIGHTS_BYTES),
            output_bytes=(4 * X_BYTES, 4 * IDS_BYTES, 4 * WEIGHTS_BYTES),
            link_bytes=3 * own,
            link_phases=1,
        )

    @pytest.mark.parametrize(
        ("layout", "rows"),
        [
            # 10 tokens reach 7 (1 - (7/8)^6) = 3.858 of 7 other ranks with 6 picks each: 38.6.
            (ParallelLayout(data=8, expert=8), 39),
            # Two ranks share a data rank's sending: half of them.
            (ParallelLayout(tensor=2, data=4, expert=8), 20),
            # Groups of two ranks split each expert: every row goes to both; 3 (1 - (3/4)^6).
            (ParallelLayout(data=8, expert=4), 50),
            (ParallelLayout(tensor=2, data=4, expert=4), 25),
        ],
    )
    def test_demand_of_an_all_to_all_is_fp8_rows(self, layout, rows):
        work = demand(ExpertDispatch(layout, 10 * layout.data), [X, IDS, WEIGHTS])
        assert (work.link_bytes, work.link_phases) == (rows * 64 * 1, 1)

    def test_demand_of_a_uniform_step(self):
        operands = [
            bf16(("tokens", 2), ("hidden", 64)),
            int32(("tokens", 2), ("slots", 6)),
            fp32(("tokens", 2), ("slots", 6)),
        ]
        layout = ParallelLayout(data=4, expert=4)
        work = demand(ExpertDispatch(layout, 8), operands, step=UNIFORM)
        assert work.link_bytes == 5 * 64  # 2 x 2.466 rows


class TestExpertCombine:
    ALL = bf16(("tokens", 80), ("hidden", 64))

    def test_shape_is_the_own_tokens(self):
        assert infer(ExpertCombine(6), [X]) == (X,)
        assert infer(ExpertCombine(6, ParallelLayout(data=8, expert=8)), [self.ALL]) == (X,)

    def test_refuses_fewer_rows_than_own_tokens(self):
        few = bf16(("tokens", 9), ("hidden", 64))
        refuses(ExpertCombine(6), [few], naming=["10 own tokens", "'tokens', 9"])

    def test_value_is_the_sum_over_all_ranks_cut_to_own_tokens(self):
        rows = np.arange(5.0).reshape(5, 1)
        peers = [(rows,), (10 * rows,), (100 * rows,), (1000 * rows,)]
        layout = ParallelLayout(tensor=2, data=2, expert=4)
        for rank, own in enumerate([[0, 1111, 2222], [0, 1111, 2222], [3333, 4444], [3333, 4444]]):
            (y,) = on_rank(ExpertCombine(6, layout), rank, peers)
            assert y.reshape(-1).tolist() == own

    def test_value_of_one_data_rank_is_left_alone(self):
        (y,) = run(ExpertCombine(6), [[[1.0, 2.0]]])
        assert y.tolist() == [[1, 2]]

    @pytest.mark.parametrize("layout", [ONE, TENSOR4, ParallelLayout(tensor=4, expert=4)])
    def test_demand_of_one_data_rank_is_nothing(self, layout):
        assert demand(ExpertCombine(6, layout), [X]) == Work()

    def test_demand_of_an_all_to_all_is_bf16_rows(self):
        work = demand(ExpertCombine(6, ParallelLayout(data=8, expert=8)), [self.ALL], step=RAGGED)
        assert work == Work(
            vector_ops=10 * 6 * 64,
            input_bytes=(8 * X_BYTES,),
            output_bytes=(X_BYTES,),
            link_bytes=39 * 64 * 2,
            link_phases=1,
        )
        both = bf16(("tokens", 4), ("hidden", 64))
        layout = ParallelLayout(data=2, expert=2)
        assert demand(ExpertCombine(6, layout), [both], step=UNIFORM).link_bytes == 2 * 64 * 2

    def test_demand_of_dispatch_and_combine_is_three_bytes_a_row_and_dim(self):
        # 3 d bytes a (token, rank); by (token, expert) it were 60 x 3/4 rows.
        layout = ParallelLayout(data=4, expert=4)
        out = demand(ExpertDispatch(layout, 40), [X, IDS, WEIGHTS]).link_bytes
        back = demand(ExpertCombine(6, layout), [bf16(("tokens", 40), ("hidden", 64))]).link_bytes
        assert out + back == 3 * 64 * 25
        assert rows_by_expert(6, layout) == pytest.approx(60 * 3 / 4 / 24.66, rel=1e-3)
