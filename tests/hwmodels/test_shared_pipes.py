"""Jobs side by side: alone exact, shared in proportion, work conserved."""

from __future__ import annotations

import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.machine.shared_pipes import Job, SharedPipes


def run(jobs: list[tuple[int, Job]]) -> list[int]:
    """End of each job, started at its given time."""
    env = simpy.Environment()
    pipes, ends = SharedPipes(env), [0] * len(jobs)

    def process(i: int, start: int, job: Job) -> simpy.events.ProcessGenerator:
        yield env.timeout(start)
        yield pipes.submit(job)
        ends[i] = int(env.now)

    for i, (start, job) in enumerate(jobs):
        env.process(process(i, start, job))
    env.run()
    return ends


def test_alone_is_exact() -> None:
    assert run([(5, Job(1_000_003, {"memory": 1.0}))]) == [1_000_008]


def test_two_users_of_one_pipe_take_turns() -> None:
    assert run([(0, Job(100, {"memory": 1.0})), (0, Job(100, {"memory": 1.0}))]) == [200, 200]


def test_users_of_different_pipes_do_not_meet() -> None:
    assert run([(0, Job(100, {"memory": 1.0})), (0, Job(70, {"matrix": 1.0}))]) == [100, 70]


def test_light_users_do_not_slow_each_other() -> None:
    assert run([(0, Job(100, {"memory": 0.5})), (0, Job(70, {"memory": 0.5}))]) == [100, 70]


def test_a_latecomer_slows_only_what_is_left() -> None:
    """50 alone, then both at half speed: the first needs 100 more, the second 50 after that."""
    assert run([(0, Job(100, {"memory": 1.0})), (50, Job(100, {"memory": 1.0}))]) == [150, 200]


def test_nothing_to_do_ends_at_once() -> None:
    assert run([(3, Job(0, {}))]) == [3]


starts = st.integers(0, 10_000)
jobs = st.builds(
    Job,
    st.integers(1, 10_000),
    st.dictionaries(st.sampled_from("abc"), st.floats(0.05, 1.0), min_size=1),
)


@settings(max_examples=100)
@given(st.lists(st.tuples(starts, jobs), min_size=1, max_size=6))
def test_no_job_is_faster_than_alone_and_no_pipe_serves_more_than_it_can(
    batch: list[tuple[int, Job]],
) -> None:
    ends = run(batch)
    for (start, job), end in zip(batch, ends, strict=True):
        assert end >= start + job.alone_ps
    first, last = min(start for start, _ in batch), max(ends)
    for pipe in "abc":
        asked = sum(job.alone_ps * job.shares.get(pipe, 0.0) for _, job in batch)
        assert last - first >= asked - len(batch)
    # Never slower than all of them one after the other.
    assert last <= max(s for s, _ in batch) + sum(j.alone_ps for _, j in batch) + 2 * len(batch)
