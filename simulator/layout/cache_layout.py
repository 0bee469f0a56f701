"""The layout section of an engine profile: pools, pages, padding and how they are sized.

Seven pools make up V4's cache state (`POOLS`). A pool's rows live in one of four ways:

| lives | rows are kept | a page holds |
|---|---|---|
| `context` | for the whole context | one row per `ratio` tokens of `page_tokens` tokens |
| `sliding` | while in reach of the window; whole pages are freed behind it | `page_tokens` rows |
| `window_page` | as long as the window page they go with | `rows` rows a window page |
| `request` | as long as the request | `rows` rows a request |
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel
from simulator.layout.cited import Cited
from simulator.layout.entry_bytes import check_row_format
from simulator.layout.sizing_rules import SizingRule

Whole = Annotated[int, Field(gt=0, le=2**31)]
PoolName = Literal["window", "c4", "c4_index", "c4_state", "c4_index_state", "c128", "c128_state"]
POOLS: tuple[PoolName, ...] = (
    "window",
    "c4",
    "c4_index",
    "c128",
    "c4_state",
    "c4_index_state",
    "c128_state",
)
RATIO_OF_POOL = {"c4": 4, "c4_index": 4, "c128": 128}
Lives = Literal["context", "sliding", "window_page", "request"]


class PoolRule(Cited):
    """How one pool is kept. `draft_rows`: rows a page or request with speculative decoding.

    `duplicate` names a row format in which the pool is allocated a second time.
    """

    lives: Lives
    page_tokens: Whole | None = None
    rows: Whole | None = None
    draft_rows: Whole | None = None
    align_bytes: Whole = 1
    duplicate: str | None = None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        paged = self.lives in ("context", "sliding")
        given, other = ("page_tokens", "rows") if paged else ("rows", "page_tokens")
        if getattr(self, given) is None:
            raise KeyFaultError((given,), f"a pool that lives by {self.lives} needs {given!r}")
        if getattr(self, other) is not None:
            raise KeyFaultError(
                (other,), f"a pool that lives by {self.lives} is sized by {given!r}, not {other!r}"
            )
        if self.draft_rows is not None and self.rows is None:
            raise KeyFaultError(("draft_rows",), "draft_rows belongs to pools sized by rows")
        if self.draft_rows is not None and self.draft_rows < (self.rows or 0):
            raise KeyFaultError(
                ("draft_rows",),
                f"{self.draft_rows} rows with speculative decoding, but {self.rows} without; "
                f"expected at least {self.rows}",
            )
        check_row_format(("duplicate",), self.duplicate)
        return self


class ChipNeed(Cited):
    """What a chip must be for an engine or a row format; `nearest` says what to take instead.

    `not_on`: vendors whose chips it does not run on; `multiplies`: a type that the matrix units
    must take.
    """

    not_on: tuple[str, ...] = ()
    multiplies: str | None = None
    nearest: Annotated[str, Field(min_length=1)]


class PrefixLoads(Cited):
    """How stored prefixes come back: `by_layer` says that layers compute while later ones load."""

    by_layer: bool


class StoredFormats(StrictModel):
    """Row formats by the precision asked for; the first is the engine's default.

    `needs`: row formats of index keys that not every chip takes.
    """

    kv: Annotated[dict[str, str], Field(min_length=1)]
    index: Annotated[dict[str, str], Field(min_length=1)]
    state: str = "state_fp32"
    needs: dict[str, ChipNeed] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for what, stored in (("kv", self.kv), ("index", self.index)):
            for precision, name in stored.items():
                check_row_format((what, precision), name)
        check_row_format(("state",), self.state)
        for name in self.needs:
            if name not in self.index.values():
                known = ", ".join(self.index.values())
                raise KeyFaultError(
                    ("needs", name), f"{name!r} stores no index key here; those are {known}"
                )
        return self


class Retention(Cited):
    """Which window pages outlive their request, for later prefix hits.

    `dense`: a window at every page boundary; `boundaries`: at ends of prompts and replies, and
    where prefixes part; `window-lru`: those written, until the window pool needs room.
    """

    keeps: Literal["dense", "boundaries", "window-lru"]


class MemoryShare(Cited):
    """Share of device memory that the engine may use for weights, workspace and cache."""

    share: Annotated[float, Field(gt=0, le=1)]


class CacheLayout(Cited):
    """What an engine stores, and how it divides memory.

    `page_tokens`: tokens of a logical page, which the scheduler and the page table count in;
    `hit_tokens`: a prefix hit is a multiple of it. `context_parallel`: ranks may share the entries
    of a request, each holding a part of them. `chip`: what it runs on (absent: any). `loads`:
    how prefixes are loaded from lower tiers (absent: layer by layer).
    """

    page_tokens: Whole
    hit_tokens: Whole
    retention: Retention
    memory: MemoryShare
    context_parallel: bool = False
    chip: ChipNeed | None = None
    loads: PrefixLoads | None = None
    formats: StoredFormats
    pools: dict[PoolName, PoolRule]
    sizing: SizingRule

    @model_validator(mode="after")
    def _check_pools(self) -> Self:
        missing = [name for name in POOLS if name not in self.pools]
        if missing:
            raise KeyFaultError(
                ("pools",),
                f"pools has {len(self.pools)} of the {len(POOLS)} that make up the cache, "
                f"{', '.join(missing)} missing",
            )
        for name, rule in self.pools.items():
            self._check_page(name, rule)
        if self.hit_tokens % self.page_tokens:
            raise KeyFaultError(
                ("hit_tokens",),
                f"prefix hits in steps of {self.hit_tokens} tokens do not end at pages of "
                f"{self.page_tokens}; try {self.page_tokens}",
            )
        self.sizing.check_pools(self.pools)
        return self

    def _check_page(self, name: str, rule: PoolRule) -> None:
        ratio = RATIO_OF_POOL.get(name)
        if (rule.lives == "context") != (ratio is not None):
            what = "keeps its rows for the whole context" if ratio else "forgets its rows"
            raise KeyFaultError(("pools", name, "lives"), f"pool {name} {what}, not {rule.lives!r}")
        if ratio is None or rule.page_tokens is None:
            return
        if rule.page_tokens % ratio:
            near = max(1, round(rule.page_tokens / ratio)) * ratio
            raise KeyFaultError(
                ("pools", name, "page_tokens"),
                f"a page of {rule.page_tokens} tokens cannot hold whole {name} entries of {ratio} "
                f"tokens; try {near}",
            )
