import math

import numpy as np
import pytest

from tests.workloads.ops.hand import bf16, demand, fp32, infer, int32, refuses, run
from workloads.ops.draft import Confidence, DraftTokens, StreamMeans
from workloads.step_shape import StepShape
from workloads.work import Work

STREAMS = bf16(("tokens", 4), ("streams", 2), ("hidden", 8))
# Two requests with blocks of two tokens.
BLOCKS = StepShape.uniform(2, 2, 5)


class TestStreamMeans:
    def test_shape_has_a_row_a_layer(self):
        assert infer(StreamMeans(), [STREAMS] * 3) == (
            bf16(("tokens", 4), ("taps", 3), ("hidden", 8)),
        )

    def test_refuses_streams_that_differ(self):
        other = bf16(("tokens", 4), ("streams", 3), ("hidden", 8))
        refuses(StreamMeans(), [STREAMS, other], naming=["'streams', 3"])
        refuses(StreamMeans(), [], naming=["streams of layers"])

    def test_value_is_the_mean_of_each(self):
        (out,) = run(StreamMeans(), [[[[1.0, 2.0], [3.0, 6.0]]], [[[0.0, 0.0], [2.0, 4.0]]]])
        assert out.tolist() == [[[2.0, 4.0], [1.0, 2.0]]]

    def test_demand_by_hand(self):
        assert demand(StreamMeans(), [STREAMS] * 3) == Work(
            vector_ops=3 * 64, input_bytes=(128,) * 3, output_bytes=(4 * 3 * 8 * 2,)
        )


LOGITS, IDS = fp32(("tokens", 4), ("vocab", 6)), int32(("tokens", 4))
MARKOV = bf16(("vocab", 6), ("rank", 3))
DRAFTS = DraftTokens(block=2)


class TestDraftTokens:
    def test_shape_is_a_draft_a_row(self):
        assert infer(DRAFTS, [LOGITS, IDS], [MARKOV, MARKOV], BLOCKS) == (
            IDS,
            LOGITS,
            bf16(("tokens", 4), ("rank", 3)),
        )

    def test_refuses_other_blocks_and_tables(self):
        refuses(DraftTokens(3), [LOGITS, IDS], [MARKOV, MARKOV], step=BLOCKS, naming=["3 tokens"])
        other = bf16(("vocab", 6), ("rank", 2))
        refuses(DRAFTS, [LOGITS, IDS], [MARKOV, other], step=BLOCKS, naming=["'rank', 2"])

    def test_value_goes_by_the_token_before(self):
        # One request: after token 1 the bias favours 2, and after 2 it favours 0, by 5 each.
        w1 = np.eye(3)
        w2 = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
        logits = np.array([[0.0, 4.0, 0.0], [0.0, 4.0, 0.0]])
        drafts, biased, rows = run(DRAFTS, [logits, np.array([1, 9]), w1, w2], StepShape(((2, 5),)))
        assert drafts.tolist() == [2, 0]
        assert biased.tolist() == [[0.0, 4.0, 5.0], [5.0, 4.0, 0.0]]
        assert rows.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    def test_demand_by_hand(self):
        assert demand(DRAFTS, [LOGITS, IDS], [MARKOV, MARKOV], BLOCKS) == Work(
            macs={"bf16": 24 * 3},
            vector_ops=48,
            input_bytes=(96, 16),
            param_bytes=(4 * 3 * 2, 2 * 36),
            output_bytes=(16, 96, 24),
        )


class TestConfidence:
    def test_shape_is_a_number_a_token(self):
        weight = bf16(("one", 1), ("width", 11))
        hidden, rows = bf16(("tokens", 4), ("hidden", 8)), bf16(("tokens", 4), ("rank", 3))
        assert infer(Confidence(), [hidden, rows], [weight]) == (fp32(("tokens", 4)),)

    def test_refuses_a_weight_of_another_width(self):
        hidden = bf16(("tokens", 4), ("hidden", 8))
        refuses(Confidence(), [hidden], [bf16(("one", 1), ("width", 7))], naming=["8 wide"])

    def test_value_is_a_sigmoid(self):
        (out,) = run(Confidence(), [[[1.0]], [[math.log(3)]], [[0.0, 1.0]]])
        assert out == pytest.approx([0.75])

    def test_demand_by_hand(self):
        hidden = bf16(("tokens", 4), ("hidden", 8))
        weight = bf16(("one", 1), ("width", 8))
        assert demand(Confidence(), [hidden], [weight]) == Work(
            vector_ops=64,
            special_ops=8,
            input_bytes=(64,),
            param_bytes=(16,),
            output_bytes=(16,),
        )
