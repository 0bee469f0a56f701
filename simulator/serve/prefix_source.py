"""What a replica asks of a prefix cache, and the cache that has nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from simulator.serve.live_request import LiveRequest


@dataclass(frozen=True, slots=True)
class Served:
    """What a prefix cache gives a request: tokens that need no computing, and loading time.

    `shared_tokens`: of these, those that lie in device memory already, in pages of the cache.
    """

    hit_tokens: int = 0
    load_ns: int = 0
    shared_tokens: int = 0


class PrefixSource(Protocol):
    """A prefix cache as a replica uses it."""

    def find(self, request: LiveRequest, now_ns: int) -> Served:
        """What is there for a request that is admitted now."""

    def peek(self, request: LiveRequest) -> int:
        """Tokens that would be hit, without counting as a use."""

    def make_room(self, free_tokens: float) -> None:
        """Device memory that requests leave to the cache, in tokens of context."""

    def answered(self, request: LiveRequest, now_ns: int) -> None:
        """Keep the state of a prompt that has just been computed."""

    def store(self, request: LiveRequest, now_ns: int) -> None:
        """Keep the state of a request that has finished."""


class NoPrefixes:
    """No prefix cache."""

    def find(self, request: LiveRequest, now_ns: int) -> Served:
        """Nothing."""
        return Served()

    def peek(self, request: LiveRequest) -> int:
        """Nothing."""
        return 0

    def make_room(self, free_tokens: float) -> None:
        """Nothing is kept."""

    def answered(self, request: LiveRequest, now_ns: int) -> None:
        """Nothing is kept."""

    def store(self, request: LiveRequest, now_ns: int) -> None:
        """Nothing is kept."""
