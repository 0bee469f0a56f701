import math

import numpy as np
import pytest

from tests.workloads.ops.hand import Cells, bf16, demand, fp32, infer, refuses, run
from workloads.ops import CompressPool
from workloads.step_shape import StepShape
from workloads.work import Append, Read, Work

OVERLAP = CompressPool(4, 2)
KV = fp32(("tokens", 10), ("halves", 2), ("entry_dim", 8))
APE = fp32(("block", 4), ("halves", 2), ("entry_dim", 8))


def plain_entry(kv, score, ape, index, ratio, halves):
    """Entry `index` of a request from the projections of all its tokens, channel by channel."""
    terms = []  # (token, half) of the support
    if halves == 2 and index > 0:
        terms += [(t, 0) for t in range((index - 1) * ratio, index * ratio)]
    terms += [(t, halves - 1) for t in range(index * ratio, (index + 1) * ratio)]
    out = []
    for c in range(kv.shape[-1]):
        weights = [math.exp(score[t, h, c] + ape[t % ratio, h, c]) for t, h in terms]
        values = [kv[t, h, c] for t, h in terms]
        total = sum(w * v for w, v in zip(weights, values, strict=True))
        out.append(total / sum(weights))
    return out


def run_in_chunks(op, kv, score, ape, chunks, state):
    """Entries of one request whose tokens come in chunks."""
    entries, past = [], 0
    for new in chunks:
        span = slice(past, past + new)
        (out,) = run(op, [kv[span], score[span], ape], StepShape(((new, past),)), [state])
        entries += out.tolist()
        past += new
    return np.array(entries)


class TestCompressPool:
    def test_shape_is_a_row_a_completed_entry(self):
        assert infer(OVERLAP, [KV, KV], [APE]) == (bf16(("entries", 2), ("entry_dim", 8)),)

    @pytest.mark.parametrize(
        ("kv", "score", "ape"),
        [
            (KV, fp32(("tokens", 10), ("halves", 2), ("entry_dim", 7)), APE),
            (KV, KV, fp32(("block", 8), ("halves", 2), ("entry_dim", 8))),
            (KV, KV, fp32(("block", 4), ("halves", 1), ("entry_dim", 8))),
        ],
    )
    def test_refuses_axes_that_do_not_fit(self, kv, score, ape):
        refuses(OVERLAP, [kv, score], [ape], naming=["halves", "entry_dim"])

    def test_refuses_another_number_of_tokens_or_halves(self):
        nine = fp32(("tokens", 9), ("halves", 2), ("entry_dim", 8))
        refuses(OVERLAP, [nine, nine], [APE], naming=["10 tokens", "'tokens', 9"])
        refuses(CompressPool(4, 1), [KV, KV], [APE], naming=["'halves', 2"])

    def test_value_of_equal_scores_is_the_mean_of_the_support(self):
        # Own block uses the second half (10, 20), the previous block the first (1, 3).
        kv = np.array([[1.0, 10.0], [3.0, 20.0], [5.0, 30.0], [7.0, 50.0]]).reshape(4, 2, 1)
        zero = np.zeros_like(kv)
        (y,) = run(CompressPool(2, 2), [kv, zero, zero[:2]], StepShape(((4, 0),)), [Cells()])
        assert y.tolist() == [[15.0], [(1 + 3 + 30 + 50) / 4]]

    @pytest.mark.parametrize(
        ("ratio", "halves", "chunks"),
        [
            (4, 2, [23]),
            (4, 2, [1] * 23),
            (4, 2, [3, 1, 5, 4, 2, 8]),
            (3, 1, [14]),
            (3, 1, [1] * 14),
            (3, 1, [2, 2, 7, 3]),
            (128, 1, [100, 28, 127, 1, 4]),
        ],
    )
    def test_value_of_every_entry_in_any_chunks(self, ratio, halves, chunks):
        rng = np.random.default_rng(3)
        kv = rng.normal(size=(sum(chunks), halves, 2))
        score = rng.normal(size=kv.shape)
        ape = rng.normal(size=(ratio, halves, 2))
        y = run_in_chunks(CompressPool(ratio, halves), kv, score, ape, chunks, Cells())
        expected = [
            plain_entry(kv, score, ape, i, ratio, halves) for i in range(sum(chunks) // ratio)
        ]
        assert y == pytest.approx(np.array(expected), rel=1e-12)

    def test_value_packs_the_entries_of_requests_in_order(self):
        kv = np.arange(5.0).reshape(5, 1, 1)
        zero = np.zeros_like(kv)
        state = Cells({(1, 0): [9.0, 0.0]})  # request 1 has one row of a block of 2 already
        step = StepShape(((2, 0), (1, 1), (2, 0)))
        (y,) = run(CompressPool(2, 1), [kv, zero, zero[:2]], step, [state])
        assert y.reshape(-1).tolist() == [0.5, (9 + 2) / 2, 3.5]

    def test_demand(self):
        # 2 entries of 8 channels, 8 rows each. Read: nothing; rows 0..2; nothing, as none is done.
        assert demand(OVERLAP, [KV, KV], [APE]) == Work(
            vector_ops=10 * 2 * 8 + 4 * (2 * 8 * 8),
            special_ops=2 * 8 * 8 + 2 * 8,
            input_bytes=(10 * 2 * 8 * 4, 10 * 2 * 8 * 4),
            param_bytes=(4 * 2 * 8 * 4,),
            output_bytes=(2 * 8 * 2,),
            reads=(Read(region=0, entries=3, distinct=3, pattern="window"),),
            appends=(Append(region=0, entries=6 + 3 + 1),),
        )

    def test_demand_of_a_uniform_decode_step(self):
        # Query 131 completes entry 32 from rows 124..130 and its own; one row is stored.
        kv = fp32(("tokens", 2), ("halves", 2), ("entry_dim", 8))
        work = demand(OVERLAP, [kv, kv], [APE], StepShape.uniform(2, 1, 131))
        assert work.output_bytes == (2 * 8 * 2,)
        assert work.reads == (Read(region=0, entries=2 * 7, distinct=2 * 7, pattern="window"),)
        assert work.appends == (Append(region=0, entries=2),)

    def test_demand_of_a_long_chunk_stores_the_tail_only(self):
        kv = fp32(("tokens", 20), ("halves", 1), ("entry_dim", 8))
        ape = fp32(("block", 3), ("halves", 1), ("entry_dim", 8))
        work = demand(CompressPool(3, 1), [kv, kv], [ape], StepShape(((20, 5),)))
        assert work.reads[0].entries == 5 % 3
        assert work.appends == (Append(region=0, entries=3),)
