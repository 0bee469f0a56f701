"""What the data decides and shapes do not: expert loads and top-k locality.

Recorded by the evaluator, or stated; a stated one is an `Assumes:` line of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, lgamma
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.step_shape import StepShape, is_in_prompt

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChoices:
    """Choices of a run, by layer: entries that queries picked, experts that tokens chose.

    `picks` [rows, k] are ids of the row's own request, -1 where there is none; `experts` [rows,
    slots]. `requests` [rows] says which request a row belongs to; rows of one request follow one
    another in its order. Equal by `digest`, which stands for the arrays.
    """

    digest: str
    picks: Mapping[str, Array] = field(compare=False, repr=False)
    experts: Mapping[str, Array] = field(compare=False, repr=False)
    requests: Array = field(compare=False, repr=False)

    def queries(self) -> Iterator[Array]:
        """Picks [queries, k] of each request of each layer, in order."""
        for picks in self.picks.values():
            for request in np.unique(self.requests):
                yield picks[self.requests == request]

    def overlap(self) -> float | None:
        """Share of its picks that a query has in common with the one before; None: no such pair."""
        shares = [
            len(np.intersect1d(before[before >= 0], after[after >= 0])) / (after >= 0).sum()
            for queries in self.queries()
            for before, after in pairwise(queries)
            if (after >= 0).any()
        ]
        return float(np.mean(shares)) if shares else None

    def distinct_experts(self, tokens: int) -> float:
        """Distinct experts that so many of the recorded tokens touch, averaged over layers.

        Of N tokens of which n chose an expert, t drawn at random miss it with chance
        C(N - n, t) / C(N, t).

        Assumes: tokens beyond the recorded ones touch no expert that those missed.
        """
        touched = []
        for ids in self.experts.values():
            count = len(ids)
            drawn = min(tokens, count)
            _, chosen = np.unique(ids, return_counts=True)
            sizes, experts = np.unique(chosen, return_counts=True)
            missed = [_missing(count, int(size), drawn) for size in sizes]
            touched.append(float((experts * (1.0 - np.array(missed))).sum()))
        return sum(touched) / len(touched)


def _missing(count: int, chosen: int, drawn: int) -> float:
    """Chance that none of `drawn` out of `count` is one of the `chosen`."""
    if drawn > count - chosen:
        return 0.0
    ways = lgamma(count - chosen + 1) - lgamma(count - chosen - drawn + 1)
    return exp(ways - lgamma(count + 1) + lgamma(count - drawn + 1))


# A further token of a request chooses as many new experts as so much of a token of another request:
# verifying four tokens touches 31 % fewer experts than four unrelated ones would.
# Source: Cohere, "Why MoE models get more from speculative decoding", 2026-04-21, measured on
# models of its own; the figure was read in summaries of it.
FOLLOWING = (4 * (1 - 0.31) - 1) / 3


def alone_tokens(step: StepShape, tokens: Any) -> Any:
    """Tokens of unrelated requests that touch as many experts as `tokens` of the step's kind."""
    return tokens * step.ordered_total(_alone) / step.tokens


def _alone(new: int, past: int) -> float:
    return float(new) if is_in_prompt(new, past) else 1.0 + FOLLOWING * (new - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStats:
    """Statistics of one step's data.

    Assumes: tokens of different requests, and of prompts, choose experts uniformly and
        independently, unless loads are recorded; of drafts that are verified together each further
        token touches 0.59 times as many new experts (measured on other models).
    Assumes: consecutive queries share 95 % of their top-k picks (adjacent decode steps measured
        so on a serving engine), unless recorded.
    """

    top_k_overlap: float = 0.95
    distinct_experts: float | None = None
    choices: RecordedChoices | None = None

    @classmethod
    def of(cls, choices: RecordedChoices) -> RunStats:
        """Statistics of recorded choices; what they leave open is stated."""
        overlap = choices.overlap()
        if overlap is None:
            return cls(choices=choices)
        return cls(top_k_overlap=overlap, choices=choices)

    @property
    def told(self) -> str:
        """What of the statistics is recorded, in words."""
        if self.choices is None:
            return "nothing recorded"
        picks, experts = len(self.choices.picks), len(self.choices.experts)
        known = "stated" if self.choices.overlap() is None else "recorded"
        return (
            f"layers with picks: {picks}, with experts: {experts}; consecutive queries share "
            f"{self.top_k_overlap:.1%} of their picks ({known})"
        )

    def expected_experts(
        self, experts: int, per_token: int, tokens: int, alone: float | None = None
    ) -> float:
        """Distinct experts that `tokens` tokens touch: E (1 - (1 - k/E)^alone), or recorded.

        `alone`: see `alone_tokens`; all of them where it is not given.
        """
        if self.distinct_experts is not None:
            return min(float(experts), self.distinct_experts)
        if self.choices is not None and self.choices.experts:
            return self.choices.distinct_experts(tokens)
        unrelated = tokens if alone is None else alone
        return experts * (1.0 - (1.0 - per_token / experts) ** unrelated)

    def distinct_picks(self, visible: int, picks: int, queries: int) -> float:
        """Distinct entries that `queries` consecutive queries of `picks` each touch.

        One query touches `picks`; each further one adds (1 - overlap) of its picks, of which the
        share not yet touched is new: visible (1 - (1 - p) (1 - (1 - overlap) p)^(queries - 1)) with
        p = picks/visible.
        """
        if visible == 0 or picks == 0 or queries == 0:
            return 0.0
        untouched = 1.0 - picks / visible
        renewed = (1.0 - self.top_k_overlap) * picks / visible
        return visible * (1.0 - untouched * (1.0 - renewed) ** (queries - 1))
