"""The layout section of an engine profile: pools, pages, padding and how they are sized.

Seven kinds of pools make up V4's cache state (`POOL_KINDS`); a model has one pool of a kind for
each of its compression ratios. A pool's rows live in one of four ways:

| lives | rows are kept | a page holds |
|---|---|---|
| `context` | for the whole context | one row per `ratio` tokens of `page_tokens` tokens |
| `sliding` | while in reach of the window; whole pages are freed behind it | `page_tokens` rows |
| `window_page` | as long as the window page they go with | `reaches` times the rows in reach |
| `request` | as long as the request | `reaches` times the rows in reach |
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from simulator.basis.errors import InputError, unknown_name
from simulator.basis.yaml_loader import KeyFaultError, StrictModel
from simulator.engine.cited import Cited
from simulator.engine.entry_bytes import check_row_format
from simulator.engine.sizing_rules import SizingRule

Whole = Annotated[int, Field(gt=0, le=2**31)]
PoolKind = Literal["window", "csa", "csa_index", "hca", "csa_state", "csa_index_state", "hca_state"]
POOL_KINDS: tuple[PoolKind, ...] = get_args(PoolKind)
# Kinds that keep one entry every `ratio` tokens for the whole context.
ENTRY_KINDS = ("csa", "csa_index", "hca")
Lives = Literal["context", "sliding", "window_page", "request"]


# Rows of precisions that an engine does not store: packed, as others store them.
AS_IF_STORED: dict[str, dict[str, str]] = {
    "kv": {
        "fp8": "kv_fp8",
        "bf16": "kv_bf16",
        "mxfp4": "kv_mxfp4",
        "nvfp4": "kv_nvfp4",
        "fp8-uniform": "kv_fp8_uniform",
    },
    "index": {"fp8": "index_fp8", "fp4": "index_fp4", "bf16": "index_bf16"},
}


class PoolRule(Cited):
    """How pools of one kind are kept.

    `reaches`: rows a page or request, as a multiple of those that a step may need (the window, or
    the compressor's open and overlapping blocks); `draft_reaches`: with speculative decoding.
    `duplicate` names a row format in which the pool is allocated a second time.
    """

    lives: Lives
    page_tokens: Whole | None = None
    reaches: Whole | None = None
    draft_reaches: Whole | None = None
    align_bytes: Whole = 1
    duplicate: str | None = None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        paged = self.lives in ("context", "sliding")
        given, other = ("page_tokens", "reaches") if paged else ("reaches", "page_tokens")
        if getattr(self, given) is None:
            raise KeyFaultError((given,), f"a pool that lives by {self.lives} needs {given!r}")
        if getattr(self, other) is not None:
            raise KeyFaultError(
                (other,), f"a pool that lives by {self.lives} is sized by {given!r}, not {other!r}"
            )
        if self.draft_reaches is not None and self.reaches is None:
            raise KeyFaultError(
                ("draft_reaches",), "draft_reaches belongs to pools sized by reaches"
            )
        if self.draft_reaches is not None and self.draft_reaches < (self.reaches or 0):
            raise KeyFaultError(
                ("draft_reaches",),
                f"{self.draft_reaches} reaches with speculative decoding, but {self.reaches} "
                f"without; expected at least {self.reaches}",
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

    Precisions that the engine does not store have the rows of `AS_IF_STORED`. `needs`: row formats
    of index keys that not every chip takes.
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

    def row(self, what: str, precision: str) -> str:
        """Name of the row format of a precision, the engine's or as if it had one.

        Raises InputError for a precision that nobody stores.
        """
        stored = self.kv if what == "kv" else self.index
        known = AS_IF_STORED[what] | stored
        if precision not in known:
            raise InputError(unknown_name(f"{what} precision", precision, known))
        return known[precision]

    def stores(self, what: str, precision: str) -> bool:
        """Whether the engine itself stores a precision."""
        return precision in (self.kv if what == "kv" else self.index)


class DraftRule(Cited):
    """Granules at the end of a hit that are computed again, so that drafts can go on from them."""

    granules: Annotated[int, Field(ge=0, le=2**20)]


class Retention(Cited):
    """Which window pages outlive their request, for later prefix hits.

    `policy` as `v4sim prefix compare --policies` names it; there and in scenarios `engine` stands
    for it. `drafts`: granules that a hit is shorter by where tokens are drafted, absent: none.
    """

    policy: Annotated[str, Field(min_length=1)]
    drafts: DraftRule | None = None


class OutsideCache(Cited):
    """Memory of a chip, in GiB, that is neither weights, activations nor cache."""

    gib: Annotated[float, Field(ge=0, le=64)]

    @property
    def nbytes(self) -> int:
        """Whole bytes."""
        return int(self.gib * 2**30)


class MemoryShare(Cited):
    """Share of device memory that the engine may use for weights, workspace and cache.

    `runtime`: what is taken before the share is counted (context, communicators). `repacked`: lost
    where experts in four bits are repacked for half-precision kernels. `workspace_inside`: whether
    activations come out of the share, or out of what it leaves.
    """

    share: Annotated[float, Field(gt=0, le=1)]
    runtime: OutsideCache | None = None
    repacked: OutsideCache | None = None
    workspace_inside: bool = True


class CacheLayout(Cited):
    """What an engine stores, and how it divides memory.

    `page_tokens`: tokens of a logical page, which the scheduler and the page table count in;
    `hit_tokens`: a prefix hit is a multiple of it; `hit_scales`: it grows with other pages.
    `context_parallel`: ranks may share the entries of a request, each holding a part of them.
    `chip`: what it runs on (absent: any). `loads`:
    how prefixes are loaded from lower tiers (absent: layer by layer).
    """

    page_tokens: Whole
    hit_tokens: Whole
    hit_scales: bool = False
    retention: Retention
    memory: MemoryShare
    context_parallel: bool = False
    chip: ChipNeed | None = None
    loads: PrefixLoads | None = None
    formats: StoredFormats
    pools: dict[PoolKind, PoolRule]
    sizing: SizingRule

    @model_validator(mode="after")
    def _check_pools(self) -> Self:
        missing = [name for name in POOL_KINDS if name not in self.pools]
        if missing:
            raise KeyFaultError(
                ("pools",),
                f"pools has {len(self.pools)} of the {len(POOL_KINDS)} kinds that make up the "
                f"cache, {', '.join(missing)} missing",
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
        entries = name in ENTRY_KINDS
        if (rule.lives == "context") != entries:
            what = "keeps its rows for the whole context" if entries else "forgets its rows"
            raise KeyFaultError(("pools", name, "lives"), f"pool {name} {what}, not {rule.lives!r}")
