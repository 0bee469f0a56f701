"""Measured rows as calls of kernel families: each lowered by a profile, all priced as arrays.

A row's time is that of its kernels: those of one stage side by side by stream, stages one after
the other. Only what a benchmark does otherwise than a step is added to the sizes of its calls:
scores that are all equal, weights that are warm from the call before, a stated spread of experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.calibration.measured import TEXT, MeasuredTable
from simulator.calibration.row_entries import RowEntry, entry_of
from simulator.calibration.tiny_graphs import GRAPHS, Row
from simulator.cost.family_call import FamilyCall, Form, borrowable
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.engine.kernel import Kernel
from simulator.engine.kernel_section import FamilyRule
from simulator.engine.lowering import lower
from simulator.engine.phase import Phase
from simulator.engine.profile import EngineProfile, find_profile
from simulator.engine.sizes import row as sizes_row
from simulator.kernels.constants_file import constants_for, held_constants
from simulator.kernels.parts import CAUSES, Floats, Parts
from simulator.kernels.registry import find_family
from simulator.kernels.warmth import ROTATION_FADE, rotated_warm_share, warm_share
from workloads.run_stats import RunStats

# Constants under trial, by family, for rows of one core architecture.
Trial = Mapping[str, Mapping[str, float]]
# Copies of the weights that an engine's benchmark of GEMMs rotates, to find them cold.
WEIGHT_COPIES = {"trtllm": 5.0}
MOST_COPIES = 6.0
ELEMENT_BYTES = {"half": 2, "bfloat16": 2, "float": 4, "int8": 1}
# Most stages and streams of a module.
STAGES, STREAMS = 8, 4


@dataclass(frozen=True, slots=True)
class _Group:
    """Calls of one form of one family on one chip: columns, and the place of each call's time."""

    form: Form
    family: str
    chip: ChipSpec
    columns: Mapping[str, np.ndarray]
    rows: NDArray[np.intp]
    slots: NDArray[np.intp]

    def parts(self, trial: Trial) -> Parts:
        """Seconds by cause, with the stored constants unless others are on trial."""
        constants = trial.get(self.family) or constants_for(self.family, self.chip).values
        return self.form(self.columns, self.chip, constants)


@dataclass(frozen=True, slots=True)
class MeasuredCalls:
    """Rows as arrays of calls."""

    count: int
    groups: tuple[_Group, ...]

    @property
    def families(self) -> frozenset[str]:
        """Families whose constants the rows take."""
        return frozenset(group.family for group in self.groups)

    def parts(self, trial: Trial | None = None) -> Parts:
        """Seconds by cause of every row."""
        found = _Slots(self.count)
        for group in self.groups:
            found.add(group.rows, group.slots, group.parts(trial or {}))
        return found.joined()

    def frozen(self, free: Iterable[str]) -> FrozenCalls:
        """The same with all but the `free` families worked out."""
        own, fixed = [], _Slots(self.count)
        names = set(free)
        for group in self.groups:
            if group.family in names:
                own.append(group)
            else:
                fixed.add(group.rows, group.slots, group.parts({}))
        return FrozenCalls(tuple(own), fixed.totals())


@dataclass(frozen=True, slots=True)
class FrozenCalls:
    """Rows of which only some families' constants change."""

    groups: tuple[_Group, ...]
    fixed: Floats

    def seconds(self, trial: Trial) -> Floats:
        """Seconds of every row."""
        totals = self.fixed.copy()
        for group in self.groups:
            np.add.at(totals, (group.rows, group.slots), group.parts(trial).total)
        stages = totals.reshape(-1, STAGES, STREAMS).max(axis=2)
        return np.asarray(stages.sum(axis=1))


class _Slots:
    """Seconds by cause, row, stage and stream."""

    def __init__(self, count: int) -> None:
        self._by_cause: dict[str, Floats] = {}
        self._shape = (count, STAGES * STREAMS)

    def add(self, rows: NDArray[np.intp], slots: NDArray[np.intp], parts: Parts) -> None:
        """Add the seconds of some calls."""
        for cause, value in parts.seconds.items():
            if cause not in self._by_cause:
                self._by_cause[cause] = np.zeros(self._shape)
            np.add.at(self._by_cause[cause], (rows, slots), value)

    def totals(self) -> Floats:
        """Seconds by row and slot."""
        total = np.zeros(self._shape)
        for value in self._by_cause.values():
            total += value
        return total

    def joined(self) -> Parts:
        """Stages one after the other; in each the longest stream owns the time."""
        by_stage = self.totals().reshape(-1, STAGES, STREAMS)
        longest = by_stage.argmax(axis=2)[:, :, None]
        return Parts(
            {
                cause: np.take_along_axis(
                    self._by_cause[cause].reshape(by_stage.shape), longest, axis=2
                ).sum(axis=(1, 2))
                for cause in CAUSES
                if cause in self._by_cause
            }
        )


def measured_calls(rows: Sequence[Row], chips: Sequence[ChipSpec]) -> MeasuredCalls:
    """Calls of rows on their chips; every row has an entry, and the columns that it needs.

    Assumes: streams of a module side by side do not slow each other down.
    """
    groups: dict[object, list[tuple[FamilyCall, int, int]]] = {}
    chip_of: dict[object, ChipSpec] = {}
    with held_constants({}):
        for index, (row, chip) in enumerate(zip(rows, chips, strict=True)):
            for slot, call in calls_of(row, chip):
                key = (call.key, call.constants.family, chip.name)
                groups.setdefault(key, []).append((call, index, slot))
                chip_of[key] = chip
    return MeasuredCalls(
        len(rows), tuple(_group(members, chip_of[key]) for key, members in groups.items())
    )


def _group(members: Sequence[tuple[FamilyCall, int, int]], chip: ChipSpec) -> _Group:
    first = members[0][0]
    columns = {
        name: np.array([call.row[i][1] for call, _, _ in members])
        for i, (name, _) in enumerate(first.row)
    }
    rows = np.array([index for _, index, _ in members])
    slots = np.array([slot for _, _, slot in members])
    return _Group(first.form, first.constants.family, chip, columns, rows, slots)


def row_of(table: MeasuredTable, index: int) -> Row:
    """Columns of a row."""
    return {
        name: str(column[index]) if name in TEXT else float(column[index])
        for name, column in table.columns.items()
    }


def calls_of(row: Row, chip: ChipSpec) -> list[tuple[int, FamilyCall]]:
    """Calls of a row on a chip, each with its slot (stage and stream)."""
    entry = entry_of({name: str(value) for name, value in row.items() if name in TEXT})
    assert entry is not None, f"{row} has no entry"
    if entry.graph == "collective":
        return [(0, _collective(row, entry, chip))]
    target = _target(entry.profile, entry.family, entry.kernels or (), chip)
    kernels = _lowered(_sizes(row), entry)
    warm = _warm(row, kernels, chip)
    found = []
    for kernel in kernels:
        calls = program_calls(kernel.demand, target)
        if calls is None:
            raise UnsupportedError(
                f"kernel {kernel.name} of {target.profile.name} is priced by no family on "
                f"{chip.name}"
            )
        slot = kernel.stage * STREAMS + kernel.stream
        found += [(slot, _as_measured(call, row, warm)) for call in calls]
    return found


@lru_cache(maxsize=256)
def _target(profile: str, family: str | None, kernels: tuple[str, ...], chip: ChipSpec) -> Target:
    """The profile with one family for the timed kernels, where the entry says so."""
    found = find_profile(profile)
    if family is not None:
        rules = (FamilyRule(family=family),)
        changed = [
            kernel.model_copy(update={"families": rules}) if kernel.name in kernels else kernel
            for kernel in found.kernels
        ]
        found = found.model_copy(update={"kernels": tuple(changed)})
    return Target(chip, None, found)


# Columns that say where and by whom a row was timed, not what.
_NOT_SIZES = ("latency_us", "line", "file", "chip", "scores", "weights", "distribution")


def _sizes(row: Row) -> tuple[tuple[str, str | float], ...]:
    return tuple((name, value) for name, value in row.items() if name not in _NOT_SIZES)


@lru_cache(maxsize=16384)
def _lowered(sizes: tuple[tuple[str, str | float], ...], entry: RowEntry) -> tuple[Kernel, ...]:
    """Timed kernels of a row's graph, whatever chip they run on."""
    row, named = dict(sizes), entry.kernels
    profile = find_profile(entry.profile)
    graph = GRAPHS[entry.graph](row, _path(profile, named or ()))
    single = not graph.step.total(lambda new, past: new - 1)
    # A kernel that was timed alone was launched, whatever an engine leaves out.
    decode = named is not None or "decode" in str(row["op"])
    kernels = lower(graph, profile, RunStats(), Phase(decode, single))
    return tuple(k for k in kernels if (k.name in named if named is not None else k.stage))


def _path(profile: EngineProfile, kernels: tuple[str, ...]) -> str:
    """Path of the first node of a kernel, which a single node stands in for."""
    return next((k.nodes[0] for k in profile.kernels if k.name in kernels and k.nodes), "")


def _warm(row: Row, kernels: Iterable[Kernel], chip: ChipSpec) -> float:
    """Share of the weights that a benchmark finds in the last-level cache.

    A module's are those of the call before; a GEMM's those of copies that are rotated. A column
    `weights` may say `cold`.

    Assumes: every die of a package keeps its own copy of the weights that its cores read.
    Assumes: all copies are rotated even where the benchmark stops at the size of the cache, which
        is cold just as well.
    """
    if row.get("weights") == "cold":
        return 0.0
    weights = np.array([float(sum(k.demand.weight_bytes for k in kernels))])
    if row["op"] == "gemm":
        copies = WEIGHT_COPIES.get(str(row["engine"]).partition("-")[0], MOST_COPIES)
        return float(rotated_warm_share(weights, copies, chip)[0])
    return float(warm_share(weights * chip.dies, chip, ROTATION_FADE)[0])


def _as_measured(call: FamilyCall, row: Row, warm: float) -> FamilyCall:
    """A call under the conditions of its benchmark."""
    names = {name for name, _ in call.row}
    changed: dict[str, float | str] = {}
    if "warm" in names:
        changed["warm" if row["op"] == "gemm" else "replayed"] = warm
    if "ties" in names:
        changed["ties"] = float(row.get("scores") != "top_last")
    if "distribution" in names:
        changed["distribution"] = str(row["distribution"])
    if "sites" in names:
        changed["sites"] = float(row["num_sites"])
    if not changed:
        return call
    sizes = tuple((name, changed.get(name, value)) for name, value in call.row)
    return FamilyCall(call.form, call.constants, sizes)


def _collective(row: Row, entry: RowEntry, chip: ChipSpec) -> FamilyCall:
    """The collective alone, with the sizes that lowering reads off a node."""
    dtype = str(row.get("nccl_dtype") or row.get("allreduce_dtype") or "half")
    sizes = sizes_row(
        operation=str(row["op_name"]),
        message_bytes=float(row["message_size"]) * ELEMENT_BYTES.get(dtype, 2),
        decode=1.0,
        floating=float(dtype != "int8"),
        ranks=float(row["num_gpus"]),
        engine=str(row["engine"]),
    )
    assert entry.family is not None
    family = find_family(entry.family)
    return FamilyCall(family.parts, borrowable(entry.family, chip), sizes)
