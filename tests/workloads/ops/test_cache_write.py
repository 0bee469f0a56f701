import numpy as np

from tests.workloads.ops.hand import UNIFORM, Cells, bf16, demand, infer, refuses, run
from workloads.ops import AppendEntries, RoundToCache, WriteWindow
from workloads.step_shape import StepShape
from workloads.work import Append, Work

KV = bf16(("tokens", 10), ("head_dim", 8))


class TestRoundToCache:
    def test_shape_is_kept(self):
        assert infer(RoundToCache(), [KV]) == (KV,)
        q = bf16(("tokens", 10), ("index_heads", 3), ("index_dim", 8))
        assert infer(RoundToCache(8), [q]) == (q,)

    def test_refuses_a_rotation_that_does_not_divide_the_axis(self):
        refuses(RoundToCache(16), [KV], naming=["16", "'head_dim', 8"])
        refuses(RoundToCache(), [KV, KV], naming=["2 and 0"])

    def test_value_is_what_the_region_reads_back_of_every_vector(self):
        x = np.arange(8.0).reshape(2, 2, 2)
        (y,) = run(RoundToCache(), [x], regions=[Cells()])
        assert y.tolist() == [[[0, 0.5], [1, 1.5]], [[2, 2.5], [3, 3.5]]]

    def test_demand_adds_a_stage_a_doubling_of_the_rotation(self):
        for length, stages in ((0, 0), (1, 0), (2, 1), (8, 3)):
            assert demand(RoundToCache(length), [KV]) == Work(
                vector_ops=(4 + stages) * 10 * 8,
                input_bytes=(10 * 8 * 2,),
                output_bytes=(10 * 8 * 2,),
            )

    def test_demand_of_a_uniform_step(self):
        q = bf16(("tokens", 2), ("index_heads", 64), ("index_dim", 128))
        assert demand(RoundToCache(128), [q], step=UNIFORM).vector_ops == (4 + 7) * 2 * 64 * 128


class TestWriteWindow:
    def test_shape_has_no_output(self):
        assert infer(WriteWindow(4), [KV]) == ()

    def test_refuses_another_number_of_rows(self):
        refuses(WriteWindow(4), [KV], step=UNIFORM, naming=["2 tokens", "'tokens', 10"])

    def test_value_stores_the_last_rows_of_each_chunk_by_position(self):
        ring = Cells()
        assert run(WriteWindow(4), [[[float(row)] for row in range(10)]], regions=[ring]) == ()
        assert {key: value.tolist() for key, value in ring.values.items()} == {
            (0, 2): [2], (0, 3): [3], (0, 4): [4], (0, 5): [5],
            (1, 3): [6], (1, 4): [7], (1, 5): [8],
            (2, 130): [9],
        }  # fmt: skip

    def test_demand(self):
        assert demand(WriteWindow(4), [KV]) == Work(
            input_bytes=(10 * 8 * 2,), appends=(Append(region=0, entries=4 + 3 + 1),)
        )
        kv = bf16(("tokens", 2), ("head_dim", 8))
        assert demand(WriteWindow(128), [kv], step=UNIFORM) == Work(
            input_bytes=(2 * 8 * 2,), appends=(Append(region=0, entries=2),)
        )


class TestAppendEntries:
    ENTRIES = bf16(("entries", 2), ("entry_dim", 8))

    def test_shape_has_no_output(self):
        assert infer(AppendEntries(4), [self.ENTRIES]) == ()

    def test_refuses_another_number_of_entries_than_the_step_completes(self):
        three = bf16(("entries", 3), ("entry_dim", 8))
        refuses(AppendEntries(4), [three], naming=["2 completed", "'entries', 3"])

    def test_value_stores_by_index_of_each_request(self):
        pool = Cells()
        step = StepShape(((9, 3), (2, 4), (4, 8)))  # entries 0, 1, 2; none; 2
        values = [[10.0], [11.0], [12.0], [13.0]]
        assert run(AppendEntries(4), [values], step, [pool]) == ()
        assert {key: value.tolist() for key, value in pool.values.items()} == {
            (0, 0): [10], (0, 1): [11], (0, 2): [12], (2, 2): [13],
        }  # fmt: skip

    def test_demand(self):
        assert demand(AppendEntries(4), [self.ENTRIES]) == Work(
            input_bytes=(2 * 8 * 2,), appends=(Append(region=0, entries=1 + 1 + 0),)
        )
        none = bf16(("entries", 0), ("entry_dim", 8))
        assert demand(AppendEntries(128), [none], step=UNIFORM) == Work(
            input_bytes=(0,), appends=(Append(region=0, entries=0),)
        )
