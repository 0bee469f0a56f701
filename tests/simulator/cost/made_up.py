"""A made-up chip with round numbers, and changes to it."""

from __future__ import annotations

from typing import Any

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import NodeSpec, load_node
from simulator.basis.sourced import Sourced
from simulator.cost.price import Target
from simulator.engine.profile import find_profile

UNITS = {
    "bandwidth": "B/s",
    "read_bandwidth": "B/s",
    "capacity": "B",
    "latency": "s",
    "graph_gap": "s",
    "clock": "Hz",
    "peak_clock": "Hz",
    "count": "1",
    "scratchpad": "B",
    "vector_core_count": "1",
    "unified_buffer": "B",
    "l0a": "B",
    "l0b": "B",
    "l0c": "B",
    "l1_to_l0a": "B/clk",
    "l1_to_l0b": "B/clk",
}


def number(value: float, unit: str) -> Sourced:
    return Sourced(value=value, unit=unit, kind="guessed", note="made up for a test")


def changed(chip: ChipSpec, **parts: dict[str, Any]) -> ChipSpec:
    """Chip with other numbers: `changed(chip, memory={"bandwidth": 1e12})`; None removes one."""
    update: dict[str, Any] = {}
    for part, values in parts.items():
        new = {
            key: None if value is None else number(value, UNITS.get(key, "FLOP/s"))
            for key, value in values.items()
        }
        update[part] = getattr(chip, part).model_copy(update=new)
    return chip.model_copy(update=update)


def made_up_chip() -> ChipSpec:
    """1 TB/s, 100 cores, bf16 100 TFLOP/s, launch gap 1 us, latency 500 ns, LLC 10 TB/s."""
    return changed(
        find_chip("h200"),
        memory={"bandwidth": 10**12, "capacity": 10**11, "latency": 5e-7},
        llc={"capacity": 10**7, "read_bandwidth": 10**13, "latency": 2e-7},
        cores={"count": 100, "clock": 10**9, "peak_clock": 10**9, "scratchpad": 10**6},
        matrix={
            "bf16": 10**14,
            "fp16": 10**14,
            "fp8": 2 * 10**14,
            "fp4": 4 * 10**14,
            "tf32": 5 * 10**13,
        },
        vector={"fp32": 10**13, "special": 10**12},
        launch={"graph_gap": 1e-6},
    )


def made_up_cubes() -> ChipSpec:
    """The made-up chip with the buffers of a 910B; L1 to L0A and L0B 100 and 50 B a clock.

    100 cube cores of 500 multiply-adds a clock, two vector cores each.
    """
    buffers = {"l0a": 1 << 16, "l0b": 1 << 16, "l0c": 1 << 17, "scratchpad": 1 << 19}
    vector = {"vector_core_count": 200, "unified_buffer": 192 << 10}
    return changed(made_up_chip(), cores=buffers | vector | {"l1_to_l0a": 100, "l1_to_l0b": 50})


def target(chip: ChipSpec, node: NodeSpec | None = None) -> Target:
    return Target(chip, node or load_node("h200-x8"), find_profile("ideal"))
