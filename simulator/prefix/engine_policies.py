"""Which windows today's engines and stores keep, each by a rule of its own with its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.basis.errors import InputError
from simulator.prefix.window_parts import (
    Boundary,
    Full,
    Junction,
    Periodic,
    PromptReplay,
    WindowPart,
    no_value,
    tokens_value,
)

Parts = tuple[tuple[WindowPart, ...], int | None]
Reader = Callable[[str | None], Parts]
ENGINE_GRANULE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class EnginePolicy:
    """How a name is read, and the rule behind it: a sentence with its source or its guesses."""

    read: Reader
    rule: str


def _sglang(value: str | None) -> Parts:
    no_value(Boundary, "sglang", value)
    return (Boundary(), Junction()), ENGINE_GRANULE_TOKENS


def _vllm(value: str | None) -> Parts:
    granule = ENGINE_GRANULE_TOKENS
    if value == "0":
        return (Boundary(), Junction()), granule
    return (_every("vllm", value),), granule


def _every(name: str, value: str | None) -> Periodic:
    """Windows at a retention interval; `none` is dense."""
    granule = ENGINE_GRANULE_TOKENS
    interval = granule if value == "none" else tokens_value(name, value, granule)
    if interval % granule:
        raise InputError(
            f"window policy '{name}:{value}': the retention interval is 'none', 0 or a multiple of "
            f"{granule}; nearest is {max(1, round(interval / granule)) * granule}"
        )
    return Periodic(interval, clips=False)


def _lmcache(value: str | None) -> Parts:
    no_value(Boundary, "lmcache", value)
    return (Periodic(ENGINE_GRANULE_TOKENS, clips=False),), ENGINE_GRANULE_TOKENS


def _hicache(value: str | None) -> Parts:
    if value not in (None, "tail"):
        raise InputError(f"window policy 'hicache:{value}': write 'hicache' or 'hicache:tail'")
    parts = (Full(),) if value is None else (Boundary(), Junction())
    return parts, ENGINE_GRANULE_TOKENS


def _mooncake(value: str | None) -> Parts:
    if value in (None, "0"):
        return (PromptReplay(),), ENGINE_GRANULE_TOKENS
    return (_every("mooncake", value), PromptReplay()), ENGINE_GRANULE_TOKENS


ENGINE_POLICIES: dict[str, EnginePolicy] = {
    "sglang": EnginePolicy(
        _sglang,
        "rows outside the window are tombstoned; a hit past the last live window puts one there "
        "(source: sgl-project/sglang 0.5.23 srt/mem_cache/unified_cache/components/swa.py)",
    ),
    "vllm": EnginePolicy(
        _vllm,
        "prefix_cache_retention_interval: none keeps a window every 256 tokens, 0 ends and "
        "junctions, TOKENS one every so many (source: vllm-project/vllm 0.33.0 "
        "v1/core/single_type_kv_cache_manager.py)",
    ),
    "lmcache": EnginePolicy(
        _lmcache,
        "of every chunk of 256 tokens the last window alone is stored, with the pages (source: "
        "LMCache lmcache/v1/multiprocess/config.py chunk_size, LMCache pulls 3612 and 3635; guess: "
        "chunks of replies are stored as well)",
    ),
    "hicache": EnginePolicy(
        _hicache,
        "host pages of the window are kept as those of all other pools, tail keeps the last window "
        "of a node alone (source: sgl-project/sglang 0.5.23 "
        "srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py; guess: rows are copied before the "
        "window leaves them)",
    ),
    "mooncake": EnginePolicy(
        _mooncake,
        "the store's mask keeps the window at which an equal prompt resumes, and one every TOKENS "
        "of the retention interval (0 by default, none is dense); no junctions, no ends of replies "
        "(source: vllm-project/vllm 9f80403 distributed/kv_transfer/kv_connector/v1/mooncake/store/"
        "coordinator.py, vLLM pull 44774; guess: the store's interval is the engine's default)",
    ),
}
