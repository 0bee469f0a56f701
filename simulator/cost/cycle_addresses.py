"""Addresses that the data decides: cache entries that queries pick, weights of chosen experts.

Chip-wide addresses of a kernel, in the order in which its cores ask for them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, cycle

import numpy as np

from hwmodels.bandwidth.reuse import fetched_again_bytes
from hwmodels.dram.core_streams import TURN_BYTES
from hwmodels.llc.accesses import (
    AccessList,
    access_list,
    expert_accesses,
    pick_accesses,
    stated_picks,
)
from hwmodels.llc.spec import CacheSpec
from simulator.engine.kernel import Demand, Kernel
from workloads.graph import Graph, Node
from workloads.op import Array
from workloads.ops import ExpertDown, ExpertUp, SparseAttention
from workloads.run_stats import RunStats, alone_tokens
from workloads.step_shape import StepShape

PAGE_TOKENS = 256
# Queries of one request whose picks are followed: enough for the bytes of a window.
_MOST_QUERIES = 256
_SEED = 7


@dataclass(frozen=True, slots=True)
class Picked:
    """Entries that queries pick: `requests` are (queries, visible entries) of each."""

    entry_bytes: int
    page_entries: int
    picks: int
    requests: tuple[tuple[int, int], ...]
    stats: RunStats

    @property
    def pattern(self) -> tuple[int, bool]:
        """(bytes of a run, whether written) of the part of a mix that these are."""
        return self.entry_bytes, False

    def runs(self, nbytes: int, pool_bytes: int, cores: int) -> AccessList:
        """First fetches of entries in a pool of so many bytes, until `nbytes` are reached.

        Assumes: pages of 256 tokens lie anywhere in their pool, their entries packed; each core
            has an even share of the picks of all requests, in order, and cores take turns of 4 KiB.
        Assumes: recorded requests stand for those of the step, and come again where these are more.
        """
        random = np.random.default_rng(_SEED)
        page_bytes = self.page_entries * self.entry_bytes
        pages = max(1, pool_bytes // page_bytes)
        ids, left = [], nbytes
        for picks in self.requests_in_order():
            first = first_picks(picks)
            own = int(first.max(initial=0)) // self.page_entries + 1
            table = random.choice(pages, own, replace=own > pages)
            page, place = np.divmod(first, self.page_entries)
            ids.append(table[page] * self.page_entries + place)
            left -= len(first) * self.entry_bytes
            if left <= 0:
                break
        order = turns_of(np.concatenate(ids), cores, TURN_BYTES // self.entry_bytes)
        return pick_accesses(order, self.entry_bytes)

    def requests_in_order(self) -> Iterator[Array]:
        """Picks [queries, k] request by request, without end."""
        choices = self.stats.choices
        if choices is not None and choices.picks:
            recorded = list(choices.queries())
            for number in count():
                queries, _ = self.requests[number % len(self.requests)]
                yield recorded[number % len(recorded)][-min(queries, _MOST_QUERIES) :]
        for number in count():
            queries, visible = self.requests[number % len(self.requests)]
            yield stated_picks(
                visible, min(self.picks, visible), min(queries, _MOST_QUERIES),
                self.stats.top_k_overlap, _SEED + number,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chosen:
    """Weights of the experts that recorded tokens chose, of those held on this rank.

    `of_uniform` is how many the step's tokens touch, over what they would choosing uniformly.
    """

    expert_bytes: int
    held: int
    stats: RunStats
    of_uniform: float = 1.0

    @property
    def pattern(self) -> tuple[int, bool]:
        """(bytes of a run, whether written) of the part of a mix that these are."""
        return 0, False

    def runs(self, nbytes: int, pool_bytes: int, cores: int) -> AccessList:
        """Weights of the chosen experts of one layer, or of more until `nbytes` are reached.

        Assumes: experts are dealt to the ranks in turn, each rank's packed; each core has an even
            share of the chosen ones' weights and reads it from front to back, as cores drift apart
            by up to a turn of 4 KiB.
        """
        assert self.stats.choices is not None
        layers = [np.unique(ids % self.held) for ids in self.stats.choices.experts.values()]
        many = max(1, pool_bytes // (self.held * self.expert_bytes))
        chosen: list[Array] = []
        for number, ids in enumerate(cycle(layers)):
            chosen.append(ids + number % many * self.held)
            if sum(map(len, chosen)) * self.expert_bytes >= nbytes:
                break
        runs = expert_accesses(np.concatenate(chosen), self.expert_bytes, TURN_BYTES)
        core, place = np.divmod(np.arange(runs.count), -(-runs.count // cores))
        drift = np.random.default_rng(_SEED).random(runs.count)
        order = np.lexsort((core, place + drift))
        order = order[: -(-nbytes // TURN_BYTES)]
        return access_list(runs.starts[order], runs.sizes[order])


Addresses = Picked | Chosen


@lru_cache(maxsize=64)
def again_share(picked: Picked, cache: CacheSpec) -> float:
    """Bytes that come from memory again in a request of many queries, over its distinct ones."""
    picks = next(picked.requests_in_order())
    if len(picks) < 2:
        return 0.0
    accesses = pick_accesses(picks, picked.entry_bytes)
    distinct = len(np.unique(accesses.starts)) * picked.entry_bytes
    return fetched_again_bytes(cache, accesses, picked.entry_bytes) / distinct


def first_picks(picks: Array) -> Array:
    """Ids in the order in which queries pick them first."""
    ids = picks.reshape(-1)
    ids = ids[ids >= 0]
    _, at = np.unique(ids, return_index=True)
    return ids[np.sort(at)]


def turns_of(ids: Array, cores: int, turn: int) -> Array:
    """Ids, an even share to each core in order, as cores take turns of so many."""
    share = -(-len(ids) // cores)
    core, place = np.divmod(np.arange(len(ids)), share)
    return ids[np.lexsort((place, core, place // max(1, turn)))]


def addresses_of(
    kernels: Sequence[Kernel], graph: Graph, stats: RunStats
) -> Mapping[Demand, Addresses]:
    """Addresses that the data decides, by the demand of the kernels that ask for them."""
    nodes = {node.path: node for node in graph.nodes}
    found: dict[Demand, Addresses] = {}
    known: set[Demand] = set()
    for kernel in kernels:
        if kernel.demand not in known:
            known.add(kernel.demand)
            members = [nodes[path] for path in kernel.nodes]
            addresses = _picked(members, graph, stats) or _chosen(members, graph.step, stats)
            if addresses is not None:
                found[kernel.demand] = addresses
    return found


def _picked(members: Sequence[Node], graph: Graph, stats: RunStats) -> Picked | None:
    for node in members:
        op = node.op
        if isinstance(op, SparseAttention) and op.top_k and op.ratio:
            requests = [(new, (past + new) // op.ratio) for new, past in graph.step.requests]
            seeing = tuple(request for request in requests if request[1])
            if seeing:
                size = graph.regions[node.regions[1]].format.nbytes
                page = max(1, PAGE_TOKENS // op.ratio)
                return Picked(size, page, op.top_k, seeing, stats)
    return None


def _chosen(members: Sequence[Node], step: StepShape, stats: RunStats) -> Chosen | None:
    if stats.choices is None or not stats.choices.experts:
        return None
    products = [(n.op, n.types) for n in members if isinstance(n.op, ExpertUp | ExpertDown)]
    if not products:
        return None
    op, types = products[0]
    tokens, per_token = types.inputs[1].shape
    held = types.params[0].axes[0][1]
    alone = alone_tokens(step, tokens)
    touched, uniform = (
        each.expected_experts(op.experts, per_token, tokens, alone) for each in (stats, RunStats())
    )
    nbytes = sum(types.params[0].nbytes for _, types in products)
    return Chosen(nbytes // held, held, stats, touched / uniform)
