"""Which number formats a deployment stores and multiplies: experts, index keys, key-value rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from simulator.basis.errors import InputError, unknown_name
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.modules import EXPERT_ROLES
from workloads.deepseek_v4.weight_plan import LayerFormats
from workloads.dtype import BF16, FP8_BLOCK, DType
from workloads.entry_format import (
    Bf16Entry,
    EntryFormat,
    Fp8KvEntry,
    PlainEntry,
)
from workloads.index_entry import Fp4IndexEntry, Fp8IndexEntry
from workloads.kv_entry import Fp8UniformKvEntry, Mxfp4KvEntry, Nvfp4KvEntry
from workloads.weight_format import weight_format, weight_format_table

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

    `expert` is a line of `weight_formats.yaml`: fp4 multiplies FP8 activations with FP4 weights;
    fp8 is the repacked form (one byte a weight, 128 x 128 scales; lossless for V4 by its report),
    bf16 the unpacked one. `linear` fp8 leaves all other weights as the checkpoint has them, bf16
    has them unpacked. Cache rows are multiplied in BF16, whatever they are stored
    in.
    """

    expert: str = "fp4"
    index: str = "fp8"
    kv: str = "fp8"
    linear: str = "fp8"

    def __post_init__(self) -> None:
        try:
            weight_format(self.expert)
        except InputError:
            known = weight_format_table()
            raise InputError(unknown_name("expert dtype", self.expert, known)) from None
        for what, value, allowed in (
            ("index dtype", self.index, INDEX_DTYPES),
            ("kv dtype", self.kv, KV_DTYPES),
            ("linear dtype", self.linear, LINEAR_DTYPES),
        ):
            if value not in allowed:
                raise InputError(unknown_name(what, value, allowed))

    def linear_weight(self, config: ModelConfig) -> DType:
        """Stored format of the linear layers that released checkpoints quantise."""
        return BF16 if self.linear == "bf16" else linear_weight(config)

    def weight(self, config: ModelConfig, formats: LayerFormats, role: str) -> DType:
        """Stored format of a module of a layer, by its role."""
        if role in EXPERT_ROLES:
            return self._expert(config, formats.of(role))
        if self.linear == "bf16":
            return BF16
        return named_format(config, formats.of(role))

    def _expert(self, config: ModelConfig, stored: str) -> DType:
        """Experts stored as most are take the format asked for, others keep their own."""
        return named_format(config, self.expert if stored == config.expert_dtype else stored)

    def top_weight(self, config: ModelConfig, module: Literal["embed", "head"]) -> DType:
        """Stored format of the embedding or of the output head."""
        if self.linear == "bf16" or config.stored is None:
            return BF16
        return named_format(config, getattr(config.stored, module))

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
    """FP8 with one scale a block of the checkpoint's size."""
    rows, columns = config.quantization_config.weight_block_size
    return replace(FP8_BLOCK, block=(rows, columns))


def named_format(config: ModelConfig, name: str) -> DType:
    """Number format by name; `fp8` in blocks of the checkpoint's size."""
    return linear_weight(config) if name == "fp8" else weight_format(name)
