"""What a synthetic trace is drawn from: sessions, turns, contexts, waits, sub-agents, arrivals."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from simulator.basis.errors import InputError, unknown_name

ARRIVALS = ("poisson", "gamma", "weibull")
MOST_REQUESTS = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthSpec:
    """Parameters of a synthetic trace; lengths in tokens, means over all requests or sessions.

    `requests`: in all, sub-agents included (None: sessions x turns_mean). `input_mean`: of all
    requests. `last_input_mean`: of the last main request of every session (None: contexts grow by
    replies alone). `input_cv`: between sessions, of first inputs and of growth. `groups`: sessions
    of a group share their system prompt, 0 for none shared. `rate_per_s`: session starts (None: all
    at 0). `subagent_share`: of the requests. `rewrite_share`: turns that rewrite the last block
    before them.
    """

    sessions: int
    turns_mean: float
    input_mean: float
    last_input_mean: float | None = None
    requests: int | None = None
    turns_cv: float = 0.8
    input_cv: float = 0.4
    output_mean: float = 400.0
    output_cv: float = 1.0
    system_tokens: int = 1000
    groups: int = 0
    wait_mean_s: float = 12.0
    wait_cv: float = 2.0
    rate_per_s: float | None = None
    arrival: str = "poisson"
    arrival_cv: float = 1.0
    subagent_share: float = 0.0
    subagent_turns: float = 8.0
    subagent_input: float = 15_000.0
    rewrite_share: float = 0.0
    block_tokens: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        _within(self, 1, 10_000_000, "sessions", "requests", "turns_mean", "subagent_turns")
        _within(self, 1, 1e8, "input_mean", "last_input_mean", "output_mean", "subagent_input")
        _within(self, 0.01, 30, "turns_cv", "input_cv", "output_cv", "wait_cv", "arrival_cv")
        _within(self, 0, 1e8, "system_tokens", "groups", "wait_mean_s")
        _within(self, 1e-6, 1e6, "rate_per_s")
        _within(self, 0, 0.95, "subagent_share", "rewrite_share")
        _within(self, 1, 1 << 20, "block_tokens")
        _within(self, 0, 2**63, "seed")
        if self.arrival not in ARRIVALS:
            raise InputError(unknown_name("arrival", self.arrival, ARRIVALS))
        if self.total > MOST_REQUESTS:
            raise InputError(f"{self.total:,} requests, over the limit of {MOST_REQUESTS:,}")
        main = self.total - self.subagent_requests
        if main < self.sessions:
            raise InputError(
                f"{main:,} main requests for {self.sessions:,} sessions, {self.sessions - main:,} "
                "short of one each; ask for more requests or turns, or fewer sessions"
            )

    @property
    def total(self) -> int:
        """Requests in all."""
        return self.requests or round(self.sessions * self.turns_mean)

    @property
    def subagent_requests(self) -> int:
        """Requests of sub-agents."""
        return round(self.total * self.subagent_share)


# Shapes to start from; agent contexts after the agentic traces' (tens of turns, 0.1 M tokens).
KINDS: dict[str, dict[str, Any]] = {
    "agent": {
        "sessions": 100, "turns_mean": 40.0, "input_mean": 90_000.0, "last_input_mean": 140_000.0,
        "system_tokens": 15_000,
    },
    "chat": {
        "sessions": 1000, "turns_mean": 5.0, "input_mean": 4000.0, "last_input_mean": 5500.0,
        "system_tokens": 800, "groups": 8, "wait_mean_s": 60.0, "wait_cv": 1.0, "rate_per_s": 1.0,
        "output_mean": 350.0,
    },
    "single": {
        "sessions": 5000, "turns_mean": 1.0, "input_mean": 2000.0, "input_cv": 1.0,
        "system_tokens": 800, "groups": 8, "rate_per_s": 10.0, "output_mean": 300.0,
    },
}  # fmt: skip


def synth_spec(kind: str, **given: Any) -> SynthSpec:
    """A kind's parameters with those given (not None) in their place."""
    if kind not in KINDS:
        raise InputError(unknown_name("kind", kind, KINDS))
    chosen = {name: value for name, value in given.items() if value is not None}
    unknown = set(chosen) - {field.name for field in fields(SynthSpec)}
    if unknown:
        raise InputError(
            unknown_name("parameter", min(unknown), [f.name for f in fields(SynthSpec)])
        )
    return SynthSpec(**{**KINDS[kind], **chosen})


def _within(spec: SynthSpec, least: float, most: float, *names: str) -> None:
    for name in names:
        value = getattr(spec, name)
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            raise InputError(f"{name} is {value:,}, expected {least:,} to {most:,}")
