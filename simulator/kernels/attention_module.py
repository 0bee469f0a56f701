"""What an engine's attention modules have beside their kernels: a fixed part, elementwise rates.

A module's kernels have programs of their own; measured modules tell the constants of those that no
table measures alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.elementwise import MOVE, elementwise_parts
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Parts
from simulator.kernels.sparse_core import VECTOR_RATE

FIXED = Constant(
    name="fixed",
    unit="s",
    meaning="fixed part of the module: its small kernels that are not listed, and waits between "
    "streams",
    start=8e-6,
    low=5e-7,
    high=6e-5,
)


class AttentionModule(Family):
    """Fixed part and elementwise kernels of an engine's attention modules."""

    constants: ClassVar[tuple[Constant, ...]] = (FIXED, MOVE)

    def __init__(self, name: str, *more: Constant) -> None:
        self.name = name  # type: ignore[misc]
        self.constants = (*type(self).constants, *more)  # type: ignore[misc]

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of elementwise kernels."""
        moved, operations = (
            np.asarray(calls[name], dtype=np.float64) for name in ("moved_bytes", "operations")
        )
        return elementwise_parts(moved, operations, chip, constants["move"])


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        AttentionModule("attention_module_sglang"),
        AttentionModule("attention_module_vllm"),
        # Its core has no table of its own.
        AttentionModule("attention_module_trtllm", VECTOR_RATE),
    )
}
