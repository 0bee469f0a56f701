"""Predicted time of calls, split by cause: each instant belongs to what the kernel waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.kernels.causes import CAUSES

__all__ = ["CAUSES", "Floats", "Parts", "joined"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds by cause, one value a call; they add up to the total.

    `power` is time beyond the clocked rate that the power limit costs, `serial` a chain of
    dependent steps that no unit can shorten, `tail` waves and tiles that are not full. `rows` are
    those that the fullest core has, with parts of rows, where a scheduler cuts rows; `tiles` says
    which tiles the first call has, where that follows from its sizes.

    `work` is what the time was taken for: `macs` multiply-adds in all, and by cause those of them
    that no node asks for (`..._macs`), bytes that are moved again (`..._bytes`), and values that
    are converted. Without it the nodes' own work is all.
    """

    seconds: Mapping[str, Floats]
    rows: Floats | None = None
    tiles: str = ""
    work: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.seconds) - set(CAUSES)
        assert not unknown, f"unknown causes {unknown}"

    @property
    def total(self) -> Floats:
        """Seconds of each call."""
        return np.sum(
            [np.asarray(part, dtype=np.float64) for part in self.seconds.values()], axis=0
        )

    @property
    def cut(self) -> str:
        """How the scheduler cut the first call, in words."""
        if self.rows is None:
            return self.tiles
        return f"{float(self.rows.flat[0]):.4g} rows on the fullest core"

    @property
    def dominant(self) -> list[str]:
        """The largest cause of each call."""
        names = list(self.seconds)
        stacked = np.array([np.broadcast_to(self.seconds[n], self.total.shape) for n in names])
        return [names[i] for i in stacked.argmax(axis=0)]


def joined(*parts: Parts) -> Parts:
    """Calls that run one after the other."""
    seconds: dict[str, Floats] = {}
    work: dict[str, Floats] = {}
    for part in parts:
        for own, total in ((part.seconds, seconds), (part.work, work)):
            for name, value in own.items():
                total[name] = total[name] + value if name in total else value
    return Parts(seconds, work=work)
