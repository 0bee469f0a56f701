"""A fused MoE layer on one GPU: gate-up grouped GEMM, activation, down grouped GEMM, combine.

Around the two GEMMs run small kernels (routing, sorting, quantising) that cost a fixed time, and
elementwise kernels that move so many bytes a token. What differs between engines is how storage,
tiles and elementwise passes look; the program is the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.core_rates import vector_ops_per_clock
from simulator.kernels.expert_tokens import expert_tiles
from simulator.kernels.family import Columns, Family
from simulator.kernels.moe_gemm import GroupedGemm, Operands, grouped_gemm_seconds
from simulator.kernels.parts import Floats, Parts, joined
from simulator.kernels.pipes import overlapped
from simulator.kernels.warmth import memory_bytes_per_s

MICRO = 1e-6
HALF_BYTES = 2

LAUNCH = Constant(
    name="launch_us",
    unit="us",
    meaning="launches of the layer's kernels, with routing and sorting that no size changes",
    start=25.0,
    low=5.0,
    high=150.0,
)
DRAM_SHARE = Constant(
    name="dram_share",
    unit="1",
    meaning="share of peak memory bandwidth at which experts' weights stream",
    start=0.88,
    low=0.5,
    high=1.0,
)
STREAM_RATE = Constant(
    name="stream_bytes_per_clock",
    unit="B/clk",
    meaning="operands in flight of one core over the latency of device memory, a clock",
    start=28.0,
    low=10.0,
    high=64.0,
)
OPERAND_RATE = Constant(
    name="operand_bytes_per_clock",
    unit="B/clk",
    meaning="operands that one core takes in through the last-level cache, a clock",
    start=45.0,
    low=16.0,
    high=128.0,
)
TILE_CLOCKS = Constant(
    name="tile_clocks",
    unit="clk",
    meaning="filling and draining a tile's pipeline: first loads, epilogue, next tile's address",
    start=1500.0,
    low=100.0,
    high=10000.0,
)
ELEMENTWISE_RATE = Constant(
    name="elementwise_bytes_per_clock",
    unit="B/clk",
    meaning="what one core reads and writes in the elementwise kernels, a clock",
    start=8.0,
    low=1.0,
    high=64.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Bytes that elementwise kernels read and write, for each value of three tensors.

    `token`: hidden values of tokens; `pair`: hidden values of (token, expert) pairs; `inner`:
    values between gate-up and down projection, gate and up counted once.
    """

    token: float
    pair: float
    inner: float


class MoeFamily(Family):
    """Base of the MoE families; subclasses say what an engine's kernels look like."""

    constants: ClassVar[tuple[Constant, ...]] = (
        LAUNCH,
        DRAM_SHARE,
        OPERAND_RATE,
        TILE_CLOCKS,
        ELEMENTWISE_RATE,
    )
    operands: ClassVar[Operands]
    passes: ClassVar[Passes]
    # Weights are padded to a multiple of this inner size.
    inner_multiple: ClassVar[int] = 1

    @abstractmethod
    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """Tokens of a tile, from the tokens of the call and the mean of an expert."""

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Launches, the two grouped GEMMs and the elementwise passes, one after the other.

        `distribution` says how tokens choose experts (see `expert_tokens`).
        """
        c = {n: np.asarray(v, dtype=np.float64) for n, v in calls.items() if n != "distribution"}
        launch = np.full(c["tokens"].shape, constants[LAUNCH.name] * MICRO)
        return joined(
            Parts({"launch": launch}),
            *(
                Parts(
                    grouped_gemm_seconds(gemm, chip, constants),
                    work={"macs": gemm.macs, "tile_padding_macs": gemm.macs - c[f"{half}_macs"]},
                )
                for gemm, half in zip(self.gemms(calls), ("up", "down"), strict=True)
            ),
            Parts(self.elementwise(c, chip, constants)),
        )

    def gemms(self, calls: Columns) -> list[GroupedGemm]:
        """The two grouped GEMMs of each call: gate-up, and down."""
        c = {n: np.asarray(v, dtype=np.float64) for n, v in calls.items() if n != "distribution"}
        hidden, inner, tokens = c["hidden"], c["inner"], c["tokens"]
        stored = np.ceil(inner / self.inner_multiple) * self.inner_multiple
        mean = tokens * c["per_token"] / c["experts"]
        tile = self.tile_tokens(tokens, mean)
        experts = expert_tiles(calls, tile)
        slots = np.maximum(c["slots"], 1.0)
        return [
            GroupedGemm(
                experts=experts,
                tile_tokens=tile,
                columns=columns,
                depth=depth,
                value_bytes=c[f"{half}_bytes"],
                work=c[f"{half}_macs"] / (slots * columns * depth) * (stored / inner),
                operands=self.operands,
            )
            for half, columns, depth in (
                ("up", c["up_columns"] / inner * stored, hidden),
                ("down", hidden, stored),
            )
        ]

    def passed_bytes(self, c: Mapping[str, Floats]) -> Floats:
        """Bytes that the elementwise kernels read and write.

        `own_tokens` are those that this GPU quantises.

        Assumes: under expert parallelism a GPU combines its share of the (token, expert) pairs.
        """
        hidden = c["hidden"]
        pairs = c["tokens"] * c["per_token"] * c["held"] / c["experts"]
        moved = self.passes.token * c["own_tokens"] * hidden
        return moved + pairs * (self.passes.pair * hidden + self.passes.inner * c["inner"])

    def elementwise(
        self, c: Mapping[str, Floats], chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Floats]:
        """Elementwise kernels: bound by core cycles, at least the layer's input and output."""
        cores = chip.core_count * chip.clock_hz
        passed = self.passed_bytes(c) / (constants[ELEMENTWISE_RATE.name] * cores)
        worked = c["vector_ops"] / (vector_ops_per_clock(chip) * cores)
        ends = 2 * HALF_BYTES * c["own_tokens"] * c["hidden"]
        return overlapped(
            {
                "vector": np.hypot(passed, worked),
                "dram_bandwidth": ends / memory_bytes_per_s(chip),
            }
        )
