"""The step clock against steps costed request by request, on random batches.

With data ranks the batches are alike: a step is costed on the rank that is dealt the first request,
and unequal ones would test how well that rank stands for all.
"""

from __future__ import annotations

import numpy as np
import pytest

from simulator.cost.question import ask
from simulator.cost.step_clock import DecodeGroup, PromptChunk, StepClock
from simulator.cost.step_timer import StepTimer
from workloads.step_shape import StepShape

DEPLOYMENTS = [
    ("v4-flash", "h200", "sglang-0.5", 8, 1),
    ("v4-pro", "b200", "vllm-0.33", 8, 1),
    ("v4-pro", "b200", "ideal", 1, 8),
]
BATCHES = 40


def timer(model: str, chip: str, engine: str, tp: int, dp: int) -> tuple[StepTimer, StepClock]:
    asked = ask(model=model, chip=chip, count=8, tp=tp, dp=dp, ep=8, engine=engine, batch=dp)
    found = StepTimer(asked)
    return found, StepClock(found.total_ps, 4 * asked.config.index_topk, data_ranks=dp)


def random_contexts(draw: np.random.Generator, alike: bool) -> list[int]:
    """1 to 256 contexts of all sizes up to a million tokens, some batches alike, some not."""
    count = int(2 ** draw.uniform(0, 8))
    middle, spread = 2 ** draw.uniform(9, 18), draw.choice([0.1, 0.5, 1.0]) * (not alike)
    found = middle * 2 ** draw.normal(0, spread, count)
    return [int(c) for c in np.clip(found, 2, 2**20)]


def groups_of(contexts: list[int], knee: int) -> list[DecodeGroup]:
    sides = [[c for c in contexts if (c > knee) is above] for above in (False, True)]
    return [DecodeGroup(requests=len(s), context_sum=float(sum(s))) for s in sides if s]


def random_chunks(draw: np.random.Generator, tokens: int, alike: bool) -> list[PromptChunk]:
    """One to four prompts that share a step's tokens, fresh ones and ones that go on."""
    count = int(draw.choice([1, 1, 1, 2, 4]))
    pasts = [int(2 ** draw.uniform(4, 17)) if draw.random() < 0.6 else 0 for _ in range(count)]
    if alike:
        pasts = pasts[:1] * count
    return [PromptChunk(max(1, tokens // count), past) for past in pasts]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_error_of_decode_steps(deployment: tuple[str, str, str, int, int]) -> None:
    exact, clock = timer(*deployment)
    draw, alike = np.random.default_rng(7), deployment[-1] > 1
    errors = []
    for _ in range(BATCHES):
        contexts = random_contexts(draw, alike)
        true = exact.total_ps(StepShape(tuple((1, c - 1) for c in contexts))) / 1000
        errors.append(clock.decode_ns(groups_of(contexts, clock.knee_tokens)) / true - 1)
    assert np.median(np.abs(errors)) < 0.01
    assert np.abs(errors).max() < 0.05


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_error_of_steps_with_prompts(deployment: tuple[str, str, str, int, int]) -> None:
    exact, clock = timer(*deployment)
    draw, alike = np.random.default_rng(11), deployment[-1] > 1
    errors = []
    for _ in range(BATCHES):
        contexts = random_contexts(draw, alike) if draw.random() < 0.8 else []
        budget = int(draw.choice([1024, 2048, 8192, 8192]))
        chunks = random_chunks(draw, budget - min(len(contexts), budget // 2), alike)
        shape = [(c.new, c.past) for c in chunks] + [(1, c - 1) for c in contexts]
        true = exact.total_ps(StepShape(tuple(shape))) / 1000
        groups = groups_of(contexts, clock.knee_tokens)
        errors.append(clock.step_ns(groups, chunks) / true - 1)
    assert np.median(np.abs(errors)) < 0.01
    assert np.abs(errors).max() < 0.05


def test_corners_are_costed_once() -> None:
    exact, _ = timer(*DEPLOYMENTS[0])
    asked: list[StepShape] = []

    def count(step: StepShape) -> int:
        asked.append(step)
        return exact.total_ps(step)

    clock = StepClock(count, 2048)
    for context in np.linspace(3000, 3900, 50):
        clock.decode_ns([DecodeGroup(requests=5, context_sum=5 * float(context))])
    assert len(asked) == len(set(asked))
    assert len(asked) < 10
