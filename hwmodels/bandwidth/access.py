"""An access pattern as a user asks for it, checked: what is read, how aligned, how many at once."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.dram.chip_memory import ChipController
from hwmodels.dram.parameters import REFRESHES
from simulator.basis.errors import InputError, unknown_name

KINDS = ("stream", "gather")
_WORD_BYTES = 4
_LARGEST_GRANULE = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Runs of `granule_bytes`, consecutive or scattered, that begin at multiples of `align_bytes`.

    `outstanding` counts runs in flight over the whole chip; None: as many as fill the memory.
    `entry_bytes` of a run are useful (all of them unless given). `channels` are simulated and stand
    for all of the chip's; None: one stack's.
    """

    kind: str
    granule_bytes: int
    align_bytes: int | None = None
    outstanding: int | None = None
    write_fraction: float = 0.0
    channels: int | None = None
    seed: int = 7
    controller: ChipController = ChipController()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(unknown_name("pattern", self.kind, KINDS))
        _at_least_one("granule", self.granule_bytes)
        if self.granule_bytes > _LARGEST_GRANULE:
            raise InputError(
                f"granule is {self.granule_bytes} bytes, expected at most {_LARGEST_GRANULE} (16 "
                "MiB); longer runs are streams, try --pattern stream"
            )
        self._check_alignment()
        for name in ("outstanding", "channels"):
            value = getattr(self, name)
            if value is not None:
                _at_least_one(name, value)
        if not 0 <= self.write_fraction <= 1:
            raise InputError(f"write-fraction is {self.write_fraction:g}, expected 0 to 1")
        if self.controller.refresh not in REFRESHES:
            raise InputError(unknown_name("refresh", self.controller.refresh, REFRESHES))

    def _check_alignment(self) -> None:
        if self.align_bytes is None:
            return
        _at_least_one("align", self.align_bytes)
        if self.kind == "stream":
            raise InputError(
                f"align is {self.align_bytes}, but a stream is consecutive and has no alignment; "
                "leave it out or use --pattern gather"
            )
        if self.align_bytes % _WORD_BYTES:
            nearest = -(-self.align_bytes // _WORD_BYTES) * _WORD_BYTES
            raise InputError(
                f"align is {self.align_bytes} bytes, expected a multiple of {_WORD_BYTES} (loads "
                f"move whole words); try {nearest}"
            )

    @property
    def align(self) -> int:
        """Where runs begin: multiples of this; their own size unless given."""
        return self.align_bytes or self.granule_bytes


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{name} must be at least 1, but {value} was given ({1 - value} too few)")
