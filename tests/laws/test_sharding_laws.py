"""Sharding changes no value: all ranks run side by side and meet the unsharded run."""

import numpy as np
import pytest

from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.ranks import RankedEvaluator
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import RAW_CONFIG, tokens
from workloads.deepseek_v4.config import model_from_mapping
from workloads.parallel import ParallelLayout

# A vocabulary that two and four ranks divide, and experts that four ranks divide.
EVEN = RAW_CONFIG | {"vocab_size": 64}


def unsharded(ids, chunks):
    config, weights = model_from_mapping(EVEN), random_weights(EVEN, 3)
    runner = Evaluator(config, weights, RequestTable(1, 512), all_logits=True)
    row, start, out = runner.table.admit(), 0, []
    for count in chunks:
        out.append(runner.step([(row, ids[start : start + count])]).logits)
        start += count
    return out


@pytest.mark.parametrize(
    ("tensor", "data", "expert"),
    [(2, 1, 1), (2, 1, 2), (1, 2, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2), (2, 2, 4)],
)
def test_every_rank_meets_the_unsharded_run(tensor, data, expert):
    config, weights = model_from_mapping(EVEN), random_weights(EVEN, 3)
    tables = [RequestTable(1, 512) for _ in range(data)]
    ranks = RankedEvaluator(config, weights, tables, ParallelLayout(tensor, data, expert))
    prompts = [tokens(140 + 20 * d, seed=d) for d in range(data)]
    rows = [table.admit() for table in tables]
    expected = [unsharded(ids, (len(ids) - 1, 1)) for ids in prompts]
    for part, cut in enumerate((slice(None, -1), slice(-1, None))):
        logits = ranks.step([[(rows[d], prompts[d][cut])] for d in range(data)])
        for rank, own in enumerate(logits):
            difference = np.abs(own - expected[rank // tensor][part]).max()
            assert difference < 1e-11, (rank, part)
