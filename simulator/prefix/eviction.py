"""Eviction policies: which of the evictable objects leaves a full pool first.

Of a prefix only the end can leave (a block without those before it is of no use), so a policy ranks
ends: the object of the lowest rank goes first, of equal ones the least recently used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.basis.errors import InputError, unknown_name


@dataclass(slots=True)
class Usage:
    """What a pool remembers of an object that it holds.

    `turn`, `stored_turn`: count of accesses to the pool at the last use and when it was stored.
    `used_s`: clock at the last use. `uses`: hits since it was stored. `children`: objects held that
    need this one. `rows`: the window rows of its tokens were computed with it.
    """

    turn: int
    stored_turn: int
    used_s: float
    uses: int = 0
    children: int = 0
    rows: bool = True

    def copy(self) -> Usage:
        """The same facts for a part that was split off."""
        return Usage(self.turn, self.stored_turn, self.used_s, self.uses, self.children, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """What an object costs: where it ends in its prompt (tokens), and its size and tokens."""

    end_token: int
    tokens: int
    nbytes: int


RecomputeCost = Callable[[ObjectFacts], float]


def tokens_before(facts: ObjectFacts) -> float:
    """Cost of computing an object again, in token pairs.

    Assumes: cost of recomputing cached tokens is linear in tokens plus tokens times context, with
    both terms equal at a context of 131,072 tokens, unless a cost model is given.
    """
    middle = facts.end_token - facts.tokens / 2
    return facts.tokens * (1 + middle / 131_072)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPolicy:
    """`rank(usage, facts)`: the lowest leaves first. `lifetime_s`: unused for longer is gone.

    `by_age`: the rank asks when an object was stored. `by_turn`: it is the turn of the last use.
    """

    name: str
    rank: Callable[[Usage, ObjectFacts], float]
    lifetime_s: float | None = None
    by_age: bool = False
    by_turn: bool = False

    def same(self, one: Usage, other: Usage) -> bool:
        """Whether two neighbours that were last used together will go on to rank alike.

        Write policies ask no more of the uses than whether there was one.
        """
        if one.rows != other.rows:
            return False
        if self.by_age and one.stored_turn != other.stored_turn:
            return False
        return one.used_s == other.used_s and bool(one.uses) == bool(other.uses)


def _lru(value: str | None, cost: RecomputeCost) -> EvictionPolicy:
    _no_value("lru", value)
    return EvictionPolicy(name="lru", rank=lambda usage, facts: usage.turn, by_turn=True)


def _fifo(value: str | None, cost: RecomputeCost) -> EvictionPolicy:
    _no_value("fifo", value)
    return EvictionPolicy(name="fifo", rank=lambda usage, facts: usage.stored_turn, by_age=True)


def _cost(value: str | None, cost: RecomputeCost) -> EvictionPolicy:
    """Cheapest to compute again per byte leaves first."""
    _no_value("cost", value)
    return EvictionPolicy(name="cost", rank=lambda usage, facts: cost(facts) / max(1, facts.nbytes))


def _ttl(value: str | None, cost: RecomputeCost) -> EvictionPolicy:
    """Gone when unused for longer than a time; least recently used where space is short."""
    try:
        lifetime_s = float(value or "")
    except ValueError:
        lifetime_s = 0.0
    if not 0 < lifetime_s < float("inf"):
        raise InputError(
            f"eviction policy 'ttl{'' if value is None else ':' + value}': ttl needs seconds above "
            "0, such as 'ttl:300'"
        )
    return EvictionPolicy(
        name=f"ttl:{value}",
        rank=lambda usage, facts: usage.turn,
        lifetime_s=lifetime_s,
        by_turn=True,
    )


def _no_value(name: str, value: str | None) -> None:
    if value is not None:
        raise InputError(f"eviction policy '{name}:{value}': {name} takes no value, write {name!r}")


EVICTION_POLICIES: dict[str, Callable[[str | None, RecomputeCost], EvictionPolicy]] = {
    "lru": _lru,
    "fifo": _fifo,
    "cost": _cost,
    "ttl": _ttl,
}


def parse_eviction(text: str, cost: RecomputeCost = tokens_before) -> EvictionPolicy:
    """Policy of a name such as `lru` or `ttl:300`; `InputError` with the nearest for a typo."""
    name, colon, value = text.strip().lower().partition(":")
    reader = EVICTION_POLICIES.get(name)
    if reader is None:
        raise InputError(unknown_name("eviction policy", name, EVICTION_POLICIES))
    return reader(value if colon else None, cost)
