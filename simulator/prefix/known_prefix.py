"""One pass over a trace: what of every prompt was seen before, where windows may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.prefix.granularity import known_tokens, whole_granules
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.window_policy import WindowPolicy
from workloads.traffic.trace import Trace

Ints = NDArray[np.int64]
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class MarkLayer:
    """Places that policies remember: cut to blocks and a granule, with junctions or not."""

    granule_tokens: int
    junctions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrefixes:
    """Per request [N]: `blocks` and `tokens` of its leading run that were seen before.

    `marks`: by layer, the last marked boundary within the run (0 if none) [N]. `distinct_blocks`,
    `segments`: of the whole trace.
    """

    blocks: Ints
    tokens: Ints
    marks: dict[MarkLayer, Ints]
    distinct_blocks: int
    segments: int


def mark_layer(policy: WindowPolicy) -> MarkLayer | None:
    """The layer that a policy needs, if any."""
    if not policy.marks:
        return None
    return MarkLayer(policy.granule_tokens or 1, "junction" in policy.marks)


def marked_boundary(tokens: int, block_tokens: int, granule_tokens: int) -> int:
    """Where the end of a prompt is remembered: in whole trace blocks, then in whole granules.

    Assumes: a window kept within a partial last trace block counts at the block's start, since a
    trace cannot tell whether a longer prompt shares that block.
    """
    return whole_granules(whole_granules(tokens, block_tokens), granule_tokens)


def check_block_ids(trace: Trace) -> None:
    """Raise InputError for a trace that does not tell which prompts share a prefix."""
    if not trace.block_tokens:
        raise InputError(
            f"trace {trace.name} has no block ids, so that nothing is known of shared prefixes: "
            "give one with ids (Mooncake, Bailian, Weka, aiperf)"
        )


def run_lists(trace: Trace) -> Iterator[list[tuple[int, int]]]:
    """Runs of every request as plain numbers, in file order."""
    check_block_ids(trace)
    offsets = trace.run_offsets.tolist()
    runs = list(zip(trace.run_first.tolist(), trace.run_count.tolist(), strict=True))
    for begin, end in pairwise(offsets):
        yield runs[begin:end]


def known_prefixes(
    trace: Trace, layers: Sequence[MarkLayer] = (), advance: Advance | None = None
) -> KnownPrefixes:
    """Look every prompt up in file order and insert it at once; nothing is ever forgotten."""
    block_tokens = trace.block_tokens
    index = PrefixIndex(block_tokens)
    inputs = trace.input_tokens.tolist()
    blocks, tokens = [0] * len(inputs), [0] * len(inputs)
    marks = {layer: [0] * len(inputs) for layer in layers}
    for request, runs in enumerate(run_lists(trace)):
        found = index.match(runs)
        run = known_tokens(found.blocks, block_tokens, inputs[request])
        blocks[request], tokens[request] = found.blocks, run
        for bit, layer in enumerate(layers):
            marks[layer][request] = index.last_mark(found.path, run, 1 << bit)
        path = index.insert(runs, found=found)
        for bit, layer in enumerate(layers):
            ends = (inputs[request], run) if layer.junctions else (inputs[request],)
            for end in ends:
                at = marked_boundary(end, block_tokens, layer.granule_tokens)
                index.add_mark(path, at, 1 << bit)
        if advance is not None:
            advance(request)
    return KnownPrefixes(
        blocks=np.array(blocks, dtype=np.int64),
        tokens=np.array(tokens, dtype=np.int64),
        marks={layer: np.array(found, dtype=np.int64) for layer, found in marks.items()},
        distinct_blocks=index.blocks,
        segments=index.segments,
    )
