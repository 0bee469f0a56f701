"""What the names in reports mean, in plain words: terms, kinds of layer, pools and operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from reports.answer import KIND_NAMES
from simulator.cost.result import StepResult

TERMS = {
    "one rank, one chip": "a chip with its part of the model and of the requests; where chips "
    "differ, the busiest. DRAM, FLOP, link and memory are of one chip, tokens/s of all",
    "operation": "launches of one name, added up over the layers; an operation fuses some nodes "
    "of the model's graph",
    "share": "part of the step that waits for this operation; the shares add up to 100 %",
    "hidden": "runs beside something longer, so that the step does not wait for it",
    "bound by": "what sets a launch's time: memory or link bandwidth, matrix, vector or "
    "special-function math, or the overhead of launching",
    "of peak": "rate during the launches, of the most that the chip can do; for matrix math that "
    "of the number format used",
    "streams, hyper-connection": "a token runs through the layers as several parallel rows (4 in "
    "V4), which are mixed into one before each block and take up its output",
    "rotate": "turn a vector by its token's position (RoPE)",
}
KIND_ABOUTS = {
    "embed": "looks up the rows of the step's tokens",
    "swa": "attention over the last tokens only (128 in V4)",
    "csa": "attention over the last tokens, and over the compressed entries, of 4 tokens each, "
    "that an indexer picks (at most 1,024 in Pro, 512 in Flash)",
    "hca": "attention over the last tokens, and over all compressed entries, of 128 tokens each",
    "mtp": "layers after the model's own, each of which drafts a token ahead",
    "head": "turns each request's last row into scores of the vocabulary",
}
_ENTRIES = re.compile(r"(?:c|csa|hca)(\d+)")
_ROWS = (("_index_state", "index compressor rows"), ("_state", "compressor rows"))


def pool_name(pool: str) -> str:
    """A pool of cache state as readers see it."""
    for ending, name in _ROWS:
        if pool.endswith(ending):
            return f"{pool.removesuffix(ending)} {name}"
    return pool


def pool_about(pool: str) -> str:
    """What a pool of cache state holds."""
    if pool.endswith("_index_state"):
        return "rows not yet pooled into an index key (fp32)"
    if pool.endswith("_state"):
        return "rows of the latest tokens, not yet pooled into an entry (fp32)"
    entries = _ENTRIES.match(pool)
    if entries is None:
        return "raw key-value rows of the last tokens (128 in V4)"
    if pool.endswith("_index"):
        return f"the indexer's keys, one per {entries[1]} tokens"
    return f"compressed entries, one per {entries[1]} tokens"


def names_of(result: StepResult) -> dict[str, dict[str, str]]:
    """What the names of a step mean: its operations, kinds of layer and pools."""
    kinds = dict.fromkeys(kernel.kind for kernel in result.kernels)
    return {
        "operations": dict(result.abouts),
        "layer_kinds": {kind: KIND_ABOUTS[kind] for kind in kinds if kind in KIND_ABOUTS},
        "pools": {pool: pool_about(pool) for pool in result.memory.state_bytes_by_pool},
    }


def names_section(results: Sequence[StepResult]) -> str:
    """A section that explains the names of all steps, each once."""
    names: dict[str, dict[str, str]] = {"operations": {}, "layer_kinds": {}, "pools": {}}
    for result in results:
        for group, abouts in names_of(result).items():
            names[group] |= abouts
    kinds = {KIND_NAMES.get(key, key): about for key, about in names["layer_kinds"].items()}
    pools = {pool_name(key): about for key, about in names["pools"].items()}
    return (
        '<section id="names"><h3>What the names mean</h3><div class="names">'
        f"{_list('In general', TERMS)}{_list('Kinds of layer', kinds)}"
        f"{_list('State in memory', pools)}{_list('Operations', names['operations'])}"
        "</div></section>"
    )


def _list(title: str, abouts: dict[str, str]) -> str:
    if not abouts:
        return ""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(about)}</dd></div>"
        for name, about in abouts.items()
    )
    return f"<h4>{title}</h4><dl>{items}</dl>"


SERVING = {
    "TTFT": "time to first token: from the arrival of a request to its first output token",
    "TPOT": "time per output token: what lies between the first and the last token of a request, "
    "divided by the tokens after the first",
    "goodput": "requests a second that meet every target (service levels) of the scenario",
    "prefill": "the steps that compute a prompt; chunked where it is longer than a step takes",
    "decode": "the steps that make output tokens, one a request, or more with drafts",
    "replica": "one copy of the model with the chips that hold it",
    "data rank": "a part of a replica with attention and KV cache of its own (data-parallel "
    "attention); experts are shared",
    "drafts": "tokens guessed ahead by MTP layers or a DSpark head, and verified in one step",
    "chunk, tokens in flight": "most tokens that one step of an engine takes; memory is set aside "
    "for them (max batched tokens in vLLM, chunked prefill size in SGLang)",
    "memory share": "part of a chip's memory that an engine takes for weights, workspace and cache "
    "(gpu-memory-utilization in vLLM, mem-fraction-static in SGLang)",
}
PREFIXES = {
    "prefix hit": "tokens of a prompt whose state is in the cache, so that they are not computed",
    "window policy": "which rows of the sliding window outlive their request: full keeps all, "
    "periodic those at every so many tokens, boundary those at a prompt's end, junction those "
    "where prompts part, zero none (they are replayed)",
    "replay": "computing the last tokens of a hit again, to fill a window that was not kept",
    "tier": "where cached prefixes are: HBM, host memory (DRAM), NVMe, remote storage",
    "page": "the unit in which an engine hands out cache: a number of tokens, or of rows of a pool",
    "granule": "the unit of a hit: prompts share a whole number of them",
}
TIMES = {
    "roofline, tile, cycle": "how closely a step is looked at: bounds by bandwidth and math; "
    "tiles, waves, latencies and streams; kernels run on a simulated machine",
    "p10 to p90": "8 of 10 times on silicon are expected in this interval, which is read off rows "
    "that no constant was fitted to",
    "calibrated": "priced by a kernel family whose constants were fitted to measured kernels of "
    "this chip",
    "as if": "the engine does not do this, and is priced as though it did; not measured",
    "Assumes": "an approximation that the answer rests on",
}


def glossary_groups() -> dict[str, dict[str, str]]:
    """All terms that do not depend on a step, by group."""
    kinds = {KIND_NAMES.get(key, key): about for key, about in KIND_ABOUTS.items()}
    pools = ("window", "c4", "c4_index", "c4_state", "c4_index_state", "c128", "c128_state")
    return {
        "Steps": TERMS,
        "Times": TIMES,
        "Serving": SERVING,
        "KV cache and prefixes": PREFIXES | {pool_name(pool): pool_about(pool) for pool in pools},
        "Kinds of layer": kinds,
    }
