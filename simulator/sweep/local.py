"""Points computed on this machine, in as many processes as asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from simulator.sweep.compute import Outcome, Task, compute

Compute = Callable[[Task], Outcome]


def cores() -> int:
    """Cores that this process may use."""
    from joblib import cpu_count

    found: int = cpu_count()
    return found


def local_outcomes(
    tasks: Sequence[Task], workers: int, run: Compute = compute
) -> Generator[Outcome, None, None]:
    """Outcomes as they come; a point whose process dies has failed, the others are unharmed."""
    workers = min(workers, len(tasks))
    if workers == 1:
        yield from map(run, tasks)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = {task.digest: task for task in tasks}
    running = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)(
        delayed(run)(task) for task in tasks
    )
    try:
        for outcome in running:
            del left[outcome.digest]
            yield outcome
    except TerminatedWorkerError:
        # Which point's process died is not known: each of the others gets one of its own.
        for task in left.values():
            yield _alone(task, run)
    finally:
        running.close()


def _alone(task: Task, run: Compute) -> Outcome:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        # One process beside this one: with n_jobs=1 it would be this one.
        (outcome,) = Parallel(n_jobs=2)([delayed(run)(task)])
    except TerminatedWorkerError:
        said = "its process ended without an answer; most often memory ran out"
        return Outcome(digest=task.digest, status="failed", error=said)
    found: Outcome = outcome
    return found
