"""What to doubt about a chip's description: guessed numbers, and numbers that contradict others."""

from __future__ import annotations

from collections.abc import Iterator

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.basis.sourced import Sourced
from simulator.basis.units import format_rate

# Facts that cost models read; other facts of a description decide nothing yet.
CHIP_FACTS = (
    "memory.capacity",
    "memory.bandwidth",
    "memory.latency",
    "llc.capacity",
    "llc.read_bandwidth",
    "llc.latency",
    "cores.count",
    "cores.clock",
    "cores.peak_clock",
    "cores.scratchpad",
    "matrix.bf16",
    "matrix.fp8",
    "matrix.fp4",
    "matrix.tf32",
    "vector.fp32",
    "vector.special",
    "launch.graph_gap",
)
LINK_FACTS = ("scale_up.latency", "scale_out.bandwidth", "scale_out.latency")
# Sources round differently; beyond this two numbers mean different machines.
CONTRADICTION = 0.05


def guessed_facts(chip: ChipSpec, node: NodeSpec | None) -> tuple[str, ...]:
    """Sentences on the guessed numbers that costs rest on, each with its reason."""
    facts = [(chip.name, path, _fact(chip, path)) for path in CHIP_FACTS]
    if node is not None:
        facts.append((chip.name, "scale_up.bandwidth", _fact(chip, "scale_up.bandwidth")))
        facts += [(node.name, path, _fact(node, path)) for path in LINK_FACTS]
    return tuple(
        f"{name} {path.replace('_', ' ').replace('.', ' ')} {_amount(fact)} is guessed: "
        f"{' '.join((fact.note or fact.source or '').split())}."
        for name, path, fact in facts
        if fact is not None and fact.kind == "guessed"
    )


def contradictions(chip: ChipSpec) -> Iterator[str]:
    """Sentences on rates that do not follow from the parts of the description; they are used."""
    memory, cores = chip.memory, chip.cores
    pins = memory.stacks.si * memory.channels_per_stack.si * memory.channel_width.si
    derived = pins * memory.pin_rate.si / 8
    if _differ(derived, chip.hbm_bandwidth_bytes_per_s):
        yield (
            f"{chip.name} states a memory bandwidth of "
            f"{format_rate(chip.hbm_bandwidth_bytes_per_s)}, but its stacks, channels and pin rate "
            f"make {format_rate(derived)}; the stated bandwidth is used"
        )
    stated = chip.matrix_flops_per_s("bf16") or chip.matrix_flops_per_s("fp16")
    derived = cores.count.si * cores.matrix_flops_per_clock.si * cores.peak_clock.si
    if stated and _differ(derived, stated):
        yield (
            f"{chip.name} states {format_rate(stated, 'FLOP/s')} in 16 bits, but its cores, FLOP a "
            f"clock and peak clock make {format_rate(derived, 'FLOP/s')}; the stated rate is used"
        )


def _differ(a: float, b: float) -> bool:
    return abs(a - b) > CONTRADICTION * b


def _fact(spec: ChipSpec | NodeSpec, path: str) -> Sourced | None:
    section, _, name = path.partition(".")
    fact: Sourced | None = getattr(getattr(spec, section), name, None)
    return fact


def _amount(fact: Sourced) -> str:
    return f"{fact.value:,}" if fact.unit == "1" else f"{fact.value:,} {fact.unit}"


def guessed_count(chip: ChipSpec) -> int:
    """How many of the numbers of a chip that costs rest on are guessed."""
    facts = (_fact(chip, path) for path in (*CHIP_FACTS, "scale_up.bandwidth"))
    return sum(1 for fact in facts if fact is not None and fact.kind == "guessed")
