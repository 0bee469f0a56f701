"""What the machine saw of kernels: its account of the time adds up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hwmodels.machine.simulation import MachineResult
from hwmodels.machine.steady import KernelTime, LaunchTime
from hwmodels.machine.words import STATE_NAMES
from simulator.cost.cycle_engine import stretched
from simulator.cost.machine_price import causes_of, states_of
from simulator.cost.machine_view import STATE_PLACES, STATES, MachineView, mean_view
from simulator.cost.price import Price
from simulator.cost.question import AskedStep, ask
from simulator.cost.records import _spent
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.cost.step_timer import layer_places
from simulator.cost.traffic import Traffic
from simulator.cost.typical_step import typical_step
from simulator.kernels.causes import shared_out

VIEW = MachineView(
    occupancy=0.5,
    llc_hit_rate=0.25,
    row_hit_rate=0.75,
    queued_chunks=100.0,
    channel_balance=0.9,
    extrapolated=0.0,
    states_ps={"launch": 10, "memory": 60, "wait": 30},
)


def asked() -> AskedStep:
    whole = ask(
        model="v4-flash", chip="h200", count=8, context=256, fidelity="cycle", engine="vllm-0.33"
    )
    return whole.changed(config=layer_places(whole.config)[0])  # one layer of each kind


@cache
def costed() -> StepResult:
    return cost_step(asked())


def price(view: MachineView) -> Price:
    causes = causes_of(view.states_ps)
    return Price(
        run_ps=90,
        busy_ps={"launch": 10, "memory": 80},
        traffic=Traffic(0, 0, 0),
        causes_ps=causes,
        priced_by="made up",
        machine=view,
    )


def test_states_add_up_for_every_kernel_of_a_step() -> None:
    seen = [kernel for kernel in costed().kernels if kernel.machine is not None]
    assert len(seen) > 100
    for kernel in seen:
        states = kernel.machine.states_ps  # type: ignore[union-attr]
        assert sum(states.values()) == kernel.duration_ps == sum(kernel.causes_ps.values())
        assert all(part_ps > 0 for part_ps in states.values())
        assert causes_of(states) == dict(kernel.causes_ps)


def test_states_of_the_mean_over_steps_add_up_as_well() -> None:
    mean = typical_step(asked())
    assert mean.period is not None
    for kernel in mean.kernels:
        assert kernel.machine is not None
        assert sum(kernel.machine.states_ps.values()) == kernel.duration_ps


def test_every_state_of_the_machine_has_a_cause() -> None:
    assert sum(causes_of({state: 1 for state in STATES}).values()) == len(STATES)


def test_states_are_shared_out_in_their_own_order() -> None:
    parts = shared_out(10, {"wait": 1.0, "no block": 1.0, "links": 1.0}, STATE_PLACES)
    assert parts == {"no block": 4, "wait": 3, "links": 3}


def test_a_slower_memory_and_neighbours_stay_in_the_account() -> None:
    slower = stretched(price(VIEW), 1.5, 0)
    assert slower.machine is not None
    assert slower.machine.states_ps == {"launch": 10, "wait": 30, "memory": 90}
    assert sum(slower.machine.states_ps.values()) == slower.alone_ps == 130
    causes, beside = _spent(price(VIEW), 107)
    assert beside is not None
    assert beside.states_ps["memory"] == 67
    assert sum(beside.states_ps.values()) == sum(causes.values()) == 107
    assert _spent(price(VIEW), 100)[1] is VIEW


def test_means_are_weighted() -> None:
    other = replace(VIEW, occupancy=1.0, queued_chunks=0.0)
    mean = mean_view([VIEW, other], [3.0, 1.0])
    assert (mean.occupancy, mean.queued_chunks) == (pytest.approx(0.625), pytest.approx(75.0))
    assert mean_view([VIEW, other], [0.0, 0.0]).occupancy == pytest.approx(0.75)


def machine_result(states_ps: dict[str, int]) -> MachineResult:
    """A run of which only the account of its time matters."""
    return MachineResult(
        duration_ps=sum(states_ps.values()),
        launches_ps=(),
        slots=1,
        states_ps={**dict.fromkeys(STATE_NAMES, 0), **states_ps},
        hit_bytes=0,
        missed_bytes=0,
        merged_bytes=0,
        read_bytes=0,
        written_bytes=0,
        near_bytes=0,
        far_bytes=0,
        sent_bytes=0,
        chunks=0,
        memory_wait_ps=0,
        row_hit_rate=0.0,
        channel_bytes=(0,),
        events=0,
    )


def test_what_the_power_limit_adds_is_a_state_and_a_cause() -> None:
    launch = LaunchTime(80.0, machine_result({"launch": 20, "matrix": 60}), 0.0)
    states = states_of([KernelTime(100e-12, 20e-12, (launch,))])
    shared = shared_out(100, states, STATE_PLACES)
    assert shared == {"launch": 20, "matrix": 60, "power": 20}
    assert causes_of(shared) == {"launch": 20, "matrix": 60, "power": 20}
