"""How a model is spread over ranks: tensor, attention-data and expert degrees.

Rank r has tensor index r % tensor and data index r // tensor; ranks = tensor x data. Routed experts
are spread over all ranks: `expert` groups of ranks hold different experts, and the ranks of one
group split each expert's inner axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.errors import InputError


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """Degrees of each kind of parallelism."""

    tensor: int = 1
    data: int = 1
    expert: int = 1

    def __post_init__(self) -> None:
        for name in ("tensor", "data", "expert"):
            degree = getattr(self, name)
            if degree < 1:
                raise InputError(f"{name}-parallel degree must be at least 1, but got {degree}")
        if self.ranks % self.expert:
            raise InputError(
                f"expert-parallel degree {self.expert} does not divide the {self.ranks} ranks "
                f"(tensor {self.tensor} x data {self.data}); try {_divisors(self.ranks)}"
            )

    @property
    def ranks(self) -> int:
        """Chips in all."""
        return self.tensor * self.data

    @property
    def expert_tensor(self) -> int:
        """Ranks that split one expert's inner axis."""
        return self.ranks // self.expert

    def divisors(self) -> dict[str, int]:
        """Sharded axes and the number of parts of each."""
        return {
            "heads": self.tensor,
            "groups": self.tensor,
            "shared_ffn": self.tensor,
            "vocab": self.tensor,
            "experts": self.expert,
            "ffn": self.expert_tensor,
        }

    def rank_parts(self, rank: int) -> dict[str, int]:
        """The part of each sharded axis that a rank holds."""
        tensor = rank % self.tensor
        return {
            "heads": tensor,
            "groups": tensor,
            "shared_ffn": tensor,
            "vocab": tensor,
            "experts": rank // self.expert_tensor,
            "ffn": rank % self.expert_tensor,
        }

    def tensor_group(self, rank: int) -> range:
        """Ranks with the same data index."""
        start = rank // self.tensor * self.tensor
        return range(start, start + self.tensor)

    def data_group(self, rank: int) -> range:
        """Ranks with the same tensor index."""
        return range(rank % self.tensor, self.ranks, self.tensor)

    def __str__(self) -> str:
        return f"tp{self.tensor} dp{self.data} ep{self.expert}"


def _divisors(n: int) -> str:
    return ", ".join(str(d) for d in range(1, n + 1) if n % d == 0)
