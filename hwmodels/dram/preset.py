"""DRAM timing presets as facts: clock counts and organisation of one channel, with their origin.

`find_preset("hbm3_5200")` reads a file that ships here; a path to an edited copy works as well.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.sourced import (
    BitsPerSecond,
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
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

    BL: Cycles
    CL: Cycles
    CWL: Cycles
    RCDRD: Cycles
    RCDWR: Cycles
    RP: Cycles
    RAS: Cycles
    RC: Cycles
    WR: Cycles
    RTP: Cycles
    CCDS: Cycles
    CCDL: Cycles
    CCDR: Cycles | None = None
    RRDS: Cycles
    RRDL: Cycles
    FAW: Cycles
    WTRS: Cycles
    WTRL: Cycles
    RTW: Cycles | None = None
    PPD: Cycles | None = None
    RFC: Cycles
    REFI: Cycles
    RFCpb: Cycles | None = None
    REFIpb: Cycles | None = None
    RREFD: Cycles | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if clocks(self.RC) < clocks(self.RAS) + clocks(self.RP):
            raise KeyFaultError(
                ("RC",),
                f"tRC is {clocks(self.RC)} clocks, expected at least tRAS + tRP = "
                f"{clocks(self.RAS)} + {clocks(self.RP)} = {clocks(self.RAS) + clocks(self.RP)}",
            )
        for shorter, longer in _ORDERED:
            small, large = getattr(self, shorter), getattr(self, longer)
            if small is not None and large is not None and clocks(large) < clocks(small):
                raise KeyFaultError(
                    (longer,),
                    f"t{longer} is {clocks(large)} clocks, expected at least t{shorter} = "
                    f"{clocks(small)}",
                )
        return self

    @property
    def read_to_write(self) -> int:
        """Clocks from a read to a write: RTW, or what keeps the data bus free of clashes."""
        if self.RTW is not None:
            return clocks(self.RTW)
        return clocks(self.CL) + clocks(self.BL) + 2 - clocks(self.CWL)


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
)


def clocks(number: Sourced) -> int:
    """Clocks as a whole number; a fraction is refused."""
    return number.whole


class DramPreset(StrictModel):
    """Timing and organisation of one channel of a memory standard at one pin rate."""

    name: str
    standard: Literal["HBM2", "HBM2E", "HBM3", "HBM3E", "HBM4"]
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


def list_presets() -> list[str]:
    """Names of the presets that ship with the package."""
    return list_data_names(_PRESETS)


def find_preset(name_or_path: str | Path) -> DramPreset:
    """Preset by name (`hbm3_5200`) or by path to a YAML file of the same form."""
    path = find_data_file("DRAM preset", name_or_path, _PRESETS)
    return _load(path, path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _load(path: Path, _resolved: Path, _changed_ns: int) -> DramPreset:
    """Preset of a file that has not changed since; errors name the path as the user gave it."""
    return load_yaml(path, DramPreset)
