"""How many requests a budget of cache memory holds, and which term binds."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.capacity.request_pages import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One bound on concurrent requests; `about` says what it is, in words and numbers."""

    name: str
    requests: float
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Answer for one budget.

    `charges`: what one request holds; `reserved`: memory set aside whatever is served.
    `fixed_bytes` a request and `bytes_per_token` sum up the charges: alpha + beta x context.
    `tokens`: most tokens of context that the pools hold at once at this context length.
    """

    budget_bytes: int
    charges: tuple[Charge, ...]
    reserved: tuple[Charge, ...]
    limits: tuple[Limit, ...]
    fixed_bytes: int
    bytes_per_token: float
    tokens: int

    @property
    def binding(self) -> Limit:
        """The limit that binds."""
        return min(self.limits, key=lambda limit: limit.requests)

    @property
    def requests(self) -> float:
        """Concurrent requests, as engines state it: whole ones run, the rest is room left."""
        return max(0.0, self.binding.requests)

    @property
    def request_bytes(self) -> int:
        """Bytes that one request holds."""
        return sum(charge.nbytes for charge in self.charges)

    @property
    def reserved_bytes(self) -> int:
        """Bytes set aside."""
        return sum(charge.nbytes for charge in self.reserved)
