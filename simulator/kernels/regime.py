"""Regimes of a kernel family: kinds of calls whose errors are alike, each with its own quantiles.

A family is not off by the same amount everywhere: calls of a few microseconds wait for launches,
long ones for memory or multiply-adds, and each of these is modelled more or less well. Regimes are
read in order and the first that takes a call counts; the last takes all that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.basis.yaml_loader import StrictModel


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides the regime of a call; None where it is not known or has no meaning.

    `seconds` as predicted, `cause` the largest part of them; `tokens` and `requests` of the step.
    """

    seconds: float | None = None
    cause: str | None = None
    decode: bool | None = None
    tokens: float | None = None
    requests: float | None = None


class Regime(StrictModel):
    """Quantiles of the logarithm of predicted over measured, of calls that meet all conditions.

    `rows` are those that the quantiles were taken of, each under constants not fitted to it.
    """

    cause: str | None = None
    decode: bool | None = None
    seconds_below: float | None = None
    tokens_below: float | None = None
    requests_below: float | None = None
    log_error_p10: float
    log_error_p90: float
    rows: int

    def takes(self, call: Situation) -> bool:
        """Whether a call is of this regime; what is not known of a call meets no condition."""
        return (
            (self.cause is None or call.cause == self.cause)
            and (self.decode is None or call.decode == self.decode)
            and _below(call.seconds, self.seconds_below)
            and _below(call.tokens, self.tokens_below)
            and _below(call.requests, self.requests_below)
        )

    @property
    def conditions(self) -> str:
        """The conditions in words; empty for the regime that takes all that are left."""
        words = [self.cause] if self.cause else []
        if self.decode is not None:
            words.append("decode" if self.decode else "prefill")
        if self.seconds_below is not None:
            words.append(f"below {self.seconds_below * 1e6:.3g} us")
        if self.tokens_below is not None:
            words.append(f"below {self.tokens_below:,.0f} tokens")
        if self.requests_below is not None:
            words.append(f"below {self.requests_below:,.0f} requests")
        return ", ".join(words)


def _below(value: float | None, limit: float | None) -> bool:
    return limit is None or (value is not None and value < limit)


def regime_of(regimes: Sequence[Regime], call: Situation) -> Regime:
    """The first regime that takes a call; the last where none does."""
    return next((regime for regime in regimes if regime.takes(call)), regimes[-1])
