"""DRAM timing presets as facts: clock counts and organisation of one channel, with their origin.

`find_preset("hbm3_5200")` reads a file that ships here; a path to an edited copy works as well, and
the preset is then named after the file too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from simulator.basis.data_files import find_data_file, is_path, list_data_names, named_after
from simulator.basis.sourced import (
    BitsPerSecond,
    Bytes,
    BytesPerSecond,
    Clocks,
    Count,
    Seconds,
    Sourced,
)
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_PRESETS = Path(__file__).parent / "presets"
MAX_BANKS_A_PC = 64  # one bit each in a machine word


class Organisation(StrictModel):
    """What one channel consists of; `rows` and `bursts_a_row` are a bank's."""

    pseudo_channels: Count
    stack_ids: Count
    bank_groups: Count
    banks_a_group: Count
    rows: Count
    bursts_a_row: Count
    burst: Bytes
    channel_bandwidth: BytesPerSecond

    @model_validator(mode="after")
    def _check(self) -> Self:
        banks = self.banks_a_pc
        if banks > MAX_BANKS_A_PC:
            raise KeyFaultError(
                ("banks_a_group",),
                f"a pseudo-channel has {banks} banks, expected at most {MAX_BANKS_A_PC}",
            )
        return self

    @property
    def banks_a_pc(self) -> int:
        """Banks of one pseudo-channel, over all stack ids."""
        return self.stack_ids.whole * self.bank_groups.whole * self.banks_a_group.whole

    @property
    def channel_bytes(self) -> int:
        """Capacity of one channel."""
        bursts = self.pseudo_channels.whole * self.banks_a_pc * self.rows.whole
        return bursts * self.bursts_a_row.whole * self.burst.whole


class CommandTicks(StrictModel):
    """Scheduling steps a clock, and how many of them a command occupies its bus."""

    a_clock: Count
    activate: Count
    column: Count
    precharge: Count


class Timing(StrictModel):
    """Constraints in clocks, named as in the standards without the `t`.

    RTW: read to write; PPD: between precharges of a pseudo-channel; CCDR: reads of other stack ids;
    RREFD: between per-bank refreshes. Absent ones do not bind, but for RTW (see `read_to_write`).
    """

    BL: Clocks
    CL: Clocks
    CWL: Clocks
    RCDRD: Clocks
    RCDWR: Clocks
    RP: Clocks
    RAS: Clocks
    RC: Clocks
    WR: Clocks
    RTP: Clocks
    CCDS: Clocks
    CCDL: Clocks
    CCDR: Clocks | None = None
    RRDS: Clocks
    RRDL: Clocks
    FAW: Clocks
    WTRS: Clocks
    WTRL: Clocks
    RTW: Clocks | None = None
    PPD: Clocks | None = None
    RFC: Clocks
    REFI: Clocks
    RFCpb: Clocks | None = None
    REFIpb: Clocks | None = None
    RREFD: Clocks | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for keys, sentence in timing_faults(self.in_clocks):
            raise KeyFaultError(keys[:1], sentence)
        return self

    @property
    def in_clocks(self) -> dict[str, int]:
        """The constraints that are given, by name."""
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: clocks(number) for name, number in given if number is not None}

    @property
    def read_to_write(self) -> int:
        """Clocks from a read to a write: RTW, or what keeps the data bus free of clashes."""
        if self.RTW is not None:
            return clocks(self.RTW)
        return clocks(self.CL) + clocks(self.BL) + 2 - clocks(self.CWL)


# Of each pair the first takes no more clocks than the second.
_ORDERED = (
    ("BL", "CCDS"),
    ("CCDS", "CCDL"),
    ("CCDS", "CCDR"),
    ("RRDS", "RRDL"),
    ("RRDS", "FAW"),
    ("WTRS", "WTRL"),
    ("RCDRD", "RAS"),
    ("RFC", "REFI"),
    ("RFCpb", "RFC"),
    ("RREFD", "REFIpb"),
)


def timing_faults(numbers: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Constraints in clocks that contradict each other: which, the one at fault first, and why."""
    cycle, parts = numbers["RC"], (numbers["RAS"], numbers["RP"])
    if cycle < sum(parts):
        yield (
            ("RC", "RAS", "RP"),
            f"tRC is {cycle} clocks, expected at least tRAS + tRP = {parts[0]} + {parts[1]} = "
            f"{sum(parts)}",
        )
    for shorter, longer in _ORDERED:
        small, large = numbers.get(shorter), numbers.get(longer)
        if small is not None and large is not None and large < small:
            yield (
                (longer, shorter),
                f"t{longer} is {large} clocks, expected at least t{shorter} = {small}",
            )


def clocks(number: Sourced) -> int:
    """Clocks as a whole number; a fraction is refused."""
    return number.whole


class DramPreset(StrictModel):
    """Timing and organisation of one channel of a memory standard at one pin rate."""

    name: str
    standard: Literal["HBM2", "HBM2E", "HBM3", "HBM3E", "HBM4", "GDDR7", "LPDDR5X"]
    description: str
    pin_rate: BitsPerSecond
    clock: Seconds
    command_ticks: CommandTicks
    organisation: Organisation
    timing: Timing

    @model_validator(mode="after")
    def _check(self) -> Self:
        organisation = self.organisation
        bursts_a_clock = organisation.pseudo_channels.whole / clocks(self.timing.BL)
        peak = organisation.burst.whole * bursts_a_clock / self.clock.si
        stated = organisation.channel_bandwidth.si
        if abs(peak / stated - 1) > 0.01:
            raise KeyFaultError(
                ("organisation", "channel_bandwidth"),
                f"the channel moves {stated / 1e9:g} GB/s, but its clock and burst length allow "
                f"{peak / 1e9:.4g} GB/s",
            )
        return self

    @property
    def tick_ps(self) -> float:
        """Length of a scheduling step: a clock, or half of one."""
        return float(self.clock.si) * 1e12 / self.command_ticks.a_clock.whole

    @property
    def channel_bytes_per_s(self) -> float:
        """Peak bandwidth of one channel."""
        return float(self.organisation.channel_bandwidth.si)

    @property
    def numbers(self) -> str:
        """Every number as one text, without names and origins: equal for equal memories."""
        found = {name: _numbers(getattr(self, name)) for name in _NUMBERED}
        return json.dumps(found, sort_keys=True)


_NUMBERED = ("clock", "command_ticks", "organisation", "timing")


def _numbers(fact: StrictModel) -> dict[str, float] | float:
    if isinstance(fact, Sourced):
        return float(fact.si)
    given = ((name, getattr(fact, name)) for name in type(fact).model_fields)
    return {name: float(number.si) for name, number in given if number is not None}


def list_presets() -> list[str]:
    """Names of the presets that ship with the package."""
    return list_data_names(_PRESETS)


def find_preset(name_or_path: str | Path) -> DramPreset:
    """Preset by name (`hbm3_5200`) or by path to a YAML file of the same form."""
    path = find_data_file("DRAM preset", name_or_path, _PRESETS)
    return _load(path, path.resolve(), path.stat().st_mtime_ns, is_path(name_or_path))


@lru_cache(maxsize=64)
def _load(path: Path, _resolved: Path, _changed_ns: int, own: bool) -> DramPreset:
    """Preset of a file that has not changed since; errors name the path as the user gave it."""
    preset = load_yaml(path, DramPreset)
    return preset.model_copy(update={"name": named_after(preset.name, path)}) if own else preset
