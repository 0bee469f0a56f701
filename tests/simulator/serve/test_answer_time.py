"""Parts of the time of whole answers against a request by request, record by record account."""

from __future__ import annotations

import pytest

from simulator.serve.answer_time import ALONE, BEHIND, BESIDE, BETWEEN, answer_time_ns
from simulator.serve.run import ServingRun, run_scenario
from simulator.serve.scenario_file import open_scenario

CASES = [
    ("traffic.made.rate_per_s=8",),
    ("scheduler.order=prefill-first", "traffic.made.rate_per_s=12"),
    ("parallel.tp=4", "replicas=2"),
    ("parallel.tp=1", "parallel.dp=8"),
    ("scheduler.max_requests=4",),
    ("disaggregation.prefill_replicas=1",),
]


def by_hand(run: ServingRun) -> dict[str, int]:
    """After the first token: every record of the request's lane, one by one."""
    found = {ALONE: 0, BESIDE: 0, BEHIND: 0, BETWEEN: 0}
    columns = {name: values.tolist() for name, values in run.requests.columns().items()}
    for index in run.requests.finished.nonzero()[0].tolist():
        first, last = columns["first_token_ns"][index], columns["finish_ns"][index]
        log = run.steps[columns["replica"][index]]
        left = last - first
        for start, lasts, decoding, prompts in zip(
            log.start_ns, log.duration_ns, log.decoding, log.prompt_tokens, strict=True
        ):
            within = max(0, min(last, start + lasts) - max(first, start))
            name = (BESIDE if prompts else ALONE) if decoding else BEHIND if prompts else None
            if name is not None:
                found[name] += within
                left -= within
        found[BETWEEN] += left
    return found


@pytest.mark.parametrize("changes", CASES, ids=lambda own: own[0])
def test_parts_are_those_of_every_request_and_add_up(changes: tuple[str, ...]) -> None:
    fast = ("fidelity=roofline", "traffic.made.requests=40")
    run = run_scenario(open_scenario("chat", [*fast, *changes]))
    found = answer_time_ns(run)
    assert {name: found[name] for name in by_hand(run)} == by_hand(run)
    done = run.requests.finished
    whole = run.requests.column("finish_ns")[done] - run.requests.sent_ns()
    assert sum(found.values()) == int(whole.sum())
    assert all(time_ns >= 0 for time_ns in found.values())
