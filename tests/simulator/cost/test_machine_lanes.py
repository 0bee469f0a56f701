"""Which kernels of a step have lanes: of every family the longest, by its longest program."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost.machine_lanes import machine_lanes
from simulator.cost.question import ask
from simulator.cost.step import cost_step

SHOWN = {"index_score", "core", "attn_hc_post", "attn_fixed"}


def test_the_longest_kernel_of_each_family_is_followed() -> None:
    asked = ask(model="v4-flash", chip="b200", count=8, batch=8, context=4096, engine="sglang-0.5")
    result = cost_step(asked)
    kernels = tuple(k for k in result.kernels if k.name in SHOWN)
    shown = machine_lanes(asked, replace(result, kernels=kernels), most=1000)
    by_name = {one.record.name: one for one in shown}
    # A kernel that only waits to be launched has nothing to show.
    assert by_name.keys() == SHOWN - {"attn_fixed"}
    for name, one in by_name.items():
        same = [k.duration_ps for k in kernels if k.name == name]
        assert one.record.duration_ps == max(same)
        assert 0 < len(one.lanes.stretches) <= 1000
    starts = [one.record.start_ps for one in shown]
    assert starts == sorted(starts)
