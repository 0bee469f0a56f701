"""Energy of a step on one chip by class of work: idle, matrix units, memory, links."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hwmodels.chip import ChipSpec
from simulator.cost.result import StepResult

# H200: 80.3 W without work, TDP 700 W (serialalice.pt GPU energy benchmark, June 2026).
IDLE_SHARE = 80.3 / 700
# Guessed: 3.9 pJ a bit of HBM3 and 5 pJ a bit over NVLink and its switch, recalled from vendor
# talks, not re-read.
MEMORY_J_PER_BYTE = 8 * 3.9e-12
LINK_J_PER_BYTE = 8 * 5e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnergy:
    """Joules of one chip in a step, and of all chips with their share of servers."""

    idle_j: float
    matrix_j: float
    memory_j: float
    links_j: float
    all_in_j: float
    seconds: float
    chips: int
    tokens: int

    @property
    def chip_j(self) -> float:
        """Joules of one chip."""
        return self.idle_j + self.matrix_j + self.memory_j + self.links_j

    @property
    def watts(self) -> float:
        """Mean power of one chip."""
        return self.chip_j / self.seconds

    @property
    def joules_per_token(self) -> float:
        """All chips, all in, for each token of the step."""
        return self.all_in_j / self.tokens

    @property
    def sentence(self) -> str:
        """The energy in words."""
        parts = (
            ("idle", self.idle_j),
            ("matrix units", self.matrix_j),
            ("memory", self.memory_j),
            ("links", self.links_j),
        )
        shares = ", ".join(f"{name} {value / self.chip_j:.0%}" for name, value in parts)
        return (
            f"Energy: {self.watts:,.0f} W a chip on average ({shares}); {self.chip_j:.3g} J a chip "
            f"and step; with servers {self.joules_per_token:.3g} J a token."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, units in the names."""
        return asdict(self) | {"watts": self.watts, "joules_per_token": self.joules_per_token}


def step_energy(step: StepResult, chip: ChipSpec) -> StepEnergy:
    """Energy of a costed step.

    Assumes: a chip without work draws 11.5 % of its limit, as an H200 does; a multiply-add takes
        what is left of the limit when matrix units and memory both run at their peaks, in every
        format in proportion to its peak rate; a byte of memory takes 31 pJ, of links 40 pJ; no chip
        draws more than its limit. What the server adds goes with the ratio of all-in power to the
        limit (1.5 where it is not known).
    """
    seconds, limit = step.seconds, chip.tdp_w
    idle = IDLE_SHARE * limit
    memory_peak = MEMORY_J_PER_BYTE * chip.hbm_bandwidth_bytes_per_s
    matrix_peak = max(0.0, limit - idle - memory_peak)
    busy_s = 0.0
    memory = links = 0.0
    for kernel in step.kernels:
        memory += kernel.dram_bytes * MEMORY_J_PER_BYTE
        links += kernel.link_bytes * LINK_J_PER_BYTE
        for math, flops in kernel.flops.items():
            rate = _rate(chip, math)
            busy_s += flops / rate if rate else 0.0
    matrix = matrix_peak * busy_s
    dynamic, most = matrix + memory + links, (limit - idle) * seconds
    scale = min(1.0, most / dynamic) if dynamic else 1.0
    all_in = float(chip.power.all_in.si) / limit if chip.power.all_in else 1.5
    total = idle * seconds + scale * dynamic
    chips = step.question.count
    return StepEnergy(
        idle_j=idle * seconds,
        matrix_j=scale * matrix,
        memory_j=scale * memory,
        links_j=scale * links,
        all_in_j=total * all_in * chips,
        seconds=seconds,
        chips=chips,
        tokens=step.tokens,
    )


def _rate(chip: ChipSpec, math: str) -> float | None:
    """Peak of a math class; mixed ones run at that of their wider operand."""
    return chip.matrix_flops_per_s({"fp8xfp4": "fp8", "fp4_index": "fp8"}.get(math, math))
