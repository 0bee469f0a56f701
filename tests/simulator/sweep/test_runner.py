"""Sweeps run: equal tables, parts that are kept, points that fail, and interruption."""

from __future__ import annotations

import os
from functools import partial

import pyarrow.parquet as pq
import pytest

from simulator.basis.errors import InputError
from simulator.serve.run import run_scenario
from simulator.sweep.compute import Outcome, Task, compute
from simulator.sweep.grid import parse_grid
from simulator.sweep.local import local_outcomes
from simulator.sweep.parts import PartFolder
from simulator.sweep.point import span
from simulator.sweep.row import point_row
from simulator.sweep.runner import InterruptedSweepError, plan_sweep
from tests.simulator.sweep.scenarios import GRID, TEXT, made, scenario_file, swept, through


def here(workers, run=compute):
    return partial(local_outcomes, workers=workers, run=run)


def test_one_and_two_workers_and_a_second_start_write_the_same_bytes(tmp_path):
    found, rows, one = swept(tmp_path / "one", here(1), GRID)
    assert (found.computed, found.kept) == (8, 0)
    assert [row["status"] for row in rows] == ["refused"] * 4 + ["done"] * 4
    assert "does not fit" in str(rows[0]["error"])
    _, _, two = swept(tmp_path / "two", here(2), GRID)
    assert one == two
    parts = sorted((tmp_path / "one" / "parts").iterdir())
    assert [p.name for p in parts] == sorted(p.name for p in (tmp_path / "two/parts").iterdir())
    for part in parts:
        assert part.read_bytes() == (tmp_path / "two" / "parts" / part.name).read_bytes()
    for part in parts[::2]:
        part.unlink()
    again, _, bytes_again = swept(tmp_path / "one", here(2), GRID)
    assert (again.computed, again.kept) == (4, 4)
    assert bytes_again == one


def test_a_point_has_the_figures_of_its_scenario_run_alone(tmp_path):
    # Points of one process share deployments; what they say must not depend on it.
    _, rows, _ = swept(tmp_path, here(1), ["traffic.made.concurrency=1,3", "seed=1,2"])
    for row in rows:
        changed = TEXT.replace("concurrency: 4", f"concurrency: {row['traffic.made.concurrency']}")
        (point,) = span(scenario_file(tmp_path, changed), parse_grid([f"seed={row['seed']}"]))
        assert point.scenario is not None
        alone = point_row(run_scenario(point.scenario))
        assert alone == {name: row[name] for name in alone}
    assert len({row["span_s"] for row in rows}) == 2


def test_rows_follow_the_grid_however_outcomes_come(tmp_path):
    def backwards(tasks):
        yield from (made(task) for task in reversed(tasks))

    values = [5, 3, 9, 1]
    _, rows, _ = swept(tmp_path, through(backwards), [f"seed={','.join(map(str, values))}"])
    assert [row["seed"] for row in rows] == values
    assert [row["run.seed"] for row in rows] == values
    table = pq.read_table(tmp_path / "sweep.parquet")
    assert table.column("half").to_pylist() == [2.5, 1.5, 4.5, 0.5]


def test_equal_points_are_computed_once_and_have_a_row_each(tmp_path):
    calls = []

    def counting(tasks):
        calls.extend(tasks)
        yield from map(made, tasks)

    found, rows, _ = swept(
        tmp_path, through(counting), ["parallel={tp: 4},{tp: 4, dp: 1}", "seed=1,2"]
    )
    assert len(calls) == found.computed == 2
    assert len(rows) == 4
    assert rows[0]["part"] == rows[2]["part"] != rows[1]["part"]


def test_what_goes_wrong_inside_a_point_is_its_error(tmp_path, monkeypatch):
    def broken(scenario, **_):
        raise ZeroDivisionError("by nothing") if scenario.seed == 2 else InputError("cannot be")

    monkeypatch.setattr("simulator.sweep.compute.run_scenario", broken)
    _, rows, _ = swept(tmp_path, here(1), ["seed=1,2"])
    assert [(row["status"], row["error"]) for row in rows] == [
        ("refused", "cannot be"),
        ("failed", "ZeroDivisionError: by nothing"),
    ]
    monkeypatch.undo()
    again, rows, _ = swept(tmp_path, here(1), ["seed=1,2"])
    # A refusal stands; a failure is tried again.
    assert (again.kept, again.computed) == (1, 1)
    assert [row["status"] for row in rows] == ["refused", "done"]


def test_a_point_whose_process_is_killed_has_failed_and_the_rest_is_unharmed(tmp_path):
    _, rows, _ = swept(tmp_path, here(2, made), ["seed=11,12,13,15,16,17"])
    assert [row["status"] for row in rows] == ["done"] * 2 + ["failed"] + ["done"] * 3
    assert "its process ended without an answer" in str(rows[2]["error"])


def test_combinations_that_are_no_scenario_are_rows(tmp_path):
    texts = ["traffic.made.rate_per_s=5.0,null", "traffic.made.concurrency=null,4"]
    found, rows, _ = swept(tmp_path, here(1, made), texts)
    assert (found.invalid, found.computed) == (2, 2)
    assert [row["status"] for row in rows] == ["done", "refused", "refused", "done"]
    again, _, _ = swept(tmp_path, here(1, made), texts)
    assert (again.kept, again.computed) == (4, 0)


def test_interruption_keeps_what_has_finished(tmp_path):
    def stopped(tasks):
        yield from map(made, tasks[:3])
        raise KeyboardInterrupt

    with pytest.raises(InterruptedSweepError, match=r"3 of 5 points are kept in") as caught:
        swept(tmp_path, through(stopped), ["seed=1,2,3,4,5"])
    assert caught.value.exit_code == 130
    assert len(list((tmp_path / "parts").iterdir())) == 3
    again, _, _ = swept(tmp_path, here(1, made), ["seed=1,2,3,4,5"])
    assert (again.kept, again.computed) == (3, 2)


def test_interruption_clears_what_killed_processes_left(tmp_path):
    running = tmp_path / "parts" / f".a.parquet.{os.getpid()}-00000000.tmp"
    ended = tmp_path / "parts" / f".a.parquet.{2**22 + 1}-00000000.tmp"

    def stopped(tasks):
        running.touch()
        ended.touch()
        yield made(tasks[0])
        raise KeyboardInterrupt

    with pytest.raises(InterruptedSweepError):
        swept(tmp_path, through(stopped), ["seed=1,2"])
    assert running.exists()
    assert not ended.exists()


def test_a_damaged_or_foreign_part_is_computed_again(tmp_path):
    swept(tmp_path, here(1, made), ["seed=1,2,3"])
    first, second, third = sorted((tmp_path / "parts").iterdir())
    first.write_bytes(first.read_bytes()[:-20])
    second.write_bytes(third.read_bytes())
    again, _, _ = swept(tmp_path, here(1, made), ["seed=1,2,3"])
    assert (again.kept, again.computed) == (1, 2)


def test_a_part_comes_back_as_it_was(tmp_path):
    row = {"n": 2**60 + 1, "x": 0.1, "t": "a", "yes": True, "none": None}
    outcome = Outcome(digest="d", status="done", row=row)
    parts = PartFolder(tmp_path)
    parts.write(outcome, "{}")
    assert parts.read("d") == outcome
    assert pq.read_schema(parts.path("d")).metadata[b"v4sim.inputs"] == b"{}"


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "parts").write_text("")
    with pytest.raises(InputError, match="cannot make folder"):
        swept(tmp_path, here(1, made), ["seed=1"])


def test_tasks_hold_the_digest_of_their_point(tmp_path):
    points = span(scenario_file(tmp_path), parse_grid(["seed=1,2"]))
    plan = plan_sweep(points, PartFolder(tmp_path / "parts"))
    assert plan.tasks == tuple(Task(p.digest, p.inputs, p.scenario) for p in points if p.scenario)
