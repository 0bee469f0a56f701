"""SGLang's attention module: FlashMLA's decode kernel for every query, gathers for many tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import WINDOW, AttentionCalls
from simulator.kernels.attention_module import FIXED, AttentionModule, core_tiles_of
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import MOVE
from simulator.kernels.family import Family
from simulator.kernels.fit import core_architecture
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.sparse_core import BLOCK_KEYS, core_tiles, decode_tiles

CORE_QUERY_CYCLES = Constant(
    name="core_query_cycles",
    unit="cycle",
    meaning="sparse core: core cycles to begin and end a query of up to 64 heads",
    start=6000.0,
    low=200.0,
    high=30000.0,
)
CORE_KEY_CYCLES = Constant(
    name="core_key_cycles",
    unit="cycle",
    meaning="sparse core: core cycles for a key and 64 heads, FP8 keys dequantised on the fly",
    start=60.0,
    low=16.0,
    high=250.0,
)
# The gather of all entries, after which BF16 keys are attended, runs as four plain kernels, each
# reading and writing every entry: copy of 584 bytes, 448 FP8 to BF16, times the scales, joined with
# the 64 RoPE values.
GATHER_BYTES = 2 * 584 + 448 * 3 + 448 * 4 + 2 * 1024


class AttentionModuleSglang(AttentionModule):
    """SGLang. Queries of decode and prefill are dealt to the cores like requests of a decode."""

    name: ClassVar[str] = "attention_module_sglang"
    constants: ClassVar[tuple[Constant, ...]] = (FIXED, MOVE, CORE_QUERY_CYCLES, CORE_KEY_CYCLES)
    section: ClassVar[str] = "sglang"

    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention, by the kernel that the number of tokens selects."""
        blocks = np.ceil(np.minimum(WINDOW, calls.visible) / BLOCK_KEYS)
        blocks = blocks + np.ceil(calls.extra_keys / BLOCK_KEYS)
        direct = self._direct(calls, blocks, chip, constants)
        most = self.decisions.gather_above_tokens.get(core_architecture(chip), np.inf)
        many = calls.tokens > most
        gathered = self._gathered(calls, blocks * BLOCK_KEYS, chip, constants["move"])
        launch = np.full_like(blocks, chip.launch_gap_s)
        return Parts(
            {
                "launch": launch,
                **{cause: np.where(many, gathered[cause], direct[cause]) for cause in direct},
            }
        )

    def _direct(
        self, calls: AttentionCalls, blocks: Floats, chip: ChipSpec, c: Mapping[str, float]
    ) -> dict[str, Floats]:
        work, begin, tail = decode_tiles(
            calls.tokens,
            blocks,
            c["core_query_cycles"],
            BLOCK_KEYS * c["core_key_cycles"],
            chip,
            core_tiles_of(calls, chip, self.decisions),
        )
        return {"matrix": work, "serial": begin, "tail": tail, "vector": np.zeros_like(work)}

    def _gathered(
        self, calls: AttentionCalls, keys: Floats, chip: ChipSpec, move: float
    ) -> dict[str, Floats]:
        """The prefill kernel that vLLM uses as well, with the constants measured there."""
        prefill = constants_for("sparse_core_vllm", chip).values
        tile = prefill["query_cycles"] + prefill["key_cycles"] * keys
        entries = calls.batch * (calls.past + calls.new) / calls.ratio
        moved = entries * GATHER_BYTES / (move * chip.core_count * chip.clock_hz)
        return {
            **core_tiles(calls.tokens, tile, chip),
            "serial": np.zeros_like(keys),
            "vector": moved,
        }


FAMILIES: dict[str, Family] = {f.name: f for f in (AttentionModuleSglang(),)}
