"""Statistics of a step's data whose answers about recorded numbers are recorded too."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from simulator.cost.recording import Number
from workloads.run_stats import RunStats


@dataclass(frozen=True, slots=True)
class _ExpectedExperts:
    """Experts that tokens touch, as an operation on the number of tokens."""

    stats: RunStats
    experts: int
    per_token: int

    def __call__(self, tokens: int, _: object) -> float:
        return self.stats.expected_experts(self.experts, self.per_token, tokens)


class RecordedStats(RunStats):
    """The same statistics, whatever arithmetic theirs is: each answer is one operation."""

    def expected_experts(self, experts: int, per_token: int, tokens: Any) -> Any:
        """Distinct experts that the tokens touch."""
        if not isinstance(tokens, Number):
            return super().expected_experts(experts, per_token, tokens)
        return tokens.recording.apply(_ExpectedExperts(self, experts, per_token), tokens)


def recorded_stats(stats: RunStats) -> RecordedStats:
    """Statistics that may be asked about recorded numbers."""
    return RecordedStats(**{field.name: getattr(stats, field.name) for field in fields(stats)})
