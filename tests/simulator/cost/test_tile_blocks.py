"""Kernels that tiles price, as the machine runs them: the same work, near the tile model's time."""

from statistics import median

import pytest

from simulator.cost.price import Target
from simulator.cost.question import ask
from simulator.cost.step import cost_step, rank_graph
from simulator.cost.tile_blocks import tile_program, tiled_kernel
from simulator.cost.tile_buffers import running_cores
from simulator.engine.lowering import lower
from workloads.run_stats import RunStats

QUESTIONS = [
    {"chip": "ascend-950dt", "model": "v4-flash", "count": 8, "batch": 8, "context": 8192},
    {"chip": "ascend-910b3", "model": "v4-flash", "count": 8, "batch": 1, "context": 32768},
    {"chip": "mi355x", "model": "v4-pro", "count": 8, "batch": 64, "context": 8192},
    {"chip": "mi300x", "model": "v4-flash", "count": 8, "batch": 16, "context": 2048},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["chip"])
def test_the_machine_runs_every_kernel_near_the_tile_model(question):
    tile, cycle = cost_step(ask(**question)), cost_step(ask(**question, fidelity="cycle"))
    assert all(kernel.machine is not None for kernel in cycle.kernels)
    pairs = list(zip(tile.kernels, cycle.kernels, strict=True))
    off = sorted(abs(c.duration_ps / t.duration_ps - 1) for t, c in pairs)
    assert median(off) <= 0.10
    assert off[len(off) * 9 // 10] <= 0.20
    assert cycle.total_ps == pytest.approx(tile.total_ps, rel=0.12)
    for kernel in cycle.kernels:
        assert sum(kernel.causes_ps.values()) == kernel.duration_ps


def test_causes_name_cube_cores_and_memory():
    found = cost_step(ask(**QUESTIONS[0], fidelity="cycle"))
    experts = next(kernel for kernel in found.kernels if kernel.name == "expert_up")
    assert experts.causes_ps["dram_bandwidth"] > 0
    assert experts.causes_ps["matrix"] > 0


@pytest.mark.parametrize(
    ("field", "kernel"),
    [("cores.l1_to_l0a", "index_score"), ("cores.l1_to_l0b", "core"), ("memory.RC", "expert_up")],
)
def test_numbers_of_an_npu_move_its_kernels_on_the_machine(field, kernel):
    base = cost_step(ask(**QUESTIONS[0], fidelity="cycle"))
    edit = "memory.RC=300ns" if field == "memory.RC" else f"{field}=8B/clk"
    slow = cost_step(ask(**QUESTIONS[0], fidelity="cycle", edits=[edit]))
    assert slow.total_ps > base.total_ps


def test_a_program_holds_the_kernels_bytes_and_clocks():
    asked = ask(chip="ascend-950dt", model="v4-flash", count=8, batch=8, context=8192)
    profile = asked.deployment.profile
    graph = rank_graph(asked.question, asked.config, asked.deployment.formats.precision)
    kernels = lower(graph, profile, RunStats())
    target = Target(asked.chip, asked.node, profile)
    for kernel in {k.name: k for k in kernels}.values():
        tiled = tiled_kernel(kernel.demand, target)
        program = tile_program(kernel.demand, target, tiled)
        (launch,) = program.launches
        if not kernel.demand.products:
            continue
        assert launch.stages.sum() == tiled.blocks * tiled.steps
        work = launch.kinds[0].stage
        # Vector cores share the units of the machine's core.
        sharing = round(running_cores(kernel.demand, asked.chip)[0] / asked.chip.core_count)
        seconds = (work.matrix + work.vector) / asked.chip.clock_hz * sharing
        assert seconds == pytest.approx(max(tiled.unit_s.values()), rel=1e-9)
        cold = sum(r.nbytes for r in program.regions if not r.warm)
        assert cold == pytest.approx(
            kernel.demand.weight_bytes + kernel.demand.cache_read_bytes, rel=0.3, abs=2**16
        )
