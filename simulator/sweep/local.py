"""Points computed on this machine, in as many processes as asked for."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Generator, Sequence

from simulator.sweep.compute import Compute, Keep, Outcome, Task, compute


def cores() -> int:
    """Cores that this process may use."""
    from joblib import cpu_count

    found: int = cpu_count()
    return found


def local_outcomes(
    tasks: Sequence[Task], keep: Keep, workers: int, run: Compute = compute
) -> Generator[Outcome, None, None]:
    """Outcomes as they come, each kept by the process that ran it.

    A point whose process dies has failed, the others are unharmed.
    """
    workers = min(workers, len(tasks))
    if workers == 1:
        yield from (_kept(task, keep, run) for task in tasks)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = {task.digest: task for task in tasks}
    running = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)(
        delayed(_in_worker)(task, keep, run, os.getpid()) for task in tasks
    )
    try:
        for outcome in running:
            del left[outcome.digest]
            yield outcome
    except TerminatedWorkerError:
        # Which point's process died is not known: each of the others gets one of its own.
        for task in left.values():
            yield _alone(task, keep, run)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is left early is what is wanted
            running.close()


def _in_worker(task: Task, keep: Keep, run: Compute, parent: int) -> Outcome:
    """A task in a process of its own, which leaves Ctrl-C to its parent."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _kept(task, keep, run)


def _kept(task: Task, keep: Keep, run: Compute) -> Outcome:
    outcome = run(task)
    keep(outcome, task.inputs)
    return outcome


def _alone(task: Task, keep: Keep, run: Compute) -> Outcome:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        # One process beside this one: with n_jobs=1 it would be this one.
        (outcome,) = Parallel(n_jobs=2)([delayed(_in_worker)(task, keep, run, os.getpid())])
    except TerminatedWorkerError:
        said = "its process ended without an answer; most often memory ran out"
        outcome = Outcome(digest=task.digest, status="failed", error=said)
        keep(outcome, task.inputs)
    found: Outcome = outcome
    return found
