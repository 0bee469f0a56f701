"""The recipe file that turns measured serving rows into scenarios, with the reason where it cannot.

A row is one figure of a run: chip, chips, engine, model, configuration, metric, value. Rows of one
run share a scenario, which is served once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import StrictModel, load_yaml
from simulator.serve.client import SglangBench
from simulator.serve.scenario import Scenario

RECIPES = Path(__file__).parent / "recipes.yaml"
COLUMNS = ("system", "n_gpus", "engine", "model", "config", "metric", "value", "unit", "source")
Whole = Annotated[int, Field(gt=0)]
Exchange = Literal["deepep", "gathered", "fused"]


class Flags(StrictModel):
    """Launch flags of one cell of the grid. Degrees may be `all`: as many as there are chips.

    `step_tokens`: the engine's chunk, over all data ranks; `drafts`: EAGLE steps.
    """

    chips: tuple[str, ...]
    model: str
    formats: tuple[str, ...] = ()
    strategy: str
    parallel: dict[Literal["tp", "dp", "ep"], int | Literal["all"]]
    exchange: Exchange | None = None
    step_tokens: Whole
    max_requests: Whole = 256
    memory_share: float | None = None
    drafts: Annotated[int, Field(ge=0, le=8)] = 0
    gathers_prompts: bool = False


class Family(StrictModel):
    """Rows of one publisher. `config` is matched against the row's configuration, whole.

    `nominal_rate`: formats whose tokens a second count (input + output) / output nominal tokens
    for each output token.
    """

    name: str
    counted: bool
    engine: str
    config: str
    source: str
    thousands: bool = False
    format: str | None = None
    nominal_rate: tuple[str, ...] = ()
    client: SglangBench
    prompts: dict[int, Whole]
    strategies: dict[str, tuple[int, ...]]
    base: dict[str, Any]
    accepted: tuple[float, ...] = ()
    flags: tuple[Flags, ...]


class Recipes(StrictModel):
    """All families, and the words of the table."""

    families: tuple[Family, ...]
    models: dict[str, str]
    formats: dict[str, str]
    notes: dict[str, str]
    metrics: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One line of the table; `line` is its number in the file."""

    line: int
    system: str
    chips: int
    engine: str
    model: str
    config: str
    metric: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """Rows that one run gave. `scenario` is None where `reason` says why there is none."""

    rows: tuple[MeasuredRow, ...]
    scenario: Scenario | None
    reason: str = ""
    note: str = ""
    counted: bool = False
    concurrency: int = 0
    format: str = ""
    nominal: float | None = None

    @property
    def name(self) -> str:
        """Chip, chips, model, format and concurrency, in a word."""
        first = self.rows[0]
        if self.scenario is None:
            return f"{first.system} x {first.chips}, {first.model}"
        setting = f"{first.system} x {first.chips} {first.model} {self.format}"
        return f"{setting} c{self.concurrency}".lower()


def load_recipes(path: Path = RECIPES) -> Recipes:
    """The recipe file that ships, or one of the same form."""
    return load_yaml(path, Recipes)


def read_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """Rows of a table; every fault is a sentence with file and line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise FileFormatError(
                    f"{path}:1: has no column {', '.join(missing)}; expected {', '.join(COLUMNS)}"
                )
            return tuple(_row(path, line, row) for line, row in enumerate(reader, 2))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _row(path: Path, line: int, row: dict[str, str]) -> MeasuredRow:
    try:
        chips, value = int(row["n_gpus"] or 0), float(row["value"])
    except ValueError:
        raise FileFormatError(
            f"{path}:{line}: n_gpus {row['n_gpus']!r} and value {row['value']!r} must be a whole "
            "number and a number"
        ) from None
    words = ("system", "engine", "model", "config", "metric", "unit", "source")
    return MeasuredRow(line=line, chips=chips, value=value, **{name: row[name] for name in words})


def runs_of(rows: Sequence[MeasuredRow], recipes: Recipes) -> tuple[MeasuredRun, ...]:
    """Runs in the order of their first rows."""
    groups: dict[tuple[object, ...], list[MeasuredRow]] = {}
    for row in rows:
        key = (row.system, row.chips, row.engine, row.model, row.config)
        groups.setdefault(key, []).append(row)
    return tuple(_run(tuple(group), recipes) for group in groups.values())


def _run(rows: tuple[MeasuredRow, ...], recipes: Recipes) -> MeasuredRun:
    row = rows[0]
    own = [family for family in recipes.families if family.engine == row.engine]
    if not own:
        return MeasuredRun(rows=rows, scenario=None, reason=f"no recipe of engine {row.engine!r}")
    for family in own:
        match = re.fullmatch(family.config, row.config)
        if match is not None:
            return _mapped(rows, recipes, family, match.groupdict())
    return MeasuredRun(rows=rows, scenario=None, reason="no recipe reads this configuration")


def _mapped(
    rows: tuple[MeasuredRow, ...], recipes: Recipes, family: Family, read: dict[str, str]
) -> MeasuredRun:
    row, concurrency = rows[0], int(read["concurrency"])
    form = read.get("format") or family.format or ""
    chip = row.system.lower()
    named = [s for s, levels in family.strategies.items() if concurrency in levels]
    fitting = [
        flags
        for flags in family.flags
        if chip in flags.chips
        and flags.model == row.model
        and flags.strategy in named
        and (not flags.formats or form in flags.formats)
    ]
    if not fitting or form not in recipes.formats or concurrency not in family.prompts:
        reason = f"no launch flags of {chip}, {row.model}, {form}, {concurrency} at once"
        return MeasuredRun(rows=rows, scenario=None, reason=reason)
    factor = 1024 if family.thousands else 1
    lengths = int(read["input"]) * factor, int(read["output"]) * factor
    nominal = sum(lengths) / lengths[1] if form in family.nominal_rate else None
    return MeasuredRun(
        rows=rows,
        scenario=_scenario(row, recipes, family, fitting[0], form, concurrency, lengths),
        note=recipes.notes.get(form, ""),
        counted=family.counted,
        concurrency=concurrency,
        format=form,
        nominal=nominal,
    )


def _scenario(
    row: MeasuredRow,
    recipes: Recipes,
    family: Family,
    flags: Flags,
    form: str,
    concurrency: int,
    lengths: tuple[int, int],
) -> Scenario:
    parallel = {k: row.chips if v == "all" else v for k, v in flags.parallel.items()}
    data = {name: value for name, value in family.base.items() if name != "scheduler"}
    client = family.client.model_dump() | {
        "input_tokens": lengths[0],
        "output_tokens": lengths[1],
        "prompts": family.prompts[concurrency],
        "concurrency": concurrency,
    }
    data |= {
        "name": f"{row.system}-{row.model}-{form}-c{concurrency}".lower(),
        "model": recipes.models[row.model],
        "chip": row.system.lower(),
        "parallel": parallel,
        "expert_dtype": recipes.formats[form],
        "traffic": {"client": client},
        "scheduler": family.base.get("scheduler", {})
        | {
            "step_tokens": flags.step_tokens // parallel.get("dp", 1),
            "max_requests": flags.max_requests,
            "gathers_prompts": flags.gathers_prompts,
        },
    }
    if flags.memory_share is not None:
        data["memory_share"] = flags.memory_share
    if flags.exchange is not None:
        data["exchange"] = flags.exchange
    if flags.drafts:
        data["speculation"] = {"draft_tokens": flags.drafts, "accepted": family.accepted}
    return Scenario.model_validate(data)
