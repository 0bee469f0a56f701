"""Kernels that tiles price, with rates that cube, vector, memory and links reach in a family.

The tile model cuts such a kernel and knows what every unit has to do at its peak; a family's
constants say what share of that peak its kernels reach, and how long one takes that has nothing to
do: launched by a replayed graph, told its sizes, and waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Parts

MICRO = 1e-6
START = Constant(
    name="start_us",
    unit="us",
    meaning="a kernel without work: replay of its node of the graph, its tiling data, first loads "
    "and the wait for its last core",
    start=4.0,
    low=0.5,
    high=60.0,
)


def _share(unit: str, meaning: str) -> Constant:
    return Constant(name=unit, unit="1", meaning=meaning, start=0.8, low=0.02, high=1.0)


CUBE = _share("cube", "share of the peak that cube cores reach on padded tiles")
VECTOR = _share("vector", "share of the peak that vector cores reach")
MEMORY = _share("memory", "share of the memory's rate for its pattern that copies reach")
LINK = _share("link", "share of the links' bandwidth that an exchange reaches")


class UnitRates(Family):
    """Seconds of tiled kernels: a start, then the slowest unit at the share that it reaches.

    Assumes: a family's kernels reach the same share of a unit's peak whatever their sizes, beyond
        what tiles, waves and padding cost.
    """

    constants: ClassVar[tuple[Constant, ...]] = (START, CUBE, VECTOR, MEMORY, LINK)

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds of calls that say what cube, vector, memory and link take at their peaks."""
        units = {"matrix": "cube", "vector": "vector", "dram_bandwidth": "memory"}
        seconds = {
            cause: np.asarray(calls[unit], dtype=np.float64) / constants[unit]
            for cause, unit in {**units, "communication": "link"}.items()
        }
        longest = np.max(list(seconds.values()), axis=0)
        found = {
            cause: np.where(
                np.argmax(list(seconds.values()), axis=0) == i, longest, np.zeros_like(longest)
            )
            for i, cause in enumerate(seconds)
        }
        return Parts({"launch": np.full_like(longest, constants["start_us"] * MICRO), **found})


class HostDispatch(Family):
    """What a layer waits for the host, whose engine launches attention outside of its graphs."""

    name: ClassVar[str] = "ascend_host"
    constants: ClassVar[tuple[Constant, ...]] = (
        Constant(
            name="fixed",
            unit="s",
            meaning="wait of a layer for the host: pieces of graphs replayed one by one, attention "
            "and its metadata launched between them",
            start=2e-4,
            low=1e-6,
            high=2e-3,
        ),
    )

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds of so many waits."""
        waits = np.asarray(calls["launches"], dtype=np.float64)
        return Parts({"launch": constants["fixed"] * np.ones_like(waits)})


ASCEND: dict[str, UnitRates] = {
    name: UnitRates(name)
    for name in (
        "ascend_matmul",
        "ascend_experts",
        "ascend_attention",
        "ascend_indexer",
        "ascend_vector",
        "ascend_activation",
        "ascend_mix",
        "ascend_exchange",
    )
}

# Kernels of AITER that are no products; constants are of single published times (see their files).
AITER: dict[str, UnitRates] = {
    name: UnitRates(name)
    for name in (
        "aiter_attention",
        "aiter_indexer",
        "aiter_top_k",
        "aiter_vector",
        "aiter_route",
        "aiter_mix",
        "aiter_exchange",
    )
}

FAMILIES: dict[str, Family] = {**ASCEND, **AITER, HostDispatch.name: HostDispatch()}
