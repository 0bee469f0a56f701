"""What the data decides and shapes do not: expert loads and top-k locality.

Recorded by the evaluator, or stated; a stated one is an `Assumes:` line of the result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStats:
    """Statistics of one step's data.

    Assumes: tokens choose experts uniformly and independently, unless loads are recorded.
    Assumes: consecutive queries share 95 % of their top-k picks (adjacent decode steps measured
        so on a serving engine), unless recorded.
    """

    top_k_overlap: float = 0.95
    distinct_experts: float | None = None

    def expected_experts(self, experts: int, per_token: int, tokens: int) -> float:
        """Distinct experts that `tokens` tokens touch: E (1 - (1 - k/E)^tokens)."""
        if self.distinct_experts is not None:
            return min(float(experts), self.distinct_experts)
        return experts * (1.0 - (1.0 - per_token / experts) ** tokens)

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
