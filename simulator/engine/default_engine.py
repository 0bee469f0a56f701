"""The engine whose kernels and layout answer where none is named."""

from __future__ import annotations

from hwmodels.chip import ChipSpec

DEFAULT_ENGINE = "sglang-0.5"
# Chips that have an engine of their own, whose kernels were measured there, by vendor.
_OWN_ENGINES = {"AMD": "atom", "Huawei": "ascend"}
IDEAL = "ideal"


def default_engine(chip: ChipSpec) -> str:
    """Name of the calibrated engine, or of the chip's own where that one does not run on it."""
    return _OWN_ENGINES.get(chip.vendor, DEFAULT_ENGINE)


def engine_text(engine: str) -> str:
    """An engine as headlines name it: `ideal` is what none of them beats."""
    return f"{engine} (a bound, no engine)" if engine == IDEAL else engine
