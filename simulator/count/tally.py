"""What is counted: a frozen record that adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workloads.work import FLOP_WEIGHTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Demand of one node, or the sum of many.

    `flops` by math class, two a multiply-add. `weight_bytes` are those that the step reads, so of
    the experts only the touched ones; `activation_bytes` dense inputs and outputs of every node;
    `cache_read_bytes` distinct entries. `parameters` and `parameter_bytes` are those held, each
    counted with the first node that uses it; `state_bytes` the resident cache state after the step.
    """

    flops: Mapping[str, int] = field(default_factory=dict)
    vector_ops: int = 0
    special_ops: int = 0
    weight_bytes: int = 0
    activation_bytes: int = 0
    cache_read_bytes: int = 0
    cache_write_bytes: int = 0
    link_bytes: int = 0
    parameters: int = 0
    parameter_bytes: int = 0
    state_bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Sum, field by field."""
        flops = dict(self.flops)
        for math, count in other.flops.items():
            flops[math] = flops.get(math, 0) + count
        return Tally(
            flops=flops,
            vector_ops=self.vector_ops + other.vector_ops,
            special_ops=self.special_ops + other.special_ops,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            activation_bytes=self.activation_bytes + other.activation_bytes,
            cache_read_bytes=self.cache_read_bytes + other.cache_read_bytes,
            cache_write_bytes=self.cache_write_bytes + other.cache_write_bytes,
            link_bytes=self.link_bytes + other.link_bytes,
            parameters=self.parameters + other.parameters,
            parameter_bytes=self.parameter_bytes + other.parameter_bytes,
            state_bytes=self.state_bytes + other.state_bytes,
        )

    @property
    def total_flops(self) -> int:
        """FLOP of every math class, unweighted."""
        return sum(self.flops.values())

    @property
    def weighted_flops(self) -> float:
        """FP8-equivalent FLOP: the weighting of the published ratios."""
        return sum(FLOP_WEIGHTS[math] * count for math, count in self.flops.items())

    @property
    def moved_bytes(self) -> int:
        """Weights, activations and cache entries, with no fusion and no cache on the chip."""
        return (
            self.weight_bytes
            + self.activation_bytes
            + self.cache_read_bytes
            + self.cache_write_bytes
        )


def total(tallies: Iterable[Tally]) -> Tally:
    """Sum of many."""
    result = Tally()
    for tally in tallies:
        result = result + tally
    return result
