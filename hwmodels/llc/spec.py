"""Geometry and policy of a last-level cache, and which one a chip has."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError, unknown_name

# Which line of a full set makes room: the least recently used, the oldest, or any.
POLICIES = ("lru", "fifo", "random")
_WAYS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """A cache of lines in sets of `ways`; a line holds sectors, which are fetched one by one.

    Lines belong to one of `partitions` by a hash; a core reaches its own sooner than the others.
    """

    capacity_bytes: int
    line_bytes: int = 128
    sector_bytes: int = 32
    ways: int = _WAYS
    partitions: int = 1
    policy: str = "lru"
    read_bytes_per_s: float = 0.0
    near_latency_s: float = 0.0
    far_latency_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("capacity_bytes", "line_bytes", "sector_bytes", "ways", "partitions"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.line_bytes % self.sector_bytes or self.line_bytes // self.sector_bytes > 32:
            raise InputError(
                f"a line of {self.line_bytes} bytes in sectors of {self.sector_bytes}, expected 1 "
                "to 32 whole sectors"
            )
        if self.policy not in POLICIES:
            raise InputError(unknown_name("replacement policy", self.policy, POLICIES))
        if self.sets < 1:
            raise InputError(
                f"{self.capacity_bytes} bytes hold no set of {self.ways} lines of "
                f"{self.line_bytes} bytes in each of {self.partitions} partitions"
            )

    @property
    def sets(self) -> int:
        """Sets of one partition; what is left of the capacity is not used."""
        return self.capacity_bytes // (self.line_bytes * self.ways * self.partitions)

    @property
    def sectors_a_line(self) -> int:
        """Sectors under one tag."""
        return self.line_bytes // self.sector_bytes


def chip_cache(chip: ChipSpec, share: float = 1.0) -> CacheSpec:
    """Last-level cache of a chip, or a slice of it with its share of sets and bandwidth.

    Assumes: sets of 16 lines replaced by least recent use, where the chip's file says nothing else.
    Assumes: a line has one home among the partitions, and no copy beside the other cores.
    """
    llc = chip.llc
    near = chip.llc_latency_s
    return CacheSpec(
        capacity_bytes=max(int(chip.llc_bytes * share), llc.line.whole * _WAYS * 2),
        line_bytes=llc.line.whole,
        sector_bytes=llc.sector.whole,
        ways=llc.ways.whole if llc.ways else _WAYS,
        partitions=llc.partitions.whole if llc.partitions else 1,
        read_bytes_per_s=chip.llc_bandwidth_bytes_per_s * share,
        near_latency_s=near,
        far_latency_s=llc.far_latency.si if llc.far_latency else near,
    )
