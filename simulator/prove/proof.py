"""Proof of window policies on one model: store by the rule, wipe, restore, resume, compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.cache.block_store import BlockStore
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import WindowPolicy, parse_window_policies
from simulator.prove.cached_state import CachedState, Kind
from simulator.prove.replay_count import OVERLAP_ROWS, count_first_token, count_whole_window
from simulator.prove.replay_search import BoundedError, ReplayLengths, ReplaySearch
from simulator.prove.resume import Resumed, Resumption
from simulator.prove.stored_prefix import PAGE_TOKENS, StoredPrefix
from simulator.prove.uncached import UncachedRun
from workloads.deepseek_v4.config import ModelConfig

NEW_TOKENS = 98
SEARCH_NEW_TOKENS = 8
OFF_TOKENS = 37
"""Tokens of a cut behind the last whole page."""

Advance = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of the stored prompt with its reply, and where resumed requests leave it."""

    prompt: int
    total: int
    cuts: tuple[int, ...]
    search_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProof:
    """One policy: every resumption, bytes written once and read over all of them, by kind.

    `file_bytes` is what its block files take on the disk.
    """

    policy: str
    exact: bool
    resumed: tuple[Resumed, ...]
    written_bytes: dict[Kind, int]
    read_bytes: dict[Kind, int]
    file_bytes: int
    damaged: dict[str, str]

    @property
    def holds(self) -> bool:
        """Every resumption equals the uncached run, or the policy never claimed so."""
        return not self.exact or all(resumed.equal for resumed in self.resumed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProof:
    """All policies of one model, the smallest exact replays, the errors of bounded ones."""

    model: str
    geometry: WindowGeometry
    ratios: tuple[int, ...]
    lengths: Lengths
    policies: tuple[PolicyProof, ...]
    search: ReplaySearch
    bounded: tuple[BoundedError, ...]

    @property
    def counts_hold(self) -> bool:
        """Smallest replays are the counted ones, and one token fewer gives NaN.

        A window of 4 tokens or fewer is left to the first token: overlap rows reach further back
        than it does, and an entry that lacks them is passed over by the top-k, not read as NaN.
        """
        window, found = self.geometry.n_win, self.search
        if found.first_token.tokens != count_first_token(window, self.ratios).tokens:
            return False
        return window <= OVERLAP_ROWS or (
            found.whole_window.tokens == count_whole_window(window, self.ratios).tokens
            and found.first_token.not_finite_below > 0
            and found.whole_window.not_finite_below > 0
        )

    @property
    def holds(self) -> bool:
        """Every claim of the proof."""
        return self.counts_hold and all(policy.holds for policy in self.policies)


def plan_lengths(config: ModelConfig, cuts: Sequence[int] = ()) -> Lengths:
    """A prompt that ends off a page behind a prefix longer than n_win x L, and a reply.

    Default cuts: a prefix shorter than the replay, one at a page's end, one where the prompt ends,
    one where the reply ends.
    """
    replay = WindowGeometry.of_model(config).replay_tokens
    page = max(2 * PAGE_TOKENS, -(-(replay + 1) // PAGE_TOKENS) * PAGE_TOKENS)
    prompt, reply = page + OFF_TOKENS, page + PAGE_TOKENS + OFF_TOKENS + 13
    for cut in cuts:
        if cut < 1:
            raise InputError(f"a prefix is cut after 1 token or more, but got {cut}")
    chosen = tuple(cuts) or (PAGE_TOKENS + 2 * OFF_TOKENS, page, prompt, reply)
    total = max(reply, *chosen)
    if total + NEW_TOKENS > config.max_position_embeddings:
        raise InputError(
            f"{config.name} takes {config.max_position_embeddings:,} tokens, and this proof needs "
            f"{total + NEW_TOKENS:,}; give a shorter prefix or a model of fewer layers"
        )
    return Lengths(prompt=prompt, total=total, cuts=chosen, search_cut=prompt)


class Prover:
    """Proves policies on one model with random weights, with blocks below `folder`."""

    def __init__(self, config: ModelConfig, folder: Path, lengths: Lengths, seed: int = 7) -> None:
        self.config = config
        self.folder = folder
        self.lengths = lengths
        self._rng = np.random.default_rng(seed)
        longest = lengths.total + NEW_TOKENS
        pages = 2 * -(-longest // PAGE_TOKENS)
        order = [int(page) for page in self._rng.permutation(pages)]
        table = RequestTable(2, longest, page_tokens=PAGE_TOKENS, pages=pages, page_order=order)
        weights = random_weights(config.model_dump(), self._rng)
        self.evaluator = Evaluator(config, weights, table, all_logits=True)
        self.state = CachedState(self.evaluator)
        self.resumption = Resumption(self.evaluator)
        self.tokens = self._random_tokens(lengths.total)

    def prove(self, policies: Sequence[WindowPolicy], advance: Advance) -> ModelProof:
        """Run everything; `advance` is called once for each of `steps_of` steps."""
        for policy in policies:
            self.resumption.check(policy)
        stored = [self._stored(policy) for policy in policies]
        advance("prefill")
        self.prefill(stored)
        resumed: list[list[Resumed]] = [[] for _ in stored]
        for cut in self.lengths.cuts:
            run = self.uncached(cut)
            for results, one in zip(resumed, stored, strict=True):
                advance(f"{one.policy.name}, cut after {cut} tokens")
                results.append(self.resumption.by_policy(one, run))
        proofs = tuple(map(_policy_proof, stored, resumed))
        advance("smallest exact replay")
        lengths = self.replay_lengths(stored[0])
        search = lengths.search()
        advance("bounded replay")
        return ModelProof(
            model=self.config.name,
            geometry=self.resumption.geometry,
            ratios=self.config.layer_ratios,
            lengths=self.lengths,
            policies=proofs,
            search=search,
            bounded=tuple(lengths.bounded_errors()),
        )

    def prefill(self, stored: Sequence[StoredPrefix]) -> None:
        """Run prompt and reply in row 0 and let every policy store what it keeps."""
        stops = {self.lengths.total}.union(*(one.stops() for one in stored)) - {0}
        row, before = self.evaluator.table.admit(0), 0
        for at in sorted(stops):
            self.evaluator.step([(row, self.tokens[before:at])])
            for one in stored:
                one.visit(row, before, at)
            before = at
        for one in stored:
            one.finish(row)
        self.evaluator.table.release(row)
        self.state.wipe()

    def uncached(self, cut: int, new_tokens: int = NEW_TOKENS) -> UncachedRun:
        """A request that shares the first `cut` tokens and goes on with others."""
        new = self._random_tokens(new_tokens)
        return UncachedRun(self.evaluator, np.concatenate([self.tokens[:cut], new]), cut)

    def replay_lengths(self, stored: StoredPrefix) -> ReplayLengths:
        """Replays of any length behind the cut for the search."""
        run = self.uncached(self.lengths.search_cut, SEARCH_NEW_TOKENS)
        pages = stored.pages(run.tokens[: run.cut])
        return ReplayLengths(self.resumption, pages, run)

    def _stored(self, policy: WindowPolicy) -> StoredPrefix:
        name = policy.name.replace(":", "-").replace("+", "_")
        store = BlockStore(self.folder / self.config.name / name)
        return StoredPrefix(policy, store, self.state, self.tokens, self.lengths.prompt)

    def _random_tokens(self, count: int) -> NDArray[np.int64]:
        return self._rng.integers(0, self.config.vocab_size, count)


def default_policies(config: ModelConfig) -> list[WindowPolicy]:
    """One of every kind; the period divides neither a page nor a block of compressed tokens."""
    stored = "full,periodic:90,boundary,periodic:90+boundary"
    return parse_window_policies(f"{stored},zero,zero:trimmed,bounded:{config.sliding_window}")


def steps_of(lengths: Lengths, policies: int) -> int:
    """Calls of `advance` in one proof."""
    return 3 + len(lengths.cuts) * policies


def _policy_proof(stored: StoredPrefix, resumed: Sequence[Resumed]) -> PolicyProof:
    return PolicyProof(
        policy=stored.policy.name,
        exact=stored.policy.exact,
        resumed=tuple(resumed),
        written_bytes=dict(stored.written.by_kind),
        read_bytes=dict(stored.read.by_kind),
        file_bytes=stored.store.nbytes,
        damaged=dict(stored.store.damaged),
    )
