"""One list of all constants: fitted ones under the kernel they describe, and those never fitted.

A whole module is fitted with constants of kernels that no table measures alone. They are listed
under those kernels' own family names, and the module keeps its fixed part.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from simulator.kernels.attention_module import FIXED
from simulator.kernels.constants_file import read_constants
from simulator.kernels.registry import FAMILIES

MODULES = "attention_module_"
# Constant of a module's fit -> kernel whose constant it is; the engine's name is put behind.
KERNEL_OF = {
    FIXED.name: "attention_module",
    "move": "elementwise",
    "vector_ops_per_clock": "sparse_core",
}
# Stored values have six digits or fewer.
NEAR = 1e-4
# Packages of constants that are not in `simulator.kernels`.
_HOMES = {"measured_rows": "simulator.calibration", "power": "hwmodels.machine"}
Origin = Literal["published", "derived", "seen", "guessed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedConstant:
    """A fitted constant of one architecture; `rows_of` is the family whose rows it was fitted to.

    The value is the stored one; `low` and `high` bound the fit; `standard_error` is that of its
    logarithm (None where one row alone fixes it), and rows that say less of it than a factor of 1.6
    do not identify it.
    """

    family: str
    architecture: str
    name: str
    value: float
    unit: str
    meaning: str
    low: float
    high: float
    rows_of: str
    rows: int
    standard_error: float | None
    identified: bool

    @property
    def at_bound(self) -> bool:
        """Whether the fit stopped at a bound: the reading is strained there."""
        return self.value <= self.low * (1 + NEAR) or self.value >= self.high * (1 - NEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfittedConstant:
    """A physical number of the programs that no fit touches.

    Bytes of a format, sizes of tiles, shapes of the model and an engine's decisions are not among
    them: they stand where they are used.

    `published`: an author of the kernel says so. `derived`: from other numbers. `seen`: read off
    measured rows where only it differs, or chosen because of them.
    """

    module: str
    name: str
    unit: str
    meaning: str
    origin: Origin

    @property
    def value(self) -> float:
        """The number that the program uses."""
        module = import_module(f"{_HOMES.get(self.module, 'simulator.kernels')}.{self.module}")
        return float(getattr(module, self.name))


def listed_family(family: str, constant: str) -> str:
    """Family under which a constant is listed."""
    if not family.startswith(MODULES):
        return family
    return f"{KERNEL_OF[constant]}_{family.removeprefix(MODULES)}"


def fitted_constants() -> list[FittedConstant]:
    """Stored constants of all families, by listed family and architecture."""
    found = [
        FittedConstant(
            family=listed_family(name, constant.name),
            architecture=architecture,
            name=constant.name,
            value=fit.constants[constant.name],
            unit=constant.unit,
            meaning=constant.meaning,
            low=constant.low,
            high=constant.high,
            rows_of=name,
            rows=fit.rows,
            standard_error=fit.standard_errors.get(constant.name),
            identified=constant.name not in fit.not_identified,
        )
        for name, family in FAMILIES.items()
        for architecture, fit in sorted(read_constants(name).architectures.items())
        for constant in family.constants
    ]
    return sorted(found, key=lambda c: (c.family, c.architecture))


_UNFITTED: tuple[tuple[str, str, str, Origin, str], ...] = (
    ("warmth", "FADE", "1", "seen", "cache capacities past the first over which hits vanish"),
    ("warmth", "ROTATION_FADE", "1", "seen", "the same where a few large buffers rotate"),
    ("power", "CLOCK_EXPONENT", "1", "derived", "power grows with this power of the clock"),
    ("measured_rows", "MOST_COPIES", "1", "published", "copies of weights that GEMM tests rotate"),
    ("moe_gemm", "LONG_STREAM_SHARE", "1", "seen", "share of peak that long streams reach"),
    ("moe_gemm", "QUEUE_SHARPNESS", "1", "seen", "how sharply the cores' requests fill the memory"),
    (
        "moe",
        "TRITON_SMALL_TOKENS",
        "tokens",
        "published",
        "most tokens of a call for tiles of 16 (vLLM)",
    ),
    ("moe", "SWAP_TOKENS", "tokens", "seen", "tokens an expert below which CUTLASS swaps operands"),
    (
        "gemm_tiles",
        "PADDED_ROWS_SHARE",
        "1",
        "seen",
        "rate of rows beyond an operand, of the cache's",
    ),
    ("gemm_time", "JOIN_ALONE", "1", "seen", "part of a join that does not grow with its tiles"),
    ("hyper_connection", "CACHE_COPIES", "1", "derived", "copies that a cache of two halves keeps"),
    (
        "nccl",
        "LINE_HANDSHAKE",
        "1",
        "published",
        "hand-shake of lines of 128 bytes over that of the full-rate protocol",
    ),
    ("nccl", "CHANNELS_START_US", "us", "seen", "what starting all channels of a message takes"),
    ("nccl", "SWITCH_SHARE", "1", "seen", "rate of in-switch reads over that of plain ones"),
    ("nccl", "SWITCH_MIN_RANKS", "ranks", "seen", "fewest ranks that add up in the switch"),
    (
        "graph_all_reduce",
        "ONE_SHOT_FOUR",
        "B",
        "published",
        "one-shot below this, up to four ranks",
    ),
    ("graph_all_reduce", "ONE_SHOT_EIGHT", "B", "published", "one-shot below this, more ranks"),
    (
        "graph_all_reduce",
        "LARGEST_PEER",
        "B",
        "published",
        "largest message of the engines' own kernel",
    ),
    ("graph_all_reduce", "LARGEST_SWITCH", "B", "published", "largest in-switch message of vLLM"),
    ("sparse_core", "OVERHEAD_BLOCKS", "blocks", "published", "a begin in FlashMLA's scheduler"),
    (
        "sparse_core",
        "PREFILL_EXTRA_KERNELS",
        "1",
        "seen",
        "kernels of a prefill call beside the core",
    ),
    ("core_rates", "CONVERT_OPS", "op", "guessed", "operations to convert one stored value"),
    ("hyper_connection", "GATE_CYCLES", "cycle", "guessed", "one operation of a token's gates"),
    ("index_logits", "ROWS_OUT_OF_STEP", "rows", "seen", "rows that fetch keys for themselves"),
    (
        "top_k",
        "SMALL_BLOCK_SLOWER",
        "1",
        "seen",
        "time of a block of half the threads over a whole one",
    ),
    (
        "top_k",
        "TIE_BUFFER",
        "entries",
        "derived",
        "equal scores that a block's shared memory holds",
    ),
    ("top_k", "TIE_LATE_PASS", "1", "seen", "work of the pass over the entries beyond"),
    ("top_k", "TIE_BUSY", "1", "seen", "share of a search with ties that keeps its core busy"),
    ("interval", "BORROWED_WIDENING", "1", "guessed", "wider intervals of borrowed constants"),
    ("interval", "COMMON_SHARE", "1", "guessed", "part of a step's variance common to families"),
    ("standing", "CHIP_ERROR", "1", "seen", "error in log time that a chip's kernels share"),
    ("standing", "FLOOR_ERROR_S", "s", "seen", "the same of a launch that is timed alone"),
    ("standing", "GRAPH_FLOOR_ERROR_S", "s", "seen", "the same of a launch in a replayed graph"),
    ("standing", "FAR_HIGH", "1", "guessed", "p90 above the prediction on far machines, log time"),
    ("standing", "FAR_LOW", "1", "guessed", "p10 below the prediction on far machines, log time"),
    ("standing", "MISSING", "1", "guessed", "distance of a format that one chip has no units for"),
)
UNFITTED = tuple(
    UnfittedConstant(module=module, name=name, unit=unit, origin=origin, meaning=meaning)
    for module, name, unit, origin, meaning in _UNFITTED
)
