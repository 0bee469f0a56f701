"""A made-up chip with round numbers, and changes to it."""

from __future__ import annotations

from typing import Any

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import NodeSpec, load_node
from simulator.basis.sourced import Sourced
from simulator.cost.price import Target
from simulator.lower.profile import find_profile

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


def target(chip: ChipSpec, node: NodeSpec | None = None) -> Target:
    return Target(chip, node or load_node("h200-x8"), find_profile("ideal"))
