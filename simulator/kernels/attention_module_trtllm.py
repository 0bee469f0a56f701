"""TensorRT-LLM's attention module: generated FP8 sparse core, all kernels on one stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import WINDOW, AttentionCalls
from simulator.kernels.attention_module import (
    FIXED,
    AttentionModule,
    core_bytes,
    core_tiles_of,
)
from simulator.kernels.constant import Constant
from simulator.kernels.elementwise import MOVE
from simulator.kernels.family import Family
from simulator.kernels.parts import Parts
from simulator.kernels.pipes import exposed
from simulator.kernels.sparse_core import BLOCK_KEYS, core_memory_seconds, core_tiles

CORE_KEY_CYCLES = Constant(
    name="core_key_cycles",
    unit="cycle",
    meaning="sparse core: core cycles for a key and 64 heads on the FP8 matrix unit",
    start=16.0,
    low=8.0,
    high=100.0,
)

# A value of a query in FP8, and of its output in BF16.
QUERY_BYTES = 3


class AttentionModuleTensorRt(AttentionModule):
    """TensorRT-LLM. Keys stay in FP8 through both products.

    Assumes: beginning a query hides behind the keys of the one before.
    """

    name: ClassVar[str] = "attention_module_trtllm"
    constants: ClassVar[tuple[Constant, ...]] = (FIXED, MOVE, CORE_KEY_CYCLES)
    section: ClassVar[str] = "trtllm"

    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention: tiles of 64 heads in waves."""
        keys = np.ceil(np.minimum(WINDOW, calls.visible) / BLOCK_KEYS) * BLOCK_KEYS
        keys = keys + np.ceil(calls.extra_keys / BLOCK_KEYS) * BLOCK_KEYS
        tiles = calls.tokens * core_tiles_of(calls, chip, self.decisions)
        seconds = core_tiles(tiles, constants["core_key_cycles"] * keys, chip)
        queries, entries = core_bytes(calls, QUERY_BYTES)
        busy = seconds["matrix"] + seconds["tail"]
        memory = exposed(core_memory_seconds(queries, entries, chip), busy)
        cache = exposed((queries + entries) / chip.llc_bandwidth_bytes_per_s, busy + memory)
        launch = np.full_like(keys, chip.launch_gap_s)
        return Parts({"launch": launch, **seconds, "dram_bandwidth": memory, "llc": cache})


FAMILIES: dict[str, Family] = {f.name: f for f in (AttentionModuleTensorRt(),)}
