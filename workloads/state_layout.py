"""The model's cache regions and how each grows: the logical side of the cache.

A region belongs to one layer. `Every(m)` holds one entry per m tokens, append-only; `Ring(w)` the
last w tokens; `Tail(r)` the compressor's last r rows. Entry formats give the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.entry_format import EntryFormat


@dataclass(frozen=True, slots=True)
class Every:
    """One entry per `tokens` tokens, kept for the whole context."""

    tokens: int

    def entries(self, context: int) -> int:
        """Entries that a request of `context` tokens holds."""
        return context // self.tokens

    def resident(self, context: int) -> int:
        """Entries allocated for a request, without paging."""
        return self.entries(context)


@dataclass(frozen=True, slots=True)
class Ring:
    """The last `tokens` tokens, overwritten in place."""

    tokens: int

    def entries(self, context: int) -> int:
        """Rows that hold something."""
        return min(context, self.tokens)

    def resident(self, context: int) -> int:
        """Rows allocated for a request: all of them, always."""
        return self.tokens


@dataclass(frozen=True, slots=True)
class Sliding(Ring):
    """The last `tokens` tokens in pages of a table of their own, returned once out of reach.

    A step writes all of its rows before they are read, and reads nothing but the pool.
    """


@dataclass(frozen=True, slots=True)
class Tail(Ring):
    """Compressor rows not yet folded into an entry (with the previous block where it overlaps)."""


Growth = Every | Ring | Sliding | Tail


@dataclass(frozen=True, slots=True)
class Region:
    """A cache region of one layer.

    `pool` is what equal regions of all layers make up, by kind and ratio: window, c4, c4_index,
    c4_state, c4_index_state, c128, c128_state. `kind` is the same without the ratio, under which
    engines say how they keep it: window, csa, csa_index, csa_state, csa_index_state, hca,
    hca_state. `name` tells the layer as well.
    """

    pool: str
    kind: str
    growth: Growth
    format: EntryFormat
    name: str = ""

    def resident_bytes(self, context: int) -> int:
        """Bytes that a request of `context` tokens holds, without paging or padding."""
        return self.growth.resident(context) * self.format.nbytes


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of one request at a context, by pool: held whatever the context, and grown with it."""

    per_request: dict[str, int]
    per_token: dict[str, int]

    @property
    def nbytes(self) -> int:
        """All of them."""
        return sum(self.per_request.values()) + sum(self.per_token.values())


@dataclass(frozen=True, slots=True)
class StateLayout:
    """All cache regions of a model."""

    regions: tuple[Region, ...]

    def terms(self, context: int) -> StateBytes:
        """Bytes of one request at a context, split: rings and tails, and compressed entries."""
        parts: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for region in self.regions:
            part = parts[isinstance(region.growth, Every)]
            part[region.pool] = part.get(region.pool, 0) + region.resident_bytes(context)
        return StateBytes(*parts)

    def nbytes(self, context: int) -> int:
        """Bytes of one request at a context."""
        return sum(region.resident_bytes(context) for region in self.regions)

    def by_pool(self, context: int) -> dict[str, int]:
        """Bytes of one request at a context, by pool."""
        pools: dict[str, int] = {}
        for region in self.regions:
            pools[region.pool] = pools.get(region.pool, 0) + region.resident_bytes(context)
        return pools

    @property
    def fixed_bytes(self) -> int:
        """Bytes that a request holds whatever its context."""
        return sum(r.resident_bytes(0) for r in self.regions if not isinstance(r.growth, Every))

    @property
    def growth_bytes_per_token(self) -> float:
        """Bytes that each further token adds, on average."""
        return sum(
            r.format.nbytes / r.growth.tokens for r in self.regions if isinstance(r.growth, Every)
        )
