"""Core architecture of a chip, under which the constants of kernels are kept."""

from __future__ import annotations

from hwmodels.chip import ChipSpec

# Architectures whose cores are those of another, which their constants come from.
SAME_CORES = {"blackwell-ultra": "blackwell", "ascend-910c": "ascend-910b"}


def core_architecture(chip: ChipSpec) -> str:
    """Architecture under which constants of the chip are kept."""
    return SAME_CORES.get(chip.architecture, chip.architecture)
