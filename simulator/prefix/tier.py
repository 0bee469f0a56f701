"""Storage tiers of a prefix cache as facts: size, bandwidth both ways, latency, endurance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.sourced import (
    Bytes,
    BytesPerSecond,
    Count,
    DollarsPerGigabyte,
    Ratio,
    Seconds,
    Sourced,
)
from simulator.basis.whole import ceil_div
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_TIERS = Path(__file__).parent / "tiers"
SECONDS_A_DAY = 86_400
HOURS_A_YEAR = 24 * 365.25
# Time over which a tier's price is spread where no warranty says; usual for servers.
TIER_YEARS = 5.0


class Tier(StrictModel):
    """One place to keep cached state, for one node.

    `latency` of an object, of which `queue_depth` are under way at once. `window_share`: part of
    the capacity that windows have for themselves, beside the compressed pages; null: they share
    the room with pages, and whichever was used longest ago leaves first. The first tier is
    the device: nothing is moved to use it, so that it needs neither bandwidth nor latency.
    `drive_writes_per_day`: endurance over `warranty_years`.
    """

    name: Annotated[str, Field(min_length=1)]
    capacity: Bytes
    window_share: Annotated[float, Field(ge=0, lt=1)] | None = 0.5
    read: BytesPerSecond | None = None
    write: BytesPerSecond | None = None
    latency: Seconds | None = None
    queue_depth: Count | None = None
    drive_writes_per_day: Ratio | None = None
    warranty_years: Ratio | None = None
    price: DollarsPerGigabyte | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.read is None) != (self.write is None):
            raise KeyFaultError(("read",), "a tier has both read and write bandwidth, or neither")
        if self.read is not None and self.latency is None:
            raise KeyFaultError(("latency",), "a tier that is read over a link needs a latency")
        if (self.drive_writes_per_day is None) != (self.warranty_years is None):
            raise KeyFaultError(
                ("drive_writes_per_day",), "endurance needs drive_writes_per_day and warranty_years"
            )
        return self

    @property
    def capacity_bytes(self) -> int:
        """Size."""
        return self.capacity.whole

    def read_ns(self, nbytes: int, objects: int) -> int:
        """Time to load objects of so many bytes together."""
        return self._moved_ns(self.read, nbytes, objects)

    def write_ns(self, nbytes: int, objects: int) -> int:
        """Time to store objects of so many bytes together."""
        return self._moved_ns(self.write, nbytes, objects)

    def device_years(self, written_bytes: int, seconds: float) -> float | None:
        """Years until a device of this size has taken its rated writes, at the rate of a run."""
        if self.drive_writes_per_day is None or self.warranty_years is None or not written_bytes:
            return None
        rated = self.drive_writes_per_day.si * self.capacity_bytes * 365.25 * self.warranty_years.si
        a_day = written_bytes / seconds * SECONDS_A_DAY
        return float(rated / a_day / 365.25)

    def usd_per_hour(self, stored_bytes: int, device_years: float | None) -> float | None:
        """Price of what is stored, an hour, or None where the tier has none.

        Assumes: a tier costs its price over its warranty (5 years where none is stated), for the
        bytes that it stores at most; where writes wear it out sooner, all of it over that time.
        """
        if self.price is None:
            return None
        years = TIER_YEARS if self.warranty_years is None else self.warranty_years.si
        a_year = self.price.si * stored_bytes / 1e9 / years
        if device_years is not None:
            a_year = max(a_year, self.price.si * self.capacity_bytes / 1e9 / device_years)
        return float(a_year / HOURS_A_YEAR)

    def latency_ns(self, objects: int) -> int:
        """Part of a move that does not depend on bytes: a latency for every queue of objects."""
        if self.latency is None:
            return 0
        depth = self.queue_depth.whole if self.queue_depth else 1
        return round(1e9 * ceil_div(objects, depth) * self.latency.si)

    def _moved_ns(self, bandwidth: BytesPerSecond | None, nbytes: int, objects: int) -> int:
        if bandwidth is None or self.latency is None or not nbytes:
            return 0
        depth = self.queue_depth.whole if self.queue_depth else 1
        rounds = ceil_div(objects, depth)
        return round(1e9 * (nbytes / bandwidth.si + rounds * self.latency.si))


UNLIMITED_BYTES = 10**18  # the largest size that facts may have


def unlimited_tier(name: str = "unlimited") -> Tier:
    """Device memory without end, for counting what any cache could hit at most."""
    size = Sourced(value=UNLIMITED_BYTES, unit="B", kind="derived", source="no limit: counting")
    return Tier(name=name, capacity=size)


class TierFile(StrictModel):
    """Tiers from the fastest to the slowest; `note` says what node they belong to."""

    note: str | None = None
    tiers: tuple[Tier, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.tiers:
            raise KeyFaultError(("tiers",), "no tier is named, expected the device's memory first")
        names = [tier.name for tier in self.tiers]
        for place, tier in enumerate(self.tiers):
            if tier.name in names[:place]:
                raise KeyFaultError(("tiers", place, "name"), f"tier {tier.name!r} is named twice")
            if place == 0 and tier.read is not None:
                raise KeyFaultError(
                    ("tiers", place, "read"),
                    f"tier {tier.name!r} is the device itself, expected no read bandwidth: put the "
                    "device's memory first",
                )
            if place and tier.read is None:
                raise KeyFaultError(
                    ("tiers", place), f"tier {tier.name!r} is below the device, expected 'read'"
                )
        return self


def list_tiers() -> list[str]:
    """Names of the tier files that ship with the package."""
    return list_data_names(_TIERS)


def load_tiers(name_or_path: str | Path) -> tuple[Tier, ...]:
    """Tiers by name (`node`) or by path to a YAML file of the same form."""
    return load_yaml(find_data_file("tiers", name_or_path, _TIERS), TierFile).tiers
