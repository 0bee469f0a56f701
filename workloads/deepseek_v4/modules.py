"""Modules of a checkpoint by role: under which names files know them, and which are linear layers.

A role is a parameter's name in the graph without its layer (`attn/wq_a`, `moe/w2`). Released
checkpoints say `layers.3.attn.wq_a`, transformers `model.layers.3.self_attn.q_a_proj`, MLX
`model.layers.3.mlp.switch_mlp.gate_proj`; draft stages are `mtp.0` or layers that count on.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

# A module's own name in the released files, then in transformers and other tools.
_ATTENTION = ("attn", "self_attn")
_EXPERTS = ("ffn", "mlp")
ROLES: dict[str, tuple[str, ...]] = {
    "attn/wq_a": ("wq_a", "q_a_proj"),
    "attn/wq_b": ("wq_b", "q_b_proj"),
    "attn/wkv": ("wkv", "kv_proj"),
    "attn/wo_a": ("wo_a", "o_a_proj"),
    "attn/wo_b": ("wo_b", "o_b_proj"),
    "attn/compressor/wkv": ("compressor.wkv", "compressor.kv_proj"),
    "attn/compressor/wgate": ("compressor.wgate", "compressor.gate_proj"),
    "attn/indexer/wq_b": ("indexer.wq_b", "indexer.q_b_proj", "compressor.indexer.q_b_proj"),
    "attn/indexer/weights": (
        "indexer.weights_proj",
        "compressor.indexer.scorer.weights_proj",
    ),
    "attn/indexer/compressor/wkv": (
        "indexer.compressor.wkv",
        "indexer.compressor.kv_proj",
        "compressor.indexer.kv_proj",
    ),
    "attn/indexer/compressor/wgate": (
        "indexer.compressor.wgate",
        "indexer.compressor.gate_proj",
        "compressor.indexer.gate_proj",
    ),
    "moe/w13": (
        *(f"{held}.{name}" for held in ("experts.0", "experts", "switch_mlp")
          for name in ("w1", "w3", "gate_proj", "up_proj", "gate_up_proj", "w13")),
        "experts",
    ),
    "moe/w2": (
        *(f"{held}.{name}" for held in ("experts.0", "experts", "switch_mlp")
          for name in ("w2", "down_proj")),
        "experts",
    ),
    "moe/shared/w13": tuple(
        f"shared_experts.{name}" for name in ("w1", "w3", "gate_proj", "up_proj", "gate_up_proj")
    ),
    "moe/shared/w2": ("shared_experts.w2", "shared_experts.down_proj"),
}  # fmt: skip
# Modules of draft stages: join of an MTP layer, and the head of a DSpark draft.
DRAFT_ROLES: dict[str, tuple[str, ...]] = {
    "e_proj": ("e_proj",),
    "h_proj": ("h_proj",),
    "main_proj": ("main_proj",),
}
# Modules outside the layers, with all their names.
TOP_ROLES: dict[str, tuple[str, ...]] = {
    "embed/table": ("embed", "embed_tokens", "model.embed_tokens"),
    "head/weight": ("head", "lm_head"),
}
# Stored in BF16 by released checkpoints though they are linear layers.
BF16_ROLES = frozenset(
    {
        "attn/compressor/wkv",
        "attn/compressor/wgate",
        "attn/indexer/weights",
        "attn/indexer/compressor/wkv",
        "attn/indexer/compressor/wgate",
        "head/weight",
        "embed/table",
    }
)
EXPERT_ROLES = ("moe/w13", "moe/w2")
_FLAGS = re.compile(r"^\(\?[a-z]+\)")


@dataclass(frozen=True, slots=True)
class Place:
    """A layer of a checkpoint: its number, counted on over draft stages; None outside of layers.

    `stage` is the number of a draft stage.
    """

    layer: int | None
    stage: int | None = None


@lru_cache(maxsize=65536)
def names_of(role: str, place: Place) -> tuple[str, ...]:
    """All names that files have for a module."""
    if role in TOP_ROLES:
        return TOP_ROLES[role]
    folders = [f"layers.{place.layer}", f"model.layers.{place.layer}"]
    folders += [f"model.language_model.layers.{place.layer}"]
    if place.stage is not None:
        folders = [f"mtp.{place.stage}", f"model.mtp.{place.stage}", *folders]
    if role in DRAFT_ROLES:
        return tuple(f"{f}.{leaf}" for f, leaf in product(folders, DRAFT_ROLES[role]))
    inner = _ATTENTION if role.startswith("attn/") else _EXPERTS
    return tuple(f"{f}.{i}.{leaf}" for f, i, leaf in product(folders, inner, ROLES[role]))


def matches(patterns: Iterable[str], role: str, place: Place) -> bool:
    """Whether any pattern names the module: `re:` expressions, wildcards, names, or their starts.

    A plain name stands for all that it holds, as `model.layers.3` or `mlp.experts` do, and for a
    module by its last name (`lm_head`, `wq_a`). Raises `re.error` for an expression that is none.
    """
    return any(_matches(pattern, role, place) for pattern in patterns)


@lru_cache(maxsize=65536)
def _matches(pattern: str, role: str, place: Place) -> bool:
    names = names_of(role, place)
    if pattern.startswith("re:"):
        wanted = re.compile(pattern[3:])
        return any(wanted.match(name) for name in names)
    if any(sign in pattern for sign in "*?["):
        return any(fnmatch.fnmatchcase(name, pattern) for name in names)
    plain = pattern.removesuffix(".weight").removesuffix(".")
    return any(_holds(plain, name) for name in names)


def _holds(plain: str, name: str) -> bool:
    """Whether `plain` is a run of whole parts of the name."""
    return f".{plain}." in f".{name}."
