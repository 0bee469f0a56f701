"""Rows of measured tables with the family that each is judged under, and their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec, find_chip, list_chips
from simulator.basis.errors import FileFormatError, V4SimError, unknown_name
from simulator.calibration.measured import TEXT, MeasuredTable
from simulator.calibration.measured_rows import MeasuredCalls, measured_calls, row_of
from simulator.calibration.row_entries import entry_of
from simulator.calibration.tiny_graphs import NEEDS, Row, with_heads
from simulator.kernels.architecture import core_architecture
from simulator.kernels.attention_module import AttentionModule
from simulator.kernels.expert_tokens import UNIFORM, power_law_exponent
from simulator.kernels.parts import Floats
from simulator.kernels.regime import Situation
from simulator.kernels.registry import find_family
from simulator.kernels.user_constants import active_constants

NOT_COVERED = ""
# Engines whose kernels are modelled: the name of an engine before its first `-`.
ENGINES = ("aiter", "nccl", "sglang", "trtllm", "vllm")


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One row: where it stands, its columns, its time, and the family that it is judged under."""

    file: str
    line: int
    columns: Row
    seconds: float
    family: str

    @property
    def chip(self) -> str:
        """Name of the chip."""
        return str(self.columns["chip"])

    def text(self, name: str) -> str:
        """A text column; empty where there is none."""
        return str(self.columns.get(name, ""))


@dataclass(frozen=True)
class RowSet:
    """Rows of one core architecture, and their calls, which are lowered once."""

    rows: tuple[MeasuredRow, ...]
    _calls: list[MeasuredCalls] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def seconds(self) -> Floats:
        """Measured seconds."""
        return np.array([row.seconds for row in self.rows])

    @property
    def chips(self) -> list[ChipSpec]:
        """Chip of each row."""
        known = {name: chip_of(name) for name in dict.fromkeys(row.chip for row in self.rows)}
        return [known[row.chip] for row in self.rows]

    @property
    def calls(self) -> MeasuredCalls:
        """Calls of all rows."""
        if not self._calls:
            self._calls.append(measured_calls([row.columns for row in self.rows], self.chips))
        return self._calls[0]

    def of(self, family: str) -> NDArray[np.intp]:
        """Numbers of the rows judged under a family."""
        return np.flatnonzero([row.family == family for row in self.rows])

    def by_architecture(self) -> dict[str, RowSet]:
        """Rows by core architecture, sorted by its name."""
        found: dict[str, list[MeasuredRow]] = {}
        for row, chip in zip(self.rows, self.chips, strict=True):
            found.setdefault(core_architecture(chip), []).append(row)
        return {name: RowSet(tuple(rows)) for name, rows in sorted(found.items())}

    def by_chip(self) -> dict[str, RowSet]:
        """Rows by chip, sorted by its name."""
        names = sorted({row.chip for row in self.rows})
        return {name: self.chosen(lambda row, n=name: row.chip == n) for name in names}  # type: ignore[misc]

    def chosen(self, takes: Callable[[MeasuredRow], bool]) -> RowSet:
        """Some of the rows."""
        return RowSet(tuple(row for row in self.rows if takes(row)))


def situation_of(row: MeasuredRow, seconds: float, cause: str) -> Situation:
    """Situation of a row that is predicted to take `seconds`; of a whole module, that of its step.

    Where an operation's name does not tell the phase of the step, it is not known.
    """
    operation, columns = row.text("op"), row.columns
    phases = [name for name in ("decode", "prefill") if name in operation]
    requests = columns.get("batch")
    tokens = columns.get("num_tokens", columns.get("m"))
    if requests is not None:
        tokens = float(requests) * float(columns.get("new_tokens", 1.0))
    module = isinstance(find_family(row.family), AttentionModule)
    return Situation(
        seconds=None if module else seconds,
        cause=None if module else cause,
        decode=phases == ["decode"] if phases else None,
        tokens=None if tokens is None else float(tokens),
        requests=None if requests is None else float(requests),
    )


_DESCRIBED: ContextVar[Mapping[str, ChipSpec]] = ContextVar("described chips", default={})  # noqa: B039


@contextmanager
def described_chips(chips: Iterable[ChipSpec]) -> Iterator[None]:
    """Inside the block, tables may name these chips by what their files call them."""
    token = _DESCRIBED.set({**_DESCRIBED.get(), **{chip.plain_name: chip for chip in chips}})
    try:
        yield
    finally:
        _DESCRIBED.reset(token)


def chip_of(name: str) -> ChipSpec:
    """Chip of a table's `chip` column: described for it, in constants in use, or shipped."""
    if name in _DESCRIBED.get():
        return _DESCRIBED.get()[name]
    for _, content in active_constants():
        if name in content.chips and name not in list_chips():
            return content.chips[name]
    return find_chip(name)


def dispatched(
    tables: Iterable[MeasuredTable], faults: list[FileFormatError] | None = None
) -> RowSet:
    """All rows of tables, each with its family.

    Rows whose engine, chip or columns are not known are left out where their `faults` are asked
    for; without, the first is raised.
    """
    rows: list[MeasuredRow] = []
    known: dict[tuple[str, str], str] = {}
    first: FileFormatError | None = None
    for table in tables:
        for index in range(len(table)):
            found = _row(table, index, known)
            if isinstance(found, MeasuredRow):
                rows.append(found)
            elif faults is None:
                raise found
            else:
                first = first or found
                faults.append(found)
    if first is not None and not rows:
        raise first
    return RowSet(tuple(rows))


def _row(
    table: MeasuredTable, index: int, known: dict[tuple[str, str], str]
) -> MeasuredRow | FileFormatError:
    """A row of a table, or what is wrong with it; `known` keeps what was found of names."""
    line, columns = int(table.lines[index]), row_of(table, index)
    fault = _name_fault("engine", str(columns["engine"]), known) or _name_fault(
        "chip", str(columns["chip"]), known
    )
    if fault:
        return FileFormatError(f"{table.path}:{line}: {fault}")
    entry = entry_of({name: str(v) for name, v in columns.items() if name in TEXT})
    if entry is not None:
        missing = [name for name in NEEDS[entry.graph] if name not in columns]
        if missing:
            return FileFormatError(
                f"{table.path}:1: column {missing[0]!r} is missing; rows of "
                f"{columns['op']} need {', '.join(NEEDS[entry.graph])}"
            )
        if "num_experts" in NEEDS[entry.graph]:
            fault = _experts_fault(columns)
            if fault:
                return FileFormatError(f"{table.path}:{line}: {fault}")
        if "local_heads" in NEEDS[entry.graph]:
            fault = _model_fault(columns)
            if fault:
                return FileFormatError(f"{table.path}:{line}: {fault}")
    family = entry.judged if entry else NOT_COVERED
    return MeasuredRow(table.path.name, line, columns, float(table.seconds[index]), family)


def _experts_fault(columns: Row) -> str:
    """Why the experts of a row cannot be drawn; empty where they can."""
    if float(columns["topk"]) > float(columns["num_experts"]):
        return (
            f"column 'topk' is {columns['topk']:g}, expected at most the "
            f"{columns['num_experts']:g} of 'num_experts'"
        )
    distribution = str(columns.get("distribution", "balanced"))
    try:
        if distribution not in ("balanced", UNIFORM):
            power_law_exponent(distribution)
    except V4SimError as error:
        return f"column 'distribution': {error.message}"
    return ""


def _model_fault(columns: Row) -> str:
    """Why a row's share of a model's heads cannot be; empty where it can."""
    try:
        with_heads(str(columns["model"]), int(columns["local_heads"]))
    except V4SimError as error:
        return f"columns 'model' and 'local_heads': {error.message}"
    return ""


def _name_fault(what: str, name: str, known: dict[tuple[str, str], str]) -> str:
    """Why an engine or chip cannot be used; empty where it can."""
    if (what, name) not in known:
        known[what, name] = _engine_fault(name) if what == "engine" else _chip_fault(name)
    return known[what, name]


def _engine_fault(engine: str) -> str:
    """Every engine (its name before the first `-`) is one that we know."""
    name = engine.partition("-")[0]
    if name in ENGINES:
        return ""
    return f"{unknown_name('engine family', name, ENGINES)} (of engine {engine!r})"


def _chip_fault(chip: str) -> str:
    try:
        chip_of(chip)
    except V4SimError as error:
        return f"{error.message}; give its description with --chip FILE"
    return ""
