"""How pools share blocks of memory: each its own pages, buckets of equal pages, or one block size.

Ways that share cut the window and the compressor's rows as vLLM does, so that their pages come
close to those of the compressed pools: a window page has as many rows as a page of C4 entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError, unknown_name
from simulator.engine.cache_layout import CacheLayout
from simulator.engine.physical_layout import CacheGeometry, bind_layout
from simulator.engine.sizing_rules import BlockSizing, ExactSizing
from simulator.layout.padding import Padding, cut_pool
from workloads.deepseek_v4.config import ModelConfig

GROUPINGS = ("engine", "separate", "buckets", "one-block")
_SHARING = ("buckets", "one-block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groupings:
    """Geometries of the same model and precision, one a grouping.

    `layouts` are those of the engine and of what shares as vLLM does, by name of the grouping.
    """

    config: ModelConfig
    kv: str
    index: str
    layouts: Mapping[str, CacheLayout]

    def cut(self, grouping: str, padding: Padding, pool: str, page_tokens: int) -> CacheGeometry:
        """Pools with pages of `page_tokens` (0: the engine's) in one pool, or in all by scale.

        With pool `all`, those that keep the context take the size itself; pages of the window and
        of compressor rows keep their proportion to the logical page, and hold a row at least.
        """
        if grouping not in GROUPINGS:
            raise InputError(unknown_name("grouping", grouping, GROUPINGS))
        layout = self.layouts[grouping]
        shared = isinstance(layout.sizing, BlockSizing)
        if pool != "all" and page_tokens and shared:
            raise InputError(
                f"grouping {grouping!r} shares blocks between pools, so that {pool} cannot have "
                f"pages of its own of {page_tokens} tokens; try --pool all or --grouping separate"
            )
        bound = bind_layout(layout, self.config, kv=self.kv, index=self.index)
        pools = tuple(
            cut_pool(
                one,
                layout.pools[one.kind],  # type: ignore[index]
                padding,
                _page_tokens(one.name, one.page_tokens, one.lives, layout, pool, page_tokens),
            )
            for one in bound.pools
        )
        logical = page_tokens if page_tokens and pool == "all" else layout.page_tokens
        own = layout.model_copy(update={"page_tokens": logical})
        return replace(bound, layout=own, pools=pools)


def _page_tokens(
    name: str, own: int, lives: str, layout: CacheLayout, pool: str, page_tokens: int
) -> int:
    if not page_tokens or not own:
        return 0
    if pool != "all":
        return page_tokens if name == pool else 0
    if lives == "context":
        return page_tokens
    return max(1, own * page_tokens // layout.page_tokens)


def grouped_layouts(
    engine: CacheLayout, buckets: CacheLayout, one_block: CacheLayout
) -> dict[str, CacheLayout]:
    """Layouts by grouping: the engine's, its pools apart, and its formats cut as two others do.

    `buckets` and `one_block` are layouts that share blocks, vLLM's 0.22 and 0.33.
    """
    apart = engine.model_copy(
        update={"sizing": ExactSizing(kind="exact", guess="what-if of pools apart")}
    )
    found = {"engine": engine, "separate": apart}
    for name, donor in zip(_SHARING, (buckets, one_block), strict=True):
        if isinstance(engine.sizing, BlockSizing):
            update = {"sizing": donor.sizing}
            found[name] = engine.model_copy(update=update)
        else:
            found[name] = donor.model_copy(update={"formats": engine.formats})
    return found
