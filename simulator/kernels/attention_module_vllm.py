"""vLLM's attention module: FlashMLA sparse cores as its kernel table measures them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import CSA_RATIO, AttentionCalls
from simulator.kernels.attention_module import (
    FIXED,
    AttentionModule,
    EngineGraph,
    only,
    padded_tiles,
)
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import MOVE
from simulator.kernels.family import Family
from simulator.kernels.parts import Floats, Parts, joined
from simulator.kernels.sparse_core import ID_PAD, core_parts, padded_extra


class AttentionModuleVllm(AttentionModule):
    """vLLM. Indexer queries, logits and top-k are left out of a prefill of short rows.

    On Blackwell a tile holds up to 128 heads, on Hopper 64.
    """

    name: ClassVar[str] = "attention_module_vllm"
    constants: ClassVar[tuple[Constant, ...]] = (FIXED, MOVE)
    graph: ClassVar[EngineGraph] = EngineGraph(
        engine="vllm",
        fp8_family="gemm_fp8_deepgemm",
        logits_family="index_logits_vllm",
        side_stream_tokens=64,
        prefill_kernels=0,
        short_rows="all",
        regroup_launches=0,
        fp8_output_group=("hopper", "blackwell"),
    )

    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention with the constants of the core's own family."""
        tiles = padded_tiles(calls.heads)
        if chip.architecture.startswith("blackwell"):
            tiles = np.ones_like(tiles)
        stored = constants_for("sparse_core_vllm", chip).values
        sizes = (calls.batch, calls.new, calls.past)
        hca = core_parts(*sizes, padded_extra(calls.past, calls.new), tiles, chip, stored)
        csa = core_parts(*sizes, self._selected(calls), tiles, chip, stored)
        return joined(only(calls.csa, csa), only(~calls.csa, hca))

    def _selected(self, calls: AttentionCalls) -> Floats:
        """Padded ids of a CSA row, at most what the indexer selects."""
        entries = (calls.past + calls.new) / CSA_RATIO
        return np.minimum(np.ceil(entries / ID_PAD) * ID_PAD, calls.top_k)


FAMILIES: dict[str, Family] = {f.name: f for f in (AttentionModuleVllm(),)}
