"""What the machine saw, as a table in the terminal, in JSON and in the page."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from rich.console import Console

from reports.machine_table import machine_json, machine_lines, machine_section, without_machine
from reports.page import page_html
from reports.step_json import step_to_json
from reports.terminal import print_step
from simulator.cost.machine_view import MachineView
from simulator.cost.result import StepResult
from tests.reports.factory import make_kernel, make_result

VIEW = MachineView(
    occupancy=0.5,
    llc_hit_rate=0.25,
    row_hit_rate=0.75,
    queued_chunks=123.4,
    channel_balance=0.9,
    extrapolated=0.125,
    states_ps={"no block": 20, "matrix": 50, "wait": 10, "memory": 20},
)


def step(fidelity: str = "cycle") -> StepResult:
    short = replace(VIEW, occupancy=1.0, states_ps={"memory": 50})
    result = make_result(
        make_kernel("gemm", 0, 100, machine=VIEW),
        make_kernel("gemm", 100, 150, machine=short),
        make_kernel("norm", 150, 160),
    )
    return replace(result, question=replace(result.question, fidelity=fidelity))


def printed(result: StepResult, width: int) -> str:
    console = Console(width=width, record=True, highlight=False)
    with console.capture() as capture:
        print_step(console, result)
    return capture.get()


def test_launches_of_a_name_are_weighed_by_their_time() -> None:
    gemm, norm = machine_lines(step())
    assert (gemm.name, gemm.launches, gemm.duration_ps) == ("gemm", 2, 150)
    assert gemm.view is not None
    assert abs(gemm.view.occupancy - 2 / 3) < 1e-12
    assert gemm.view.states_ps == {"no block": 20, "matrix": 50, "wait": 10, "memory": 70}
    assert gemm.stalls == (("memory", 70 / 150), ("no block", 20 / 150))
    assert norm.view is None
    assert norm.stalls == ()


def test_other_rungs_have_no_table() -> None:
    tile = step("tile")
    assert machine_lines(tile) == ()
    assert machine_json(tile) is None
    assert machine_section("a", tile) == ""
    assert "occupied" not in printed(tile, 140)


def test_the_terminal_shows_all_columns_where_it_has_room() -> None:
    text = printed(step(), 140)
    line = next(x for x in text.splitlines() if x.startswith("gemm") and "memory 47 %" in x)
    assert line.split("  ")[0] == "gemm"
    assert "67 %" in line
    assert "memory 47 %, no block 13 %" in line
    for cell in ("25 %", "75 %", "123", "90 %", "13 %"):
        assert cell in line
    assert "A dash: no calibrated kernel family has norm" in text
    assert "No room" in printed(step(), 60)


def test_a_kernel_that_nothing_sends_to_memory_has_no_rates_of_it() -> None:
    quiet = replace(VIEW, queued_chunks=0.0, row_hit_rate=0.0)
    html = machine_section("a", replace(step(), kernels=(make_kernel("x", 0, 100, machine=quiet),)))
    assert "<td>–</td><td>0</td><td>–</td>" in html


def test_a_step_that_no_machine_ran_says_so_without_a_table() -> None:
    tiles = replace(step(), kernels=(make_kernel("norm", 0, 10),))
    for text in (printed(tiles, 140), machine_section("a", tiles)):
        assert "No machine ran: no kernel of this engine" in " ".join(text.split())
        assert "occupied" not in text


def test_json_has_units_in_names() -> None:
    data = step_to_json(step())
    assert data["kernels"][0]["machine"] == {
        "occupancy_share": 0.5,
        "llc_hit_share": 0.25,
        "dram_row_hit_share": 0.75,
        "queued_chunks": 123.4,
        "channel_balance_share": 0.9,
        "extrapolated_share": 0.125,
        "states_ps": {"no_block": 20, "matrix": 50, "wait": 10, "memory": 20},
    }
    assert data["kernels"][2]["machine"] is None
    gemm, norm = data["machine"]
    assert gemm["stall_shares"] == {"memory": 70 / 150, "no_block": 20 / 150}
    assert gemm["machine"]["states_ps"]["memory"] == 70
    assert norm["machine"] is None
    assert step_to_json(step("tile"))["machine"] is None


def test_the_page_has_the_table_and_says_why_there_are_dashes(tmp_path) -> None:
    html = page_html(tmp_path / "page.html", [("Decode", step())])
    assert "What the machine saw" in html
    assert "memory 47 %, no block 13 %" in html
    assert escape(without_machine(machine_lines(step()))) in html
    assert "What the machine saw" not in page_html(tmp_path / "p.html", [("Decode", step("tile"))])
