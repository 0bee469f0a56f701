"""Where the time of whole answers goes: from the moment a client sends to its last token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.serve.run import ServingRun

Ints = NDArray[np.int64]
TAKEN_IN, QUEUED, PROMPT = "taken in", "queued", "prompt"
ALONE, BESIDE, BEHIND, BETWEEN = (
    "steps of answers alone",
    "steps with prompts beside",
    "steps of prompts alone",
    "between steps",
)
PARTS = (TAKEN_IN, QUEUED, PROMPT, ALONE, BESIDE, BEHIND, BETWEEN)


def answer_time_ns(run: ServingRun) -> dict[str, int]:
    """Nanoseconds of all finished requests by part; they add up to the times of whole answers.

    HTTP and the tokenizer; the queue until a request is admitted; from there to its first token;
    and after it what its replica did meanwhile: steps of answers alone, steps that carry prompts of
    others as well, steps of prompts alone, and no step.

    Assumes: a request that gave way waits for whatever its replica does until it goes on.
    """
    requests, done = run.requests, run.requests.finished
    column = {
        name: requests.column(name)[done]
        for name in ("arrival_ns", "admitted_ns", "first_token_ns", "finish_ns", "replica")
    }
    first, finish = column["first_token_ns"], column["finish_ns"]
    found = dict.fromkeys(PARTS, 0)
    found[TAKEN_IN] = int((column["arrival_ns"] - requests.sent_ns()).sum())
    found[QUEUED] = int((column["admitted_ns"] - column["arrival_ns"]).sum())
    found[PROMPT] = int((first - column["admitted_ns"]).sum())
    for place, log in enumerate(run.steps):
        mine = column["replica"] == place
        steps = log.columns()
        answers, prompts = steps["decoding"] > 0, steps["prompt_tokens"] > 0
        for name, which in (
            (ALONE, answers & ~prompts),
            (BESIDE, answers & prompts),
            (BEHIND, ~answers & prompts),
        ):
            found[name] += _overlap_ns(
                steps["start_ns"][which], steps["duration_ns"][which], first[mine], finish[mine]
            )
    stepped = found[ALONE] + found[BESIDE] + found[BEHIND]
    found[BETWEEN] = int((finish - first).sum()) - stepped
    return found


def _overlap_ns(start: Ints, duration: Ints, begin: Ints, end: Ints) -> int:
    """Sum, over stretches from `begin` to `end`, of what lies within spans that do not overlap."""
    if not len(start):
        return 0
    before = np.concatenate([[0], np.cumsum(duration)])

    def until(moment: Ints) -> Ints:
        place = np.searchsorted(start, moment, side="right")
        last = np.maximum(place - 1, 0)
        inside = np.clip(moment - start[last], 0, duration[last])
        return np.where(place > 0, before[last] + inside, 0)

    return int((until(end) - until(begin)).sum())
