"""Made-up attention: what the model's operation computes, and logits that follow the scores."""

import numpy as np
import pytest

from simulator.indexer.layer_output import layer_changes, made_up_attention
from workloads.deepseek_v4.config import find_model
from workloads.ops.attention import _attend as model_attends

CONFIG = find_model("v4-flash")
SCORES = np.linspace(0.0, 4.0, 50)


def attention(seed=3):
    return made_up_attention(CONFIG, SCORES, np.random.default_rng(seed))


def test_output_is_that_of_the_models_sparse_attention():
    made = attention()
    picked = np.arange(50) % 3 > 0
    reference = np.arange(50) % 2 > 0
    window = np.ones(CONFIG.sliding_window, dtype=bool)

    def model(mask):
        q, keys, sink = (a.astype(float) for a in (made.q, made.keys, made.sink))
        return model_attends(q[None], keys[None], np.concatenate([window, mask])[None], sink)[0]

    exact, other = model(reference), model(picked)
    expected = np.linalg.norm(other - exact) / np.linalg.norm(exact)
    (change,) = layer_changes(made, {"picked": picked}, reference).values()
    assert change.output_change == pytest.approx(expected, rel=1e-4)
    assert change.output_change > 0.01


def test_missed_attention_is_the_share_of_softmax_that_the_reference_gave():
    made = attention()
    reference = np.ones(50, dtype=bool)
    picked = np.arange(50) != 49
    logits = made.q @ made.keys.T / np.sqrt(CONFIG.head_dim)
    weights = np.exp(logits.astype(float))
    expected = (weights[:, -1] / (weights.sum(axis=1) + 1.0)).mean()  # the sink's logit is 0
    (change,) = layer_changes(made, {"picked": picked}, reference).values()
    assert change.missed_attention == pytest.approx(expected, rel=1e-4)


def test_equal_picks_change_nothing():
    mask = np.arange(50) > 20
    (change,) = layer_changes(attention(), {"same": mask}, mask).values()
    assert (change.output_change, change.missed_attention) == (0.0, 0.0)


def test_logits_are_the_scores_plus_unit_noise():
    made = attention()
    logits = made.q @ made.keys[made.window :].T / np.sqrt(CONFIG.head_dim)
    noise = logits - SCORES
    assert abs(noise.mean()) < 0.1
    assert noise.std() == pytest.approx(1.0, abs=0.05)
