"""A layout bound to a model and a precision: layers, row bytes and page bytes of every pool."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.errors import UnsupportedError, unknown_name
from simulator.basis.whole import round_up
from simulator.layout.cache_layout import POOLS, RATIO_OF_POOL, CacheLayout, Lives, PoolRule
from simulator.layout.entry_bytes import find_row_format
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.state import HALVES


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGeometry:
    """One pool of one kind over its `layers` layers; sizes are those of one layer.

    `ratio`: tokens a row stands for; `reach_tokens`: how far back rows are needed (0: all).
    """

    name: str
    layers: int
    lives: Lives
    ratio: int
    reach_tokens: int
    page_tokens: int
    page_rows: int
    row_values: int
    row_bytes: int
    page_bytes: int
    origin: str

    @property
    def padding_bytes(self) -> int:
        """Bytes of a page that no row uses (a second copy of the rows among them)."""
        return self.page_bytes - self.page_rows * self.row_bytes

    def ranks(self, context_parallel: int) -> int:
        """Ranks that share the pool's rows: of the compressed entries only."""
        return context_parallel if self.name in ("c4", "c128") else 1

    @property
    def bytes_per_token(self) -> float:
        """Bytes that a further token adds over all layers, pages full; 0 where nothing grows."""
        if self.lives != "context":
            return 0.0
        return self.layers * self.page_bytes / self.page_tokens

    @property
    def useful_bytes_per_token(self) -> float:
        """The same without padding and copies."""
        return self.layers * self.row_bytes / self.ratio if self.lives == "context" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGeometry:
    """All pools of a model (or of a pipeline stage of it) in a layout.

    `layers` are the attention layers in all, an MTP layer among them if it is kept.
    """

    layout: CacheLayout
    layers: int
    pools: tuple[PoolGeometry, ...]

    def pool(self, name: str) -> PoolGeometry:
        """Pool by name."""
        return next(pool for pool in self.pools if pool.name == name)

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a further token in the pools that grow."""
        return self.rank_bytes_per_token(1)

    def rank_bytes_per_token(self, context_parallel: int) -> float:
        """The same on one of so many ranks that share the compressed entries."""
        return sum(pool.bytes_per_token / pool.ranks(context_parallel) for pool in self.pools)


def bind_layout(
    layout: CacheLayout,
    config: ModelConfig,
    *,
    kv: str = "fp8",
    index: str = "fp8",
    speculative: bool = False,
    mtp: bool = False,
    ratios: tuple[int, ...] | None = None,
) -> CacheGeometry:
    """Pools of a model in a layout. `ratios`: layers of a pipeline stage (default: all).

    `speculative` takes the longer rings; `mtp` keeps the caches of draft layers as well. Raises
    UnsupportedError where the engine stores no such precision.
    """
    if ratios is None:
        ratios = config.layer_ratios + (config.mtp_ratios if mtp else ())
    formats = _formats(layout, kv, index)
    pools = tuple(
        _bind_pool(name, layout.pools[name], config, ratios, formats, speculative) for name in POOLS
    )
    return CacheGeometry(layout=layout, layers=len(ratios), pools=pools)


def _formats(layout: CacheLayout, kv: str, index: str) -> dict[str, str]:
    stored = layout.formats
    for what, given, known in (("kv", kv, stored.kv), ("index", index, stored.index)):
        if given not in known:
            raise UnsupportedError(
                f"{unknown_name(f'{what} precision', given, known)} (what this engine stores)"
            )
    return {"kv": stored.kv[kv], "index": stored.index[index], "state": stored.state}


def _bind_pool(
    name: str,
    rule: PoolRule,
    config: ModelConfig,
    ratios: tuple[int, ...],
    formats: dict[str, str],
    speculative: bool,
) -> PoolGeometry:
    ratio = RATIO_OF_POOL.get(name, 1)
    values, rope, what = row_shape(name, config)
    row_bytes = find_row_format(formats[what]).nbytes(values, rope)
    if rule.lives == "context":
        rows = (rule.page_tokens or 0) // ratio
    elif rule.lives == "sliding":
        rows = rule.page_tokens or 0
    else:
        rows = (rule.draft_rows if speculative else None) or rule.rows or 0
    page_bytes = round_up(rows * row_bytes, rule.align_bytes)
    if rule.duplicate:
        copy = find_row_format(rule.duplicate).nbytes(values, rope)
        page_bytes += round_up(rows * copy, rule.align_bytes)
    return PoolGeometry(
        name=name,
        layers=layers_of(name, ratios),
        lives=rule.lives,
        ratio=ratio,
        reach_tokens=reach_of(name, config),
        page_tokens=rule.page_tokens or 0,
        page_rows=rows,
        row_values=values,
        row_bytes=row_bytes,
        page_bytes=page_bytes,
        origin=rule.origin,
    )


def layers_of(name: str, ratios: tuple[int, ...]) -> int:
    """Layers that have a pool: the window is in all of them."""
    if name == "window":
        return len(ratios)
    return sum(r == (4 if name.startswith("c4") else 128) for r in ratios)


def reach_of(name: str, config: ModelConfig) -> int:
    """Tokens back to the oldest row that a step may need; 0 where all rows are kept."""
    if name == "window":
        return config.sliding_window
    if name in RATIO_OF_POOL:
        return 0
    ratio = 4 if name.startswith("c4") else 128
    return HALVES[ratio] * ratio


def row_shape(name: str, config: ModelConfig) -> tuple[int, int, str]:
    """Values of a row, how many of them are rotary, and what they are: kv, index or state."""
    if name.endswith("_state"):
        ratio = 4 if name.startswith("c4") else 128
        dim = config.index_head_dim if "index" in name else config.head_dim
        return 2 * HALVES[ratio] * dim, 0, "state"  # values and scores
    if name.endswith("_index"):
        return config.index_head_dim, 0, "index"
    return config.head_dim, config.qk_rope_head_dim, "kv"
