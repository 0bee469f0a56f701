"""A whole attention module: the kernels that an engine runs for it, in the order of its graph.

down projection -> norm -> query projection -> RoPE and cache insert -> sparse core -> inverse RoPE
-> output projection; beside it the compressor, and in CSA the indexer: projections, index logits,
top-k. GEMMs, index logits and top-k come from their families; elementwise kernels and the core
have constants here where no table measures them alone. What the engine decides, and which kernels
run side by side, is in its kernel section.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import (
    HEAD_DIM,
    INDEX_WIDTH,
    NEEDS,
    WINDOW,
    AttentionCalls,
    attention_calls,
)
from simulator.kernels.attention_gemms import GEMM_COLUMNS, INDEX_COMPRESSOR_WIDTH, module_gemms
from simulator.kernels.attention_present import present
from simulator.kernels.attention_stages import either, only, staged
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.family import Columns, Family
from simulator.kernels.fit import core_architecture
from simulator.kernels.index_logits import index_logits_parts
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.remembered import Remembered
from simulator.kernels.sparse_core import HEADS as LEAST_HEADS
from simulator.kernels.sparse_core import KEY_BYTES
from simulator.kernels.top_k import top_k_parts, top_k_second_parts
from simulator.lower.kernel_section import AttentionDecisions, FusedKernel, find_section

FIXED = Constant(
    name="fixed",
    unit="s",
    meaning="fixed part of the module: its small kernels that are not listed, and waits between "
    "streams",
    start=8e-6,
    low=5e-7,
    high=6e-5,
)
BF16_BYTES = 2
FP32_BYTES = 4


class AttentionModule(Family):
    """Base of the engines' modules: kernels one after the other, or side by side by stage.

    Assumes: top-k scores are all equal, as benchmarks of modules make them, unless a column
        `scores` says `top_last`.
    """

    needs: ClassVar[tuple[str, ...]] = NEEDS
    # Name of the engine and of its kernel section.
    section: ClassVar[str]
    _decided: AttentionDecisions | None = None
    _remembered: ClassVar[Remembered] = Remembered()
    # Steps of as many tokens have the same GEMMs, however long their requests are.
    _remembered_gemms: ClassVar[Remembered] = Remembered()

    @property
    def decisions(self) -> AttentionDecisions:
        """What the engine decides, from its kernel section unless others were given."""
        if self._decided is not None:
            return self._decided
        found = find_section(self.section).attention
        assert found is not None, f"section {self.section} has no attention module"
        return found

    def deciding(self, decisions: AttentionDecisions) -> AttentionModule:
        """The same module with other decisions, of an edited profile."""
        other = copy.copy(self)
        other._decided = decisions
        return other

    def covers(self, row: Mapping[str, str]) -> bool:
        """Module rows of the engine."""
        engine = row.get("engine", "").partition("-")[0]
        return row["op"].endswith("_module") and engine == self.section

    @abstractmethod
    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention of all heads."""

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of the whole module."""
        sizes = attention_calls(calls)
        places = find_section(self.section).attention_kernels()
        kernels = self.kernels(sizes, chip, constants)
        return staged(kernels, places, lambda place: _beside(place, places["down"].stage, sizes))

    def kernels(
        self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Parts]:
        """Each kernel on its own, by its part; those that a call lacks take no time."""
        names = self.decisions.families
        stored = {name: constants_for(name, chip).values for name in names}
        settled = self._remembered.get(
            (
                self.name,
                self.decisions,
                stored,
                *(getattr(calls, n) for n in AttentionCalls.__dataclass_fields__),
            ),
            chip,
            lambda: self._settled(calls, chip, stored),
        )
        found = {
            "fixed": self._fixed(calls, chip, constants["fixed"]),
            **settled,
            **_elementwise(calls, chip, constants["move"]),
            "core": self.core(calls, chip, constants),
            "regroup": self._launches(calls, chip, self.decisions.regroup_launches),
        }
        return {
            part: only(present(part, calls, self.decisions), parts) for part, parts in found.items()
        }

    def _fixed(self, calls: AttentionCalls, chip: ChipSpec, fixed: float) -> Parts:
        prepare = np.where(calls.decode, 0.0, self.decisions.prefill_kernels * chip.launch_gap_s)
        return Parts({"launch": fixed + prepare})

    def _launches(self, calls: AttentionCalls, chip: ChipSpec, count: int) -> Parts:
        """Launches of permutes.

        Assumes: what they move stays in cache and costs little beside the launches.
        """
        return Parts({"launch": np.full(calls.batch.shape, count * chip.launch_gap_s)})

    def _settled(
        self, calls: AttentionCalls, chip: ChipSpec, stored: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Parts]:
        """Kernels whose constants other families have."""
        own = self.decisions
        fp8_group = core_architecture(chip) in own.fp8_output_group
        bf16, fp8 = stored["gemm_bf16"], stored[own.fp8_gemm]
        gemms = self._remembered_gemms.get(
            (fp8_group, bf16, fp8, *(getattr(calls, name) for name in GEMM_COLUMNS)),
            chip,
            lambda: module_gemms(calls, chip, bf16, fp8, fp8_group),
        )
        sizes = (calls.batch, calls.new, calls.past)
        rows = (*sizes, calls.top_k, calls.ties, chip)
        top_k = _TOP_K[own.top_k_decode](*rows, stored[own.top_k_decode])
        if not calls.decode.all():
            prefill = _TOP_K[own.top_k_prefill](*rows, stored[own.top_k_prefill])
            top_k = either(calls.decode, top_k, prefill)
        return {
            **gemms,
            "index_logits": index_logits_parts(*sizes, chip, stored[own.index_logits]),
            "top_k": top_k,
        }


_TOP_K = {"top_k_v1": top_k_parts, "top_k_v2": top_k_second_parts}


def _beside(place: FusedKernel, down_stage: int, calls: AttentionCalls) -> np.ndarray:
    """Calls in which the streams of a stage run side by side: those of few tokens in decode.

    A prefill of single tokens puts only the GEMMs beside the down projection on streams.
    """
    few = calls.tokens <= (place.stream_tokens or np.inf)
    single = (place.stage == down_stage) & (calls.new == 1)
    return np.asarray(few & (calls.decode | single))


def _elementwise(calls: AttentionCalls, chip: ChipSpec, move: float) -> dict[str, Parts]:
    """Elementwise kernels, by part: bytes that they read and write.

    A compressor reads each new row's values and gates, and the rows kept of earlier tokens where it
    completes an entry.
    """
    query = calls.heads * HEAD_DIM * BF16_BYTES
    one = np.ones_like(query)
    width: dict[str, Floats] = {
        "norm": 2 * (calls.query_rank + HEAD_DIM) * BF16_BYTES,
        "rope": 2 * query + 2 * HEAD_DIM * BF16_BYTES,
        "compressor": 2 * calls.compressor_width * FP32_BYTES,
        "index_rope": one * INDEX_WIDTH * (BF16_BYTES + 1),
        "index_compressor": one * 2 * INDEX_COMPRESSOR_WIDTH * FP32_BYTES,
        "pad": one * LEAST_HEADS * HEAD_DIM * BF16_BYTES,
        "inverse_rope": 2 * query,
    }
    state = {
        "compressor": calls.state_rows * calls.compressor_width * FP32_BYTES,
        "index_compressor": calls.state_rows * INDEX_COMPRESSOR_WIDTH * FP32_BYTES,
    }
    moved = np.stack([calls.tokens * each + state.get(part, 0.0) for part, each in width.items()])
    rows = elementwise_parts(moved, chip, move).seconds
    return {
        part: Parts({cause: value[i] for cause, value in rows.items()})
        for i, part in enumerate(width)
    }


def core_bytes(calls: AttentionCalls, value_bytes: int) -> tuple[Floats, Floats]:
    """Queries in and out of the core at so many bytes a value, and cached keys of all requests."""
    queries = value_bytes * calls.tokens * calls.heads * HEAD_DIM
    window = np.minimum(calls.past, WINDOW - 1) + calls.new
    entries = np.floor((calls.past + calls.new) / calls.ratio) * calls.compresses
    picked = np.minimum(entries, calls.tokens / calls.batch * calls.top_k)
    keys = window + np.where(calls.csa, picked, entries)
    return queries, calls.batch * keys * KEY_BYTES


def core_tiles_of(calls: AttentionCalls, chip: ChipSpec, decisions: AttentionDecisions) -> Floats:
    """Tiles of the core that a query's heads take; fewer heads than a tile are padded.

    Assumes: cores of an architecture that the engine does not name have the smallest tile.
    """
    held = decisions.head_tile.get(core_architecture(chip), min(decisions.head_tile.values()))
    return np.ceil(np.maximum(calls.heads, 1) / held)
