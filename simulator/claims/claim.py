"""A published figure beside ours, and a published statement beside the right value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulator.basis.yaml_loader import StrictModel, load_yaml

_HERE = Path(__file__).parent
Kind = Literal["computed", "executed", "simulated", "not yet"]


class Claim(StrictModel):
    """A published figure; `tolerance` is the largest relative difference that counts as met."""

    number: int
    quantity: str
    values: tuple[int | float, ...]
    unit: str
    tolerance: float
    kind: Kind
    source: str


class ClaimFile(StrictModel):
    """All published figures."""

    claims: tuple[Claim, ...]


class Statement(StrictModel):
    """A statement that is wrong or incomplete; `right` has places for computed values."""

    key: str
    statement: str
    right: str
    verdict: Literal["wrong", "needs a footnote"]


class StatementFile(StrictModel):
    """All such statements."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """A claim with our values; `ours` is None where the models it needs do not exist yet."""

    claim: Claim
    ours: tuple[float, ...] | None

    @property
    def difference(self) -> float | None:
        """Largest relative difference; absolute where the published value is zero."""
        if self.ours is None:
            return None
        return max(
            abs(o - p) / (abs(p) or 1.0) for o, p in zip(self.ours, self.claim.values, strict=True)
        )

    @property
    def verdict(self) -> str:
        """`met`, `differs` or `not yet`."""
        if self.difference is None:
            return "not yet"
        return "met" if self.difference <= self.claim.tolerance else "differs"


def published_claims() -> tuple[Claim, ...]:
    """The published figures, in order."""
    return load_yaml(_HERE / "claims.yaml", ClaimFile).claims


def evaluate_claims() -> Iterator[ClaimResult]:
    """Every claim with ours, as they are computed."""
    from simulator.claims.figures import FIGURES

    for claim in published_claims():
        figure = None if claim.kind == "not yet" else FIGURES[claim.number]
        yield ClaimResult(claim=claim, ours=None if figure is None else tuple(figure()))


def corrected_statements() -> Iterator[tuple[Statement, str]]:
    """Every statement with the right value filled in."""
    from simulator.claims.corrections import CORRECTIONS

    for statement in load_yaml(_HERE / "statements.yaml", StatementFile).statements:
        values = CORRECTIONS[statement.key]() if statement.key in CORRECTIONS else []
        yield statement, statement.right.format(*values)
