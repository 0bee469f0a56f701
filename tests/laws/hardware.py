"""Every number of a chip, its memory and its node, halved and doubled: which kernels it moves.

A panel of kernels of calibrated engines is priced at `cycle`, with the chip's file as it is and
edited. `python -m tests.laws.hardware` writes what moved into the table beside this file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.chip_edits import edited_chip, number_keys
from hwmodels.chip_sections import Matrix
from hwmodels.dram.chip_memory import chip_preset
from hwmodels.dram.edited_preset import PresetNumbers
from hwmodels.dram.preset import Timing, timing_faults
from hwmodels.node import NodeSpec, find_node
from simulator.basis.errors import InputError, UnsupportedError
from simulator.basis.sourced import Sourced
from simulator.basis.yaml_loader import StrictModel
from simulator.cost.cycle import cycle_price
from simulator.cost.engine_price import program_price
from simulator.cost.machine_calls import call_program
from simulator.cost.price import Target
from simulator.engine.kernel import Demand
from simulator.engine.profile import find_profile
from tests.laws.panel import Point, kernels_of, small
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout

TABLE = Path(__file__).parent / "hardware.yaml"
MOVED = 0.001  # share of a kernel's time beyond which it moved
TOLERANCE = 0.005  # share by which a kernel may go against what is expected
HALVED, DOUBLED = 0.5, 2.0
WAYS = {HALVED: "halved", DOUBLED: "doubled"}

# Chip and engine, in the order in which a field is tried: the first always, the others where
# those have no such field or do not move. Fields of near caches stand in AMD's files alone, those
# of cube cores in Ascend's, whose kernels the tile model prices.
MACHINES = (
    ("h200", "sglang-0.5"),
    ("b200", "trtllm-1.3"),
    ("h200", "vllm-0.33"),
    ("b200", "sglang-0.5"),
)
OTHERS = (("mi300x", "sglang-0.5"), ("ascend-950dt", "ascend"))
ALWAYS = 1

TENSOR = ParallelLayout(8)
ONE, LONG_ONE, MANY, LONG_MANY = (
    Point(batch, 1, context - 1, TENSOR) for batch in (1, 64) for context in (8192, 131_072)
)
PREFILL = Point(1, 8192, 0, TENSOR)
RANKS = Point(64, 1, 8191, ParallelLayout(1, 8, 8))
SPREAD = Point(32, 1, 8191, ParallelLayout(1, 16, 16))
PANEL: tuple[tuple[str, Point, str], ...] = (
    ("gemm", ONE, "csa/compressor_gemm"),
    ("gemm", MANY, "csa/qkv_a"),
    ("gemm", MANY, "swa/shared_up"),
    ("gemm", PREFILL, "csa/qkv_a"),
    ("gemm", PREFILL, "csa/indexer_weights"),
    ("logits", ONE, "head/logits"),
    ("index logits", ONE, "csa/index_score"),
    ("index logits", LONG_ONE, "csa/index_score"),
    ("index logits", LONG_MANY, "csa/index_score"),
    ("index logits", PREFILL, "csa/index_score"),
    ("index logits in FP4", LONG_MANY, "csa/index_score"),
    ("top-k", ONE, "csa/top_k"),
    ("top-k", LONG_MANY, "csa/top_k"),
    ("top-k", PREFILL, "csa/top_k"),
    ("core", ONE, "csa/core"),
    ("core", LONG_MANY, "hca/core"),
    ("core", PREFILL, "csa/core"),
    ("experts", ONE, "swa/experts"),
    ("experts", LONG_MANY, "swa/experts"),
    ("experts in FP8", MANY, "swa/experts"),
    ("mhc", MANY, "swa/attn_hc_pre"),
    ("mhc", MANY, "swa/attn_hc_post"),
    ("elementwise", MANY, "csa/compressor"),
    ("elementwise", PREFILL, "swa/q_rope_kv_insert"),
    ("all-reduce", MANY, "swa/attn_all_reduce"),
    ("exchange", SPREAD, "swa/dispatch"),
    ("exchange", RANKS, "swa/dispatch"),
)
# Formats of a kind of kernels, where they are not the engine's own.
FORMATS = {
    "index logits in FP4": Precision(index="fp4"),
    "experts in FP8": Precision(expert="fp8"),
}
# What stands for a number that a chip's file may leave out, as the property of the chip says.
DEFAULTS = {
    "llc.ways": (16, "1"),
    "matrix.fp32": (67, "TFLOP/s"),  # the vector units' rate
    "memory.RCD": (31, "clk"),  # a name for RCDRD and RCDWR together
}
_TIMINGS = tuple(Timing.model_fields)


@dataclass(frozen=True)
class Machine:
    """A chip in its node under an engine."""

    chip: ChipSpec
    node: NodeSpec
    engine: str

    @property
    def target(self) -> Target:
        return Target(self.chip, self.node, find_profile(self.engine))


@dataclass(frozen=True, slots=True)
class Seen:
    """Picoseconds of a kernel, and how its program is cut: blocks, loops and requests."""

    time_ps: int
    cut: object


@cache
def machine(chip: str, engine: str) -> Machine:
    return Machine(find_chip(chip), find_node(chip, 8), engine)


@lru_cache(maxsize=8)
def panel(chip: str, engine: str) -> Mapping[str, Demand]:
    """Demands of the panel by name; those that no program of the engine prices are left out."""
    own = machine(chip, engine).target
    found: dict[str, Demand] = {}
    lowered: dict[object, dict[str, Demand]] = {}
    for kind, point, name in PANEL:
        formats = FORMATS.get(kind, Precision())
        place = (point, formats)
        if place not in lowered:
            kernels = kernels_of(small("v4-flash"), formats, own.profile, point)
            lowered[place] = {f"{k.kind}/{k.name}": k.demand for k in reversed(kernels)}
        demand = lowered[place].get(name)
        if demand is not None and (engine == "ascend" or program_price(demand, own)):
            found[f"{kind}: {name} {point.batch}x{point.new}+{point.past}"] = demand
    return found


def seen(demand: Demand, own: Machine) -> Seen | None:
    """What a kernel takes; None where the machine has no room for its blocks."""
    try:
        price = cycle_price(demand, own.target)
    except UnsupportedError:
        return None
    program = program_price(demand, own.target)
    if program is None:
        return Seen(price.alone_ps, price.cut)
    programs = [call_program(call, own.chip) for call in program[1]]
    cuts = tuple(
        (
            launch.blocks,
            int(launch.stages.sum()),
            *((k.stage_bytes, k.fixed_bytes, k.in_flight) for k in launch.kinds),
        )
        for each in programs
        for launch in each.launches
    )
    return Seen(price.alone_ps, cuts)


@cache
def own_seen(chip: str, engine: str, name: str) -> Seen | None:
    return seen(panel(chip, engine)[name], machine(chip, engine))


def numbers(spec: type[StrictModel], prefix: str) -> Iterator[str]:
    """Dotted paths of the sourced numbers that a file of a node may have."""
    for name, field in spec.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, StrictModel) and kind is not Sourced:
            yield from numbers(kind, f"{prefix}{name}.")
        elif "Sourced" in str(field):
            yield prefix + name


NODE = "node."
FIELDS = (*number_keys(), *numbers(NodeSpec, NODE))


def own_number(chip: ChipSpec, path: str) -> tuple[float, str] | None:
    """Value and unit of a number: the file's, its preset's, or what stands for it."""
    section, _, name = path.rpartition(".")
    place = getattr(chip, section) if section else chip
    if place is None:
        return None
    number: Sourced | None = getattr(place, name)
    if number is None and section == "memory" and name in PresetNumbers.model_fields:
        preset = chip_preset(chip)
        part = preset.timing if name in _TIMINGS else preset.organisation
        number = getattr(part, name, None)
    return (number.value, number.unit) if number is not None else DEFAULTS.get(path)


# Rates of the whole chip that its parts make together. A number of parts is judged with them, so
# that a part stays as it is: alone, more parts are each slower.
_PEAKS = (*(f"matrix.{name}" for name in Matrix.model_fields), "vector.fp32", "vector.special")
TOGETHER = {
    "cores.count": _PEAKS,
    "cores.vector_core_count": ("vector.fp32", "vector.special"),
    "memory.stacks": ("memory.bandwidth",),
    "memory.channels_per_stack": ("memory.bandwidth",),
    "memory.pseudo_channels": ("memory.bandwidth",),
    "llc.slices": ("llc.read_bandwidth",),
}


def changed(
    own: Machine, path: str, factor: float, together: bool = False
) -> tuple[Machine, str] | None:
    """The machine with a number halved or doubled, and how; None where it may not be so.

    Timings that constrain one another move with the one that is changed; `together` also the
    rates that the chip's parts make.
    """
    if path.startswith(NODE):
        return changed_node(own, path.removeprefix(NODE), factor)
    number = own_number(own.chip, path)
    if number is None:
        return None
    value, unit = number
    edits = {path: text_of(value * factor, value, unit)}
    if path.startswith("memory.") and path.removeprefix("memory.") in (*_TIMINGS, "RCD"):
        edits = timing_edits(own.chip, path.removeprefix("memory."), factor)
    for key in TOGETHER.get(path, ()) if together else ():
        rate = None if key == "matrix.fp32" else own_number(own.chip, key)
        if rate is not None:
            edits[key] = text_of(rate[0] * factor, *rate)
    texts = [f"{key}={text}" for key, text in edits.items()]
    if not texts:
        return None
    try:
        chip = edited_chip(own.chip, texts)
    except InputError:
        return None
    node = own.node.with_links_of(chip)
    return Machine(chip, node, own.engine), ", ".join(texts)


def text_of(value: float, before: float, unit: str) -> str:
    """A value with its unit; a count stays whole."""
    if unit in ("1", "clk") and float(before).is_integer():
        value = max(1, math.floor(value))
    return f"{value:.12g}{'' if unit == '1' else unit}"


def timing_edits(chip: ChipSpec, key: str, factor: float) -> dict[str, str]:
    """The timing at a factor, and the others that must move with it."""
    own = chip_preset(chip).timing.in_clocks
    wanted = max(1, math.floor(own["RCDRD" if key == "RCD" else key] * factor))
    both = ("RCDRD", "RCDWR")
    moved = dict.fromkeys(both if key == "RCD" else (key,), wanted)
    for _ in range(8):
        fault = next(timing_faults({**own, **moved}), None)
        if fault is None:
            break
        moved |= _mended(fault[0], own, moved)
    moved = {name: clocks for name, clocks in moved.items() if clocks != own[name]}
    if key == "RCD":
        moved = {"RCD": wanted, **{k: v for k, v in moved.items() if k not in both}}
    return {f"memory.{name}": f"{clocks}clk" for name, clocks in moved.items()}


def _mended(
    keys: tuple[str, ...], own: Mapping[str, int], moved: Mapping[str, int]
) -> dict[str, int]:
    """Of numbers that contradict each other, those that were not changed."""
    now = {**own, **moved}
    if keys[0] == "RC":
        if "RC" not in moved:
            return {"RC": now["RAS"] + now["RP"]}
        share = now["RC"] / own["RC"]
        return {name: max(1, math.floor(own[name] * share)) for name in ("RAS", "RP")}
    longer, shorter = keys
    if shorter in ("BL", "CCDS") and longer in moved and shorter not in moved:
        return {longer: now[shorter]}  # a shorter burst would be another channel
    if longer in moved:
        return {shorter: now[longer]}
    return {longer: now[shorter]}


def changed_node(own: Machine, path: str, factor: float) -> tuple[Machine, str] | None:
    """The machine with a number of its node halved or doubled."""
    section, _, name = path.rpartition(".")
    place: Any = getattr(own.node, section) if section else own.node
    number: Sourced | None = getattr(place, name)
    value, unit = (number.value, number.unit) if number else (own.node.link_bytes_per_s, "B/s")
    other = max(1, int(value * factor)) if unit == "1" else value * factor
    edit = Sourced(value=other, unit=unit, kind="guessed", note="changed by a law")
    part = place.model_copy(update={name: edit})
    node = own.node.model_copy(update={section: part}) if section else part
    return Machine(own.chip, node, own.engine), f"{NODE}{path}={text_of(other, value, unit)}"


@dataclass(frozen=True, slots=True)
class Move:
    """What a change did to a kernel: the share of its time more, and whether at the same program.

    `at` names chip, engine and kernel.
    """

    at: str
    way: str
    share: float
    same_program: bool


def moves(
    path: str,
    chip: str,
    engine: str,
    only: Callable[[str], bool] = lambda name: True,
    together: bool = False,
) -> list[Move]:
    """Kernels of a panel with a number halved and doubled, by how much each moved."""
    own, found = machine(chip, engine), []
    demands = panel(chip, engine)
    for factor, way in WAYS.items():
        change = changed(own, path, factor, together)
        if change is None:
            continue
        other, text = change
        for name, demand in demands.items():
            if not only(name):
                continue
            before, after = own_seen(chip, engine, name), seen(demand, other)
            if before is None or after is None:
                continue
            share = after.time_ps / before.time_ps - 1.0
            at = f"{chip} {engine} {name}"
            found.append(Move(at, f"{way} ({text})", share, before.cut == after.cut))
    return found


def machines_of(path: str) -> Iterator[tuple[str, str]]:
    """Machines on which a field can be changed, in the order in which they are tried."""
    for chip, engine in (*MACHINES, *OTHERS):
        own = machine(chip, engine)
        only_there = (chip, engine) in MACHINES or not any(
            changed(machine(*other), path, factor) for other in MACHINES for factor in WAYS
        )
        if only_there and any(changed(own, path, factor) for factor in WAYS):
            yield chip, engine


# Kinds of kernels that take no time to simulate.
QUICK = ("top-k", "core", "all-reduce", "exchange")


def quick_moves(path: str) -> list[Move]:
    """Moves of some kernels on the first machine."""
    place = next(machines_of(path), None)
    return [] if place is None else moves(path, *place, only=lambda name: name.startswith(QUICK))


@cache
def all_moves(path: str) -> list[Move]:
    """Moves on the first machines, and on others until one moves."""
    found: list[Move] = []
    for number, place in enumerate(machines_of(path)):
        if number >= ALWAYS and any(abs(move.share) > MOVED for move in found):
            break
        found += moves(path, *place)
    return found


@cache
def judged_moves(path: str) -> list[Move]:
    """Moves that have to have a direction: of a number of parts, with what they make together."""
    if path not in TOGETHER:
        return all_moves(path)
    return [
        move
        for number, place in enumerate(machines_of(path))
        if number < ALWAYS
        for move in moves(path, *place, together=True)
    ]


def largest(found: list[Move]) -> Move | None:
    return max(found, key=lambda move: abs(move.share), default=None)


# Nanoseconds of memory latency, far below anything that a kernel could feel as such.
DITHER_NS = (-0.2, -0.1, 0.1, 0.2)


@cache
def unsteadiness(chip: str, engine: str) -> Mapping[str, float]:
    """Share by which a kernel's time spreads over dithers of the memory's latency.

    Requests that meet in queues and banks in another order take another time altogether, which
    runs that are cut and extrapolated make larger. Within it a move has no sign.
    """
    own = machine(chip, engine)
    latency = own.chip.memory.latency
    times: dict[str, list[int]] = {}
    for dither in (0.0, *DITHER_NS):
        text = f"memory.latency={latency.value + dither:.12g}{latency.unit}"
        other = Machine(edited_chip(own.chip, [text]), own.node, own.engine)
        for name, demand in panel(chip, engine).items():
            found = seen(demand, other)
            if found is not None:
                times.setdefault(name, []).append(found.time_ps)
    return {name: max(each) / min(each) - 1.0 for name, each in times.items()}


def against(
    found: list[Move], direction: int, unsteady: Mapping[str, float] | None = None
) -> list[Move]:
    """Moves against a direction: 1 where more is not slower, -1 where more is not faster.

    What a kernel's time is unsteady by comes on top of the tolerance.
    """
    known = unsteady or {}

    def wrong(move: Move) -> float:
        grown = 1 if move.way.startswith("doubled") else -1
        return move.share * grown * direction

    def most(move: Move) -> float:
        return TOLERANCE + known.get(move.at, 0.0)

    return sorted((m for m in found if wrong(m) > most(m)), key=wrong, reverse=True)


def table() -> dict[str, Any]:
    """The table that was written."""
    return dict(yaml.safe_load(TABLE.read_text()))


def kept_unsteadiness() -> dict[str, float]:
    """Share of each kernel's time, by the table."""
    return {at: percent / 100 for at, percent in table()["unsteadiness_percent"].items()}


def new_unsteadiness() -> dict[str, float]:
    """The same as measured now, of the machines that every field is tried on; per cent."""
    found = {
        f"{chip} {engine} {name}": round(100 * share, 2)
        for chip, engine in MACHINES[:ALWAYS]
        for name, share in unsteadiness(chip, engine).items()
    }
    return {at: percent for at, percent in found.items() if percent > 0}


def entry(path: str, direction: int, unsteady: Mapping[str, float]) -> dict[str, Any]:
    """What the table says of a field: the largest move, and what goes against its direction."""
    found = all_moves(path)
    most = largest(found)
    if most is None:
        return {"tried": "no value beside its own is accepted"}
    if abs(most.share) <= MOVED:
        return {"moves": "nothing"}
    # The move that stands out most of its kernel's unsteadiness, not only the largest.
    clear = largest([m for m in found if abs(m.share) > max(MOVED, unsteady.get(m.at, 0.0))])
    beyond, clear = clear is not None, clear or most
    made: dict[str, Any] = {
        "kernel": clear.at,
        "change": clear.way,
        "percent": round(100 * clear.share, 2),
        "beyond_unsteadiness": beyond,
        "kernels": len({m.at for m in found if abs(m.share) > MOVED}),
    }
    wrong = against(judged_moves(path), direction, unsteady)
    for key, same in (("against", True), ("against_with_another_program", False)):
        said = [f"{m.at}, {m.way}: {100 * m.share:+.2f} %" for m in wrong if m.same_program is same]
        if said:
            made[key] = said
    return made


def write(paths: list[str]) -> None:
    """Entries of some fields anew, or of all."""
    from tests.laws.test_hardware import DIRECTION

    known = table() if TABLE.exists() and paths else {}
    made = known.get("fields", {})
    percents = known.get("unsteadiness_percent") or new_unsteadiness()
    unsteady = {at: percent / 100 for at, percent in percents.items()}
    for path in paths or FIELDS:
        made[path] = entry(path, DIRECTION[path], unsteady)
        print(path, made[path], flush=True)
    fields = {path: made[path] for path in FIELDS if path in made}
    whole = {"unsteadiness_percent": percents, "fields": fields}
    text = yaml.safe_dump(whole, sort_keys=False, width=200, allow_unicode=True)
    TABLE.write_text(f"# Written by 'python -m tests.laws.hardware'.\n{text}")


if __name__ == "__main__":
    write(sys.argv[1:])
