"""Calls of a whole attention module as arrays: batch, tokens, and the model's sizes on one GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from simulator.basis.errors import InputError, unknown_name
from simulator.kernels.family import Columns
from simulator.kernels.parts import Floats
from simulator.lower.calls import AttentionCall

HEAD_DIM = 512
HEADS_PER_GROUP = 8
GROUP_RANK = 1024
INDEX_WIDTH = 64 * 128
INDEX_HEADS = 64
WINDOW = 128
CSA_RATIO = 4
HCA_RATIO = 128
_FLAGS = ("csa", "hca", "decode", "fp8", "ties", "cold")
NEEDS = ("op", "model", "gemm_dtype", "local_heads", "batch", "new_tokens", "past_tokens")


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Width of the stream, rank of the query latent, entries that the indexer selects."""

    hidden: int
    query_rank: int
    top_k: int


# From the models' published configurations.
MODELS = {"v4-flash": ModelSizes(4096, 1024, 512), "v4-pro": ModelSizes(7168, 1536, 1024)}


@dataclass(frozen=True, slots=True, eq=False)
class AttentionCalls:
    """One row a call. `heads` are those of this GPU; `csa` and `decode` come from the operation.

    A layer that is neither `csa` nor `hca` attends to its window only. `ties`: all index scores are
    equal, as in benchmarks of modules, the worst case of top-k. `cold`: no weights are in the cache
    from the call before, as in a model of many layers.
    """

    batch: Floats
    new: Floats
    past: Floats
    heads: Floats
    hidden: Floats
    query_rank: Floats
    top_k: Floats
    csa: np.ndarray
    hca: np.ndarray
    decode: np.ndarray
    fp8: np.ndarray
    ties: np.ndarray
    cold: np.ndarray

    @property
    def tokens(self) -> Floats:
        """New tokens of all requests."""
        return self.batch * self.new

    @property
    def output_rank(self) -> Floats:
        """Columns between the two halves of the output projection: 1,024 for 8 heads."""
        return self.heads / HEADS_PER_GROUP * GROUP_RANK

    @property
    def compresses(self) -> np.ndarray:
        """Whether there are compressed entries at all."""
        return self.csa | self.hca

    @property
    def compressor_width(self) -> Floats:
        """Columns of the compressor's values and gates: CSA keeps two halves of each."""
        return np.where(self.csa, 4.0, 2.0) * HEAD_DIM

    @property
    def ratio(self) -> Floats:
        """Tokens of one compressed entry."""
        return np.where(self.csa, float(CSA_RATIO), float(HCA_RATIO))

    @property
    def state_rows(self) -> Floats:
        """Rows of earlier tokens that the compressor pools into entries that the step completes.

        They are those of the open block, and in CSA of the block before it.
        """
        completes = np.floor((self.past + self.new) / self.ratio) > np.floor(self.past / self.ratio)
        block = np.where(self.csa, self.ratio, 0.0)
        rows = np.minimum(self.past, np.mod(self.past, self.ratio) + block)
        return self.batch * rows * completes * self.compresses

    @property
    def visible(self) -> Floats:
        """Tokens that a new token sees, mean over the new ones."""
        return self.past + (self.new + 1) / 2

    @property
    def extra_keys(self) -> Floats:
        """Compressed entries that a query attends to, mean over the new tokens."""
        entries = self.visible / self.ratio
        return np.where(self.csa, np.minimum(entries, self.top_k), entries * self.hca)

    @property
    def selects(self) -> np.ndarray:
        """Whether any row has more entries than the indexer selects."""
        return self.csa & ((self.past + self.new) / CSA_RATIO > self.top_k)


def attention_calls(columns: Columns) -> AttentionCalls:
    """Calls from the columns of a measured table.

    Optional columns: `scores` says `top_last` where scores are as in real work, `weights` says
    `cold` where none are in the cache from the call before.
    """
    models = [str(m) for m in columns["model"]]
    for model in set(models) - set(MODELS):
        raise InputError(unknown_name("model", model, tuple(MODELS)))
    sizes = [MODELS[m] for m in models]
    ops = np.asarray(columns["op"]).astype(str)

    def numbers(name: str) -> Floats:
        return np.asarray(columns[name], dtype=np.float64)

    return AttentionCalls(
        batch=numbers("batch"),
        new=numbers("new_tokens"),
        past=numbers("past_tokens"),
        heads=numbers("local_heads"),
        hidden=np.array([s.hidden for s in sizes], dtype=np.float64),
        query_rank=np.array([s.query_rank for s in sizes], dtype=np.float64),
        top_k=np.array([s.top_k for s in sizes], dtype=np.float64),
        csa=np.char.startswith(ops, "csa"),
        hca=np.char.startswith(ops, "hca"),
        decode=np.char.find(ops, "decode") >= 0,
        fp8=np.asarray(columns["gemm_dtype"]).astype(str) == "fp8_block",
        ties=tied(columns),
        cold=_cold(columns),
    )


def calls_of(*calls: AttentionCall) -> AttentionCalls:
    """Modules of a step: real scores, and weights that come from memory.

    Assumes: index scores of real work have no ties.
    """
    plain = [plain_call(call) for call in calls]

    def column(name: str) -> np.ndarray:
        values = [getattr(call, name) for call in plain]
        return np.array(values, dtype=bool if name in _FLAGS else np.float64)

    return AttentionCalls(**{field.name: column(field.name) for field in fields(AttentionCalls)})


def plain_call(call: AttentionCall) -> AttentionCalls:
    """One call with plain numbers in the place of rows, for decisions about it."""
    sizes: dict[str, Any] = {
        "batch": call.batch,
        "new": call.new,
        "past": call.past,
        "heads": call.heads,
        "hidden": call.hidden,
        "query_rank": call.query_rank,
        "top_k": call.top_k,
    }
    flags: dict[str, Any] = {
        "csa": call.kind == "csa",
        "hca": call.kind == "hca",
        "decode": call.decode,
        "fp8": call.fp8,
        "ties": False,
        "cold": True,
    }
    return AttentionCalls(**sizes, **dict(zip(flags, np.array([*flags.values()]), strict=True)))


def tied(columns: Columns) -> np.ndarray:
    """Calls whose index scores are all equal: all but those whose `scores` are `top_last`."""
    if "scores" in columns:
        return np.asarray(columns["scores"]).astype(str) != "top_last"
    return np.ones(len(columns["op"]), dtype=bool)


def _cold(columns: Columns) -> np.ndarray:
    """Calls whose weights all come from memory: none but those whose `weights` are `cold`."""
    if "weights" in columns:
        return np.asarray(columns["weights"]).astype(str) == "cold"
    return np.zeros(len(columns["op"]), dtype=bool)
