"""How an engine divides cache memory among its pools: the `sizing` part of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel
from simulator.engine.cited import Cited
from simulator.engine.entry_bytes import check_row_format

Whole = Annotated[int, Field(gt=0, le=2**31)]
Share = Annotated[float, Field(gt=0, le=1)]


class ExactSizing(Cited):
    """Every pool grows as its requests need: nothing is set aside in advance."""

    kind: Literal["exact"]

    def check_pools(self, pools: Mapping[Any, Any]) -> None:
        """Nothing to add up."""


class WindowSizing(Cited):
    """Pools of fixed size, the window's against the full tokens or against the requests.

    `ratio`: window slots are `window_ratio` x full tokens. `cap`: a fixed number for
    `max_requests`. `index_priced_as`: row format that the engine budgets for an index key,
    whatever it stores; absent where it budgets what it stores.
    """

    kind: Literal["ratio", "cap"]
    window_ratio: Share | None = None
    max_requests: Whole
    eviction_tokens: Whole = 128
    prefix_tails_per_request: Annotated[int, Field(ge=0)] = 4
    decode_tokens: Annotated[int, Field(ge=0)] = 0
    index_priced_as: str | None = None

    @model_validator(mode="after")
    def _check_ratio(self) -> Self:
        if (self.kind == "ratio") != (self.window_ratio is not None):
            raise KeyFaultError(
                ("window_ratio",), "window_ratio belongs to sizing by ratio, and only there"
            )
        check_row_format(("index_priced_as",), self.index_priced_as)
        for name in ("eviction_tokens", "prefix_tails_per_request", "decode_tokens"):
            if self.kind == "ratio" and name in self.model_fields_set:
                raise KeyFaultError((name,), f"{name} belongs to sizing by cap, and only there")
        return self

    def check_pools(self, pools: Mapping[Any, Any]) -> None:
        """Window slots are paged, and the compressor's rows go with them or with the request."""
        for name, rule in pools.items():
            if rule.lives == "context":
                continue
            allowed = ("sliding",) if name == "window" else ("window_page", "request")
            if rule.lives not in allowed:
                raise KeyFaultError(
                    ("pools", name, "lives"),
                    f"pool {name} lives by {rule.lives!r}, which sizing by {self.kind} has no "
                    f"memory for; expected {' or '.join(map(repr, allowed))}",
                )


class BlockGroup(StrictModel):
    """Pools whose pages share a block; `split` spreads their layers over so many groups."""

    name: Annotated[str, Field(min_length=1)]
    pools: Annotated[tuple[str, ...], Field(min_length=1)]
    split: Annotated[int, Field(gt=0, le=1024)] = 1


class BlockSizing(Cited):
    """One block size charged to every group.

    With `largest` it is the bytes of the largest group; with `buckets` every block has a page of
    each bucket for each of as many layers as the largest group has of one pool.
    """

    kind: Literal["blocks"]
    block_bytes: Literal["largest", "buckets"]
    groups: Annotated[tuple[BlockGroup, ...], Field(min_length=1)]
    buckets: tuple[tuple[str, ...], ...] = ()

    @model_validator(mode="after")
    def _check_buckets(self) -> Self:
        if (self.block_bytes == "buckets") != bool(self.buckets):
            raise KeyFaultError(("buckets",), "buckets belong to block_bytes: buckets, only there")
        return self

    def check_pools(self, pools: Mapping[Any, Any]) -> None:
        """Every pool is in one group (and in one bucket), and nothing else is."""
        known = list(pools)
        named = [("groups", [p for group in self.groups for p in group.pools])]
        if self.buckets:
            named.append(("buckets", [p for bucket in self.buckets for p in bucket]))
        for what, given in named:
            twice = sorted({name for name in given if given.count(name) > 1})
            missing = [name for name in known if name not in given]
            unknown = [name for name in given if name not in known]
            faults = [
                f"{', '.join(names)} {problem}"
                for names, problem in (
                    (missing, "in none"),
                    (twice, "in more than one"),
                    (unknown, "not a pool"),
                )
                if names
            ]
            if faults:
                raise KeyFaultError(
                    ("sizing", what),
                    f"{what} do not add up to the {len(known)} pools: {'; '.join(faults)}",
                )


SizingRule = Annotated[ExactSizing | WindowSizing | BlockSizing, Field(discriminator="kind")]
