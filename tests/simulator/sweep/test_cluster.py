"""Sweeps on a real Dask cluster of two worker processes, and schedulers that are none."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from simulator.basis.errors import InputError
from simulator.sweep import cluster as cluster_module
from simulator.sweep.cluster import cluster_outcomes
from simulator.sweep.compute import compute_elsewhere
from simulator.sweep.grid import parse_grid
from simulator.sweep.inputs import product_version
from simulator.sweep.local import local_outcomes
from simulator.sweep.parts import PartFolder
from simulator.sweep.point import span
from simulator.sweep.runner import plan_sweep, run_sweep
from tests.simulator.sweep.scenarios import GRID, made, scenario_file, swept

SERVER = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None,
                      worker_dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A scheduler or worker on a busy machine answers late, and is there all the same."""
    monkeypatch.setattr(cluster_module, "ANSWER_S", 600.0)
    monkeypatch.setattr(cluster_module, "WORKERS_S", 600.0)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        worker_dashboard_address=None,
    ) as found:
        yield found


def versions(dask_worker):
    """How often a worker has looked at its version: once if it computed anything."""
    return product_version.cache_info().currsize


def no_keep(outcome, inputs):
    raise AssertionError("there is nothing to keep")


def tasks_of(folder, text):
    points = span(scenario_file(folder), parse_grid([text]))
    return plan_sweep(points, PartFolder(folder / "parts")).tasks


def computed_by_both(folder, task):
    """The task's outcome, once both workers have one to compute."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    return compute_elsewhere(task)


def test_two_workers_of_a_cluster_write_the_bytes_of_one_process(tmp_path, cluster):
    address, workers = cluster.scheduler_address, tmp_path / "workers"
    workers.mkdir()
    run = partial(computed_by_both, workers)
    source = partial(cluster_outcomes, address=address, run=run)
    found, rows, there = swept(tmp_path / "there", source, GRID)
    _, _, here = swept(tmp_path / "here", partial(local_outcomes, workers=1), GRID)
    assert there == here
    assert found.computed == 8
    assert [row["status"] for row in rows] == ["refused"] * 4 + ["done"] * 4
    with Client(address) as client:
        assert list(client.run(versions).values()) == [1, 1]


def test_a_worker_with_another_version_is_told_apart(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr("simulator.sweep.inputs.product_version", lambda: "0.0.0+other")
    source = partial(cluster_outcomes, address=cluster.scheduler_address)
    _, rows, _ = swept(tmp_path, source, ["seed=1,2"])
    assert {row["status"] for row in rows} == {"failed"}
    assert "another version of v4sim" in str(rows[0]["error"])


def unreadable(task):
    raise OverflowError("an answer that is none")


def test_what_the_product_does_not_catch_is_the_point_s_error(tmp_path, cluster):
    source = partial(cluster_outcomes, address=cluster.scheduler_address, run=unreadable)
    _, rows, _ = swept(tmp_path, source, ["seed=1"])
    assert rows[0]["error"] == "the cluster could not run it: an answer that is none"


def test_a_point_that_kills_its_worker_has_failed_and_the_rest_is_unharmed(tmp_path, cluster):
    source = partial(cluster_outcomes, address=cluster.scheduler_address, run=made)
    _, rows, _ = swept(tmp_path, source, ["seed=11,12,13,15"])
    assert [row["status"] for row in rows] == ["done", "done", "failed", "done"]
    assert "its workers ended without an answer" in str(rows[2]["error"])


def test_a_worker_is_no_scheduler(tmp_path, cluster):
    with Client(cluster.scheduler_address) as client:
        client.wait_for_workers(1)
        address = next(iter(client.nthreads()))
    with pytest.raises(InputError, match=r"a Dask (Nanny|Worker) answers"):
        list(cluster_outcomes(tasks_of(tmp_path, "seed=1"), no_keep, address))


@contextlib.contextmanager
def listening(answer):
    """Address of a server that answers every connection with bytes, or with nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            kept = []
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    kept.append(connection)
                    if answer:
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def closed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return contextlib.nullcontext(f"tcp://127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    ("place", "answer_s", "words"),
    [
        (closed, 0.5, r"does not answer within 0\.5 s"),
        (partial(listening, b""), 0.5, r"does not answer within 0\.5 s"),
        (partial(listening, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9), 600, "is no Dask scheduler"),
        (partial(contextlib.nullcontext, "nowhere"), 600, "missing port number"),
        (partial(contextlib.nullcontext, "http://127.0.0.1:80"), 600, "unknown address scheme"),
    ],
)
def test_what_is_no_scheduler_is_one_sentence(tmp_path, monkeypatch, place, answer_s, words):
    def retrying(*_, **__):
        raise AssertionError("a client would go on trying for minutes")

    monkeypatch.setattr("distributed.Client", retrying)
    monkeypatch.setattr(cluster_module, "ANSWER_S", answer_s)
    tasks = tasks_of(tmp_path, "seed=1")
    with place() as address, pytest.raises(InputError, match=words) as caught:
        list(cluster_outcomes(tasks, no_keep, address))
    assert "\n" not in caught.value.message
    assert "expected a running Dask scheduler" in caught.value.message


def test_a_scheduler_without_workers_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "WORKERS_S", 0.5)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(
            InputError, match=r"no worker joined it within 0\.5 s; start some: dask worker"
        ),
    ):
        list(cluster_outcomes(tasks_of(tmp_path, "seed=1"), no_keep, empty.scheduler_address))


def test_a_cluster_that_goes_away_leaves_what_has_finished(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    server = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    points = span(scenario_file(tmp_path), parse_grid([f"seed={','.join(map(str, range(1, 13)))}"]))
    plan = plan_sweep(points, PartFolder(tmp_path / "parts"))

    def gone(_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)

    try:
        with pytest.raises(InputError, match=r"has gone; \d+ of 12 points are kept in"):
            run_sweep(plan, partial(cluster_outcomes, address=address, run=made), gone)
    finally:
        gone(None)
        server.wait()
    kept = len(list((tmp_path / "parts").iterdir()))
    assert 1 <= kept < 12
    again = plan_sweep(points, PartFolder(tmp_path / "parts"))
    assert (again.kept, len(again.tasks)) == (kept, 12 - kept)
