"""Which number formats a deployment stores and multiplies: experts, index keys, key-value rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError, unknown_name
from workloads.deepseek_v4.config import ModelConfig
from workloads.dtype import BF16, FP4_GROUP, FP8_BLOCK, DType
from workloads.entry_format import (
    Bf16Entry,
    EntryFormat,
    Fp8KvEntry,
    PlainEntry,
)
from workloads.index_entry import Fp4IndexEntry, Fp8IndexEntry
from workloads.kv_entry import Fp8UniformKvEntry, Mxfp4KvEntry, Nvfp4KvEntry

EXPERT_DTYPES = ("fp4", "fp8", "bf16")
INDEX_DTYPES = ("fp8", "fp4", "bf16")
KV_DTYPES = ("fp8", "bf16", "fp8-uniform", "mxfp4", "nvfp4")
LINEAR_DTYPES = ("fp8", "bf16")
_KV_ROWS: dict[str, Callable[[int, int], EntryFormat]] = {
    "fp8": Fp8KvEntry,
    "fp8-uniform": Fp8UniformKvEntry,
    "mxfp4": Mxfp4KvEntry,
    "nvfp4": Nvfp4KvEntry,
}


@dataclass(frozen=True, slots=True)
class Precision:
    """Stored formats. FP8 index keys are what engines use by default; FP4 is the checkpoint's.

    `expert` fp4 multiplies FP8 activations with FP4 weights; fp8 is the repacked form (one byte a
    weight, 128 x 128 scales; lossless for V4 by its report), bf16 the unpacked one. `linear` bf16
    has all other FP8 weights unpacked. Cache rows are multiplied in BF16, whatever they are stored
    in.
    """

    expert: str = "fp4"
    index: str = "fp8"
    kv: str = "fp8"
    linear: str = "fp8"

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("expert dtype", self.expert, EXPERT_DTYPES),
            ("index dtype", self.index, INDEX_DTYPES),
            ("kv dtype", self.kv, KV_DTYPES),
            ("linear dtype", self.linear, LINEAR_DTYPES),
        ):
            if value not in allowed:
                raise InputError(unknown_name(what, value, allowed))

    def linear_weight(self, config: ModelConfig) -> DType:
        """Stored format of the linear layers but those that checkpoints keep in BF16."""
        return BF16 if self.linear == "bf16" else linear_weight(config)

    def expert_weight(self, config: ModelConfig) -> DType:
        """Stored format of the routed experts."""
        if self.expert == "bf16":
            return BF16
        return FP4_GROUP if self.expert == "fp4" else linear_weight(config)

    @property
    def expert_math(self) -> str:
        """Rate class of the expert products."""
        return "fp8xfp4" if self.expert == "fp4" else self.expert

    @property
    def index_math(self) -> str:
        """Rate class of the index scores."""
        return {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}[self.index]

    def kv_format(self, config: ModelConfig) -> EntryFormat:
        """Window and compressed entries."""
        if self.kv == "bf16":
            return Bf16Entry(config.head_dim)
        return _KV_ROWS[self.kv](config.nope_head_dim, config.qk_rope_head_dim)

    def index_format(self, config: ModelConfig) -> EntryFormat:
        """Index keys."""
        if self.index == "fp4":
            return Fp4IndexEntry(config.index_head_dim)
        if self.index == "fp8":
            return Fp8IndexEntry(config.index_head_dim)
        return Bf16Entry(config.index_head_dim)

    def state_format(self, halves: int, entry_dim: int) -> EntryFormat:
        """A compressor row: values and scores in fp32."""
        return PlainEntry(2 * halves * entry_dim, "float32")


def linear_weight(config: ModelConfig) -> DType:
    """Stored format of the linear layers: FP8 with one scale a block of the checkpoint's size."""
    rows, columns = config.quantization_config.weight_block_size
    return replace(FP8_BLOCK, block=(rows, columns))
