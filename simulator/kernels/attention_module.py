"""A whole attention module: the kernels that an engine runs for it, in the order of its graph.

down projection -> norm -> query projection -> RoPE and cache insert -> sparse core -> inverse RoPE
-> output projection; beside it the compressor, and in CSA the indexer: projections, index logits,
top-k. GEMMs, index logits and top-k come from their families; elementwise kernels and the core
have constants here where no table measures them alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import (
    HEAD_DIM,
    HEADS_PER_GROUP,
    INDEX_WIDTH,
    NEEDS,
    AttentionCalls,
    attention_calls,
)
from simulator.kernels.attention_gemms import INDEX_COMPRESSOR_WIDTH, module_gemms
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.family import Columns, Family
from simulator.kernels.index_logits import index_logits_parts
from simulator.kernels.parts import Floats, Parts, joined
from simulator.kernels.remembered import Remembered
from simulator.kernels.sparse_core import HEADS as TILE_HEADS
from simulator.kernels.top_k import top_k_parts, top_k_second_parts

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


@dataclass(frozen=True, slots=True)
class EngineGraph:
    """What an engine decides about the graph.

    `side_stream_tokens`: up to so many tokens, decode runs compressor and indexer on streams beside
    the trunk, and a prefill of single tokens its compressor GEMMs. `prefill_kernels`: small kernels
    that prepare the lists of ids of a prefill. `short_rows`: what prefill leaves out where no row
    has more entries than the indexer selects. `regroup_launches`: launches around the first half of
    the output projection where several groups of heads and several tokens have to be permuted into
    a batched GEMM and back. `fp8_output_group`: architectures on which the first
    half of the output projection runs in FP8.
    """

    engine: str
    fp8_family: str
    logits_family: str
    side_stream_tokens: int
    prefill_kernels: int
    short_rows: Literal["all", "scores", "none"]
    regroup_launches: int
    fp8_output_group: tuple[str, ...]

    @property
    def families(self) -> tuple[str, ...]:
        """Families whose constants the module uses."""
        return ("gemm_bf16", self.fp8_family, self.logits_family, "top_k_v1", "top_k_v2")


class AttentionModule(Family):
    """Base of the engines' modules: fixed part + kernels one after the other, or side by side.

    Assumes: top-k scores are all equal, as benchmarks of modules make them, unless a column
        `scores` says `top_last`.
    Assumes: streams side by side do not slow each other down.
    """

    needs: ClassVar[tuple[str, ...]] = NEEDS
    graph: ClassVar[EngineGraph]
    _remembered: ClassVar[Remembered] = Remembered()

    def covers(self, row: Mapping[str, str]) -> bool:
        """Module rows of the engine."""
        engine = row.get("engine", "").partition("-")[0]
        return row["op"].endswith("_module") and engine == self.graph.engine

    @abstractmethod
    def core(self, calls: AttentionCalls, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Sparse attention of all heads."""

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of the whole module."""
        return joined(*self.stages(calls, chip, constants).values())

    def stages(
        self, columns: Columns, chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Parts]:
        """Stages that follow one another, by name; a stage of parallel streams is its longest."""
        calls = attention_calls(columns)
        stored = {name: constants_for(name, chip).values for name in self.graph.families}
        settled = self._remembered.get(
            (self.name, stored, calls.ties, *(np.asarray(columns[n]) for n in self.needs)),
            chip,
            lambda: self._settled(calls, chip, stored),
        )
        small = self._elementwise(calls, chip, constants["move"])
        trunk = joined(settled["query"], small["rope"])
        few = calls.tokens <= self.graph.side_stream_tokens
        beside, partly = few & calls.decode, few & ~calls.decode & (calls.new == 1)
        index = joined(settled["index_query"], small["index_query"], small["index_compressor"])
        down = [settled[n] for n in ("down", "compressor", "index_weights", "index_compressor")]
        zero = np.zeros_like(calls.batch)
        prepare = np.where(calls.decode, 0.0, self.graph.prefill_kernels * chip.launch_gap_s)
        return {
            "fixed": Parts({"launch": zero + constants["fixed"] + prepare}),
            "down": either(beside | partly, longest(down[0], joined(*down[1:])), joined(*down)),
            "norm": small["norm"],
            "query": either(
                beside,
                longest(trunk, small["compressor"], index),
                joined(trunk, small["compressor"], index),
            ),
            "index": joined(settled["logits"], settled["top_k"]),
            "pad": small["pad"],
            "core": self.core(calls, chip, constants),
            "inverse_rope": small["inverse_rope"],
            "regroup": Parts({"launch": self._regroup_seconds(calls, chip)}),
            "output": joined(settled["output_group"], settled["output"]),
        }

    def _regroup_seconds(self, calls: AttentionCalls, chip: ChipSpec) -> Floats:
        """Launches of the permutes.

        Assumes: what they move stays in cache and costs little beside the launches.
        """
        permuted = (calls.heads > HEADS_PER_GROUP) & (calls.tokens > 1)
        return np.where(permuted, self.graph.regroup_launches * chip.launch_gap_s, 0.0)

    def _settled(
        self, calls: AttentionCalls, chip: ChipSpec, stored: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Parts]:
        """Kernels whose constants other families have."""
        fp8_group = chip.architecture.split("-")[0] in self.graph.fp8_output_group
        fp8 = stored[self.graph.fp8_family]
        found = module_gemms(calls, chip, stored["gemm_bf16"], fp8, fp8_group)
        sizes = (calls.batch, calls.new, calls.past)
        rows = (*sizes, calls.top_k, calls.ties, chip)
        prefill = top_k_parts(*rows, stored["top_k_v1"])
        decode = top_k_second_parts(*rows, stored["top_k_v2"])
        logits = index_logits_parts(*sizes, chip, stored[self.graph.logits_family])
        short = ~calls.decode & ~calls.selects
        scored = calls.csa & ~(short & (self.graph.short_rows != "none"))
        asked = calls.csa & ~(short & (self.graph.short_rows == "all"))
        return {
            **found,
            "index_query": only(asked, found["index_query"]),
            "logits": only(scored, logits),
            "top_k": only(scored, either(calls.decode, decode, prefill)),
        }

    def _elementwise(self, calls: AttentionCalls, chip: ChipSpec, move: float) -> dict[str, Parts]:
        """Elementwise kernels, by name: bytes read and written, times tokens."""
        asked = calls.csa & ~((self.graph.short_rows == "all") & ~calls.decode & ~calls.selects)
        query = calls.heads * HEAD_DIM * BF16_BYTES
        one = np.ones_like(query)
        width = {
            "norm": 2 * (calls.query_rank + HEAD_DIM) * BF16_BYTES,
            "rope": 2 * query + 2 * HEAD_DIM * BF16_BYTES,
            "compressor": 2 * calls.compressor_width * FP32_BYTES,
            "index_query": one * INDEX_WIDTH * (BF16_BYTES + 1),
            "index_compressor": one * 2 * INDEX_COMPRESSOR_WIDTH * FP32_BYTES,
            "pad": one * TILE_HEADS * HEAD_DIM * BF16_BYTES,
            "inverse_rope": 2 * query,
        }
        present = {
            "index_query": asked,
            "index_compressor": calls.csa,
            "pad": calls.heads < TILE_HEADS,
        }
        return {
            name: only(
                present.get(name, np.ones_like(calls.csa)),
                elementwise_parts(calls.tokens * each, chip, move),
            )
            for name, each in width.items()
        }


def only(rows: np.ndarray, parts: Parts) -> Parts:
    """Parts of some of the calls, nothing of the others."""
    return Parts({cause: np.where(rows, value, 0.0) for cause, value in parts.seconds.items()})


def either(rows: np.ndarray, parts: Parts, others: Parts) -> Parts:
    """One set of parts for some of the calls, another for the rest."""
    return joined(only(rows, parts), only(~rows, others))


def longest(*branches: Parts) -> Parts:
    """Branches side by side: each call waits for its longest, which owns the time."""
    totals = np.stack([branch.total for branch in branches])
    chosen = totals.argmax(axis=0)
    return joined(*(only(chosen == i, branch) for i, branch in enumerate(branches)))


def padded_tiles(heads: Floats) -> Floats:
    """Tiles of 64 heads that a query takes; fewer heads are padded."""
    return np.ceil(np.maximum(heads, 1) / TILE_HEADS)
