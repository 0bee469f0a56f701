"""The smallest replay that is still exact, found by running, and the error of shorter ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulator.prove.difference import Difference
from simulator.prove.replay_pass import whole_spans
from simulator.prove.resume import Resumed, Resumption, Rule
from simulator.prove.stored_prefix import FoundPages
from simulator.prove.uncached import UncachedRun

FEWER_WINDOWS = (1, 2, 3, 4, 6)
"""Lengths of bounded replays that are tried, in windows, besides those at which it is exact."""


@dataclass(frozen=True, slots=True)
class SmallestReplay:
    """`tokens` of the smallest exact replay, None where n_win x L are not enough.

    `not_finite_below`: values that are not finite, of `values`, with one token fewer.
    """

    tokens: int | None
    not_finite_below: int
    values: int


@dataclass(frozen=True, slots=True)
class ReplaySearch:
    """For the first token after the boundary (tail included), and for every slot of the windows."""

    boundary: int
    first_token: SmallestReplay
    whole_window: SmallestReplay


@dataclass(frozen=True, slots=True)
class BoundedError:
    """Largest error of logits after a bounded replay, of the first token and of all that follow.

    `same_choices`: share of tokens whose likeliest successor is that of the uncached run.
    `same_window`: every slot of the windows equal.
    """

    tokens: int
    first_token: float
    all_tokens: float
    same_choices: float
    same_window: bool


class ReplayLengths:
    """Replays of any length behind one boundary, each run once."""

    def __init__(self, resumption: Resumption, pages: FoundPages, run: UncachedRun) -> None:
        self._resumption = resumption
        self._pages = pages
        self._run = run
        self._known: dict[int, Resumed] = {}
        self.geometry = resumption.geometry

    def search(self) -> ReplaySearch:
        """Bisect both lengths; a longer replay than an exact one is exact."""
        return ReplaySearch(
            boundary=self._pages.tokens,
            first_token=self._smallest(lambda resumed: resumed.logits),
            whole_window=self._smallest(lambda resumed: resumed.window),
        )

    def bounded_errors(self) -> Iterator[BoundedError]:
        """Errors of bounded replays up to the length that rebuilds every slot."""
        geometry = self.geometry
        lengths = {count * geometry.n_win for count in FEWER_WINDOWS}
        exact = geometry.first_token_tokens
        lengths = {tokens for tokens in lengths if tokens < exact}
        for tokens in sorted(lengths | {exact - 1, exact, geometry.tight_tokens}):
            resumed = self._run_again(tokens, bounded=True)
            yield BoundedError(
                tokens=tokens,
                first_token=resumed.first_token.largest,
                all_tokens=resumed.logits.largest,
                same_choices=resumed.same_choices,
                same_window=resumed.window.equal,
            )

    def _smallest(self, of: Callable[[Resumed], Difference]) -> SmallestReplay:
        low, high = -1, min(self.geometry.replay_tokens, self._pages.tokens)
        if not of(self._replay(high)).equal:
            found = of(self._replay(high))
            return SmallestReplay(None, found.not_finite, found.values)
        while high - low > 1:
            middle = (low + high) // 2
            exact = of(self._replay(middle)).equal
            low, high = (low, middle) if exact else (middle, high)

        below = of(self._replay(max(0, high - 1)))
        return SmallestReplay(high, below.not_finite, below.values)

    def _replay(self, tokens: int) -> Resumed:
        if tokens not in self._known:
            self._known[tokens] = self._run_again(tokens, bounded=False)
        return self._known[tokens]

    def _run_again(self, tokens: int, bounded: bool) -> Resumed:
        first = self._pages.tokens - tokens
        spans = whole_spans(self.geometry.layers, first)
        rule = Rule("replay", None, spans, first if bounded else 0)
        return self._resumption.by_rule(rule, self._pages, self._run)
