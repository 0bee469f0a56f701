import math

import numpy as np
import pytest

from tests.workloads.ops.hand import UNIFORM, bf16, demand, fp32, infer, refuses, run
from workloads.ops import HcCollapse, HcExpand, HcHeadGate, HcSplit
from workloads.ops.hyper_connection import sigmoid, sinkhorn
from workloads.work import Work

STREAMS = bf16(("tokens", 10), ("streams", 4), ("hidden", 6))
X = bf16(("tokens", 10), ("hidden", 6))
GATES = fp32(("tokens", 10), ("streams", 4))
MIX = fp32(("tokens", 10), ("streams", 4), ("streams_out", 4))


def plain_sigmoid(x):
    return 1 / (1 + math.exp(-x))


def plain_mix(logits, iterations, eps):
    """Softmax of rows, plus eps; columns; then (rows, columns), number by number."""
    n = len(logits)
    m = []
    for row in logits:
        weights = [math.exp(v) for v in row]
        m.append([w / sum(weights) + eps for w in weights])

    def columns():
        for j in range(n):
            total = sum(m[i][j] for i in range(n)) + eps
            for i in range(n):
                m[i][j] /= total

    def rows():
        for i in range(n):
            total = sum(m[i]) + eps
            m[i] = [v / total for v in m[i]]

    columns()
    for _ in range(iterations - 1):
        rows()
        columns()
    return m


def test_sigmoid_does_not_overflow():
    with np.errstate(over="raise"):
        y = sigmoid(np.array([-1000.0, -1.0, 0.0, 1.0, 1000.0]))
    assert y == pytest.approx([0, plain_sigmoid(-1), 0.5, plain_sigmoid(1), 1])


def test_sinkhorn_ends_on_columns_and_becomes_doubly_stochastic():
    m = np.random.default_rng(0).uniform(0.1, 1, (3, 4, 4))
    once = sinkhorn(m, 1, 0.0)
    assert once.sum(axis=1) == pytest.approx(np.ones((3, 4)))
    assert np.abs(once.sum(axis=2) - 1).max() > 0.01
    often = sinkhorn(m, 200, 0.0)
    assert often.sum(axis=1) == pytest.approx(np.ones((3, 4)))
    assert often.sum(axis=2) == pytest.approx(np.ones((3, 4)))


class TestHcSplit:
    Z = fp32(("tokens", 10), ("gates", 24))
    PARAMS = (fp32(("scales", 3)), fp32(("gates", 24)))

    def test_shape_is_pre_post_and_mix(self):
        assert infer(HcSplit(4, 20, 1e-6), [self.Z], self.PARAMS) == (GATES, GATES, MIX)

    def test_refuses_another_number_of_gates_or_scales(self):
        split = HcSplit(4, 20, 1e-6)
        z = fp32(("tokens", 10), ("gates", 23))
        refuses(split, [z], self.PARAMS, naming=["'gates', 23", "'gates', 24"])
        refuses(split, [self.Z], (fp32(("scales", 1)), self.PARAMS[1]), naming=["scales"])
        refuses(split, [self.Z], (self.PARAMS[0], fp32(("gates", 16))), naming=["'gates', 16"])

    def test_value(self):
        n, eps, iterations = 2, 0.25, 3
        z = [0.5, -1.0, 2.0, 0.0, 0.1, 0.2, -0.3, 0.4]
        scale, base = [2.0, 3.0, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
        pre, post, mix = run(HcSplit(n, iterations, eps), [[z], scale, base])
        assert pre[0] == pytest.approx([plain_sigmoid(1.1) + eps, plain_sigmoid(-1.8) + eps])
        assert post[0] == pytest.approx([2 * plain_sigmoid(6.3), 2 * plain_sigmoid(0.4)])
        logits = [[0.05 + 0.5, 0.1 + 0.6], [-0.15 + 0.7, 0.2 + 0.8]]
        assert mix[0] == pytest.approx(np.array(plain_mix(logits, iterations, eps)), rel=1e-13)

    def test_demand(self):
        # A token: 24 scaled and shifted gates; the softmax and 39 normalisations of M, each a sum
        # and a product an element. 24 exponentials; 8 sigmoids' and 40 x 4 sums' reciprocals.
        assert demand(HcSplit(4, 20, 1e-6), [self.Z], self.PARAMS) == Work(
            vector_ops=10 * (2 * 24 + 40 * 2 * 16),
            special_ops=10 * (24 + 8 + 40 * 4),
            input_bytes=(10 * 24 * 4,),
            param_bytes=(3 * 4, 24 * 4),
            output_bytes=(10 * 4 * 4, 10 * 4 * 4, 10 * 16 * 4),
        )
        z = fp32(("tokens", 2), ("gates", 24))
        one = demand(HcSplit(4, 1, 1e-6), [z], self.PARAMS, UNIFORM)
        assert (one.vector_ops, one.special_ops) == (2 * (48 + 2 * 2 * 16), 2 * (32 + 2 * 4))


class TestHcHeadGate:
    Z = fp32(("tokens", 10), ("gates", 4))
    PARAMS = (fp32(("scales", 1)), fp32(("gates", 4)))

    def test_shape_is_a_gate_a_stream(self):
        assert infer(HcHeadGate(1e-6), [self.Z], self.PARAMS) == (self.Z,)

    def test_refuses_another_base_or_number_of_scales(self):
        refuses(HcHeadGate(1e-6), [self.Z], (self.PARAMS[0], fp32(("gates", 3))), naming=["gates"])
        refuses(HcHeadGate(1e-6), [self.Z], (fp32(("scales", 3)), self.PARAMS[1]), naming=["gates"])

    def test_value_is_a_sigmoid_plus_eps(self):
        (y,) = run(HcHeadGate(0.5), [[[1.0, -2.0]], [3.0], [0.25, 0.5]])
        assert y[0] == pytest.approx([plain_sigmoid(3.25) + 0.5, plain_sigmoid(-5.5) + 0.5])

    def test_demand(self):
        assert demand(HcHeadGate(1e-6), [self.Z], self.PARAMS) == Work(
            vector_ops=3 * 10 * 4,
            special_ops=2 * 10 * 4,
            input_bytes=(10 * 4 * 4,),
            param_bytes=(4, 16),
            output_bytes=(10 * 4 * 4,),
        )
        z = fp32(("requests", 2), ("gates", 4))
        assert demand(HcHeadGate(1e-6), [z], self.PARAMS, UNIFORM).special_ops == 2 * 2 * 4


class TestHcCollapse:
    def test_shape_is_one_row_a_token(self):
        assert infer(HcCollapse(), [STREAMS, GATES]) == (X,)

    def test_refuses_other_streams_or_tokens(self):
        for pre in (fp32(("tokens", 10), ("streams", 3)), fp32(("tokens", 9), ("streams", 4))):
            refuses(HcCollapse(), [STREAMS, pre], naming=["'streams', 4", str(pre.axes)])
        refuses(HcCollapse(), [X, GATES], naming=["hidden"])

    def test_value_is_the_weighted_sum_of_the_streams(self):
        x = [[[1.0, 2.0], [10.0, 20.0]], [[1.0, 0.0], [0.0, 1.0]]]
        (y,) = run(HcCollapse(), [x, [[3.0, 0.5], [-1.0, 7.0]]])
        assert y.tolist() == [[3 + 5, 6 + 10], [-1, 7]]

    def test_demand(self):
        assert demand(HcCollapse(), [STREAMS, GATES]) == Work(
            vector_ops=2 * 10 * 4 * 6,
            input_bytes=(10 * 4 * 6 * 2, 10 * 4 * 4),
            output_bytes=(10 * 6 * 2,),
        )
        streams, pre = bf16(("r", 2), ("streams", 4), ("hidden", 6)), fp32(("r", 2), ("gates", 4))
        assert demand(HcCollapse(), [streams, pre], step=UNIFORM).vector_ops == 2 * 2 * 4 * 6


class TestHcExpand:
    def test_shape_is_the_streams_again(self):
        assert infer(HcExpand(), [X, STREAMS, GATES, MIX]) == (STREAMS,)

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            (0, bf16(("tokens", 10), ("hidden", 5))),
            (1, bf16(("tokens", 10), ("streams", 3), ("hidden", 6))),
            (2, fp32(("tokens", 9), ("streams", 4))),
            (2, fp32(("tokens", 10), ("streams", 5))),
            (3, fp32(("tokens", 10), ("streams", 3), ("streams_out", 4))),
            (3, fp32(("tokens", 10), ("streams", 4), ("streams_out", 3))),
        ],
    )
    def test_refuses_any_operand_that_does_not_fit(self, place, wrong):
        operands = [X, STREAMS, GATES, MIX]
        operands[place] = wrong
        refuses(HcExpand(), operands, naming=[str(wrong.axes)])

    def test_value_mixes_along_the_first_axis_of_m(self):
        y, x = [[1.0]], [[[10.0], [100.0]]]
        post, mix = [[2.0, 3.0]], [[[0.25, 0.5], [0.75, 1.0]]]
        (out,) = run(HcExpand(), [y, x, post, mix])
        assert out.tolist() == [[[2 + 0.25 * 10 + 0.75 * 100], [3 + 0.5 * 10 + 1.0 * 100]]]

    def test_demand(self):
        # Facts: 2 x 4 d for the block's output and 2 x 16 d for the mix, a token.
        assert demand(HcExpand(), [X, STREAMS, GATES, MIX]) == Work(
            vector_ops=10 * (2 * 4 * 6 + 2 * 16 * 6),
            input_bytes=(10 * 6 * 2, 10 * 4 * 6 * 2, 10 * 4 * 4, 10 * 16 * 4),
            output_bytes=(10 * 4 * 6 * 2,),
        )

    def test_demand_of_a_uniform_step(self):
        operands = [
            bf16(("tokens", 2), ("hidden", 6)),
            bf16(("tokens", 2), ("streams", 3), ("hidden", 6)),
            fp32(("tokens", 2), ("streams", 3)),
            fp32(("tokens", 2), ("streams", 3), ("streams_out", 3)),
        ]
        work = demand(HcExpand(), operands, step=UNIFORM)
        assert work.vector_ops == 2 * (2 * 3 * 6 + 2 * 9 * 6)
