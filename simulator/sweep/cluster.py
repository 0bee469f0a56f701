"""Points computed on a Dask cluster that runs already, reached by its scheduler's address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from simulator.basis.errors import InputError
from simulator.sweep.compute import Compute, Keep, Outcome, Task, compute_elsewhere

ANSWER_S = 5.0
WORKERS_S = 10.0
LOOK_S = 2.0
LONGEST_WITHOUT_WORKERS_S = 60.0


def cluster_outcomes(
    tasks: Sequence[Task], keep: Keep, address: str, run: Compute = compute_elsewhere
) -> Generator[Outcome, None, None]:
    """Outcomes as they come from the cluster's workers, each kept by this process.

    Workers read the files that points name, but write none.

    Raises InputError where the scheduler does not answer, has no workers, or goes away.
    """
    inputs = {task.digest: task.inputs for task in tasks}
    with (
        _connected(address) as client,
        closing(_collected(client, tasks, run, address)) as outcomes,
    ):
        for outcome in outcomes:
            keep(outcome, inputs[outcome.digest])
            yield outcome


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--scheduler needs the packages of a Dask cluster: pip install 'v4sim[cluster]'"
        ) from None
    with _quiet():
        _require_scheduler(address)
        with Client(address, timeout=ANSWER_S) as client:
            _require_workers(client, address)
            yield client


def _require_scheduler(address: str) -> None:
    """Ask who is there: a client that fails to connect goes on trying, and says it in pages."""
    from distributed.core import rpc

    async def kind() -> str:
        async with rpc(address, timeout=2 * ANSWER_S) as there:
            return str((await there.identity())["type"])

    expected = "expected a running Dask scheduler, such as tcp://host:8786"
    try:
        found = asyncio.run(asyncio.wait_for(kind(), ANSWER_S))
    except TimeoutError:
        raise InputError(
            f"the scheduler {address} does not answer within {ANSWER_S:g} s; {expected}"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"the scheduler {address} cannot be reached: {_first_line(error)}; {expected}"
        ) from None
    except Exception:
        # Bytes of another protocol are read as lengths, types and text: any error may come of it.
        raise InputError(f"what answers at {address} is no Dask scheduler; {expected}") from None
    if found != "Scheduler":
        raise InputError(f"at {address} a Dask {found} answers; {expected}")


def _require_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError:
        raise InputError(
            f"the scheduler {address} answers but no worker joined it within {WORKERS_S:g} s; "
            f"start some: dask worker {address}"
        ) from None


def _collected(
    client: Any, tasks: Sequence[Task], run: Compute, address: str
) -> Generator[Outcome, None, None]:
    """Outcomes of tasks that run at once, then of those that have to run alone."""
    futures = {client.submit(run, task, pure=False): task for task in tasks}
    suspects: list[Task] = []
    try:
        for future in _ended(client, futures, address):
            task = futures[future]
            outcome = _outcome(future, task, address)
            if outcome is None:
                suspects.append(task)
            else:
                yield outcome
    finally:
        if client.status == "running":
            client.cancel(list(futures))
    # All that waited at a worker that was lost are suspected; alone, a task shows what it is.
    for task in suspects:
        (future,) = _ended(client, [client.submit(run, task, pure=False)], address)
        yield _outcome(future, task, address) or Outcome(
            digest=task.digest,
            status="failed",
            error="its workers ended without an answer; most often memory ran out",
        )


def _ended(client: Any, futures: Iterable[Any], address: str) -> Iterator[Any]:
    """Futures as they end, well or not; raises InputError where the cluster has gone."""
    from distributed import CancelledError, wait

    left, idle_s = list(futures), 0.0
    while left:
        try:
            done, pending = wait(left, timeout=LOOK_S, return_when="FIRST_COMPLETED")
        except TimeoutError:
            idle_s = 0.0 if _workers(client, address) else idle_s + LOOK_S
            if idle_s >= LONGEST_WITHOUT_WORKERS_S:
                raise InputError(
                    f"the scheduler {address} has had no worker for {idle_s:g} s"
                ) from None
            continue
        except CancelledError:
            raise _gone(address) from None
        left = list(pending)
        yield from done


def _workers(client: Any, address: str) -> int:
    """Workers of the cluster; raises InputError where its scheduler has gone."""
    if client.status != "running":
        raise _gone(address)
    return len(client.nthreads())


def _outcome(future: Any, task: Task, address: str) -> Outcome | None:
    """Outcome of a future that has ended; None where too many workers were lost under it."""
    from distributed import CancelledError, KilledWorker

    try:
        outcome: Outcome = future.result()
        return outcome
    except KilledWorker:
        return None
    except (CancelledError, OSError):
        raise _gone(address) from None
    except Exception as error:
        said = f"the cluster could not run it: {_first_line(error)}"
        return Outcome(digest=task.digest, status="failed", error=said)


def _gone(address: str) -> InputError:
    return InputError(f"the scheduler {address} has gone")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own log lines: what matters is said in a sentence."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
