"""vLLM's attention module: FlashMLA sparse cores as its kernel table measures them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import CSA_RATIO, AttentionCalls
from simulator.kernels.attention_module import FIXED, AttentionModule, core_tiles_of
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import MOVE
from simulator.kernels.family import Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.sparse_core import ID_PAD, core_parts, padded_extra


class AttentionModuleVllm(AttentionModule):
    """vLLM: the core with the constants of its own family."""

    name: ClassVar[str] = "attention_module_vllm"
    constants: ClassVar[tuple[Constant, ...]] = (FIXED, MOVE)
    section: ClassVar[str] = "vllm"

    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention with the constants of the core's own family."""
        tiles = core_tiles_of(calls, chip, self.decisions)
        stored = constants_for("sparse_core_vllm", chip).values
        sizes = (calls.batch, calls.new, calls.past)
        extra = np.where(
            calls.csa, self._selected(calls), padded_extra(calls.past, calls.new) * calls.hca
        )
        return core_parts(*sizes, extra, tiles, chip, stored)

    def _selected(self, calls: AttentionCalls) -> Floats:
        """Padded ids of a CSA row, at most what the indexer selects."""
        entries = (calls.past + calls.new) / CSA_RATIO
        return np.minimum(np.ceil(entries / ID_PAD) * ID_PAD, calls.top_k)


FAMILIES: dict[str, Family] = {f.name: f for f in (AttentionModuleVllm(),)}
