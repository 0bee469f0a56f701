"""Rows and token-layers of an exact replay, counted layer by layer from what each layer needs.

Nothing here uses a closed form: the need of the top layer is walked down to the bottom one. With a
window of n tokens (own token included), a query needs the key-value rows of its own token and of
the n - 1 before it; a row of layer l needs the output of layer l - 1 at its token.

A layer with ratio 4 also needs the compressor rows of the last 4 tokens, its overlap with the next
block. Compressed entries before the boundary are cached, so nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OVERLAP_ROWS = 4
"""Compressor rows that the block after the boundary pools with its own (ratio 4)."""


@dataclass(frozen=True, slots=True)
class LayerNeed:
    """Tokens before the boundary that one layer needs, each count reaching up to the boundary.

    `kv_rows` rows of its window, `state_rows` rows of its compressor, `whole` tokens whose output
    the layer above wants.
    """

    kv_rows: int
    state_rows: int
    whole: int

    @property
    def inputs(self) -> int:
        """Tokens whose input the layer wants."""
        return max(self.kv_rows, self.state_rows)


@dataclass(frozen=True, slots=True)
class ReplayCount:
    """Needs of all layers, the lowest first."""

    layers: tuple[LayerNeed, ...]

    @property
    def tokens(self) -> int:
        """Tokens that enter the lowest layer: the smallest exact replay."""
        return self.layers[0].inputs

    @property
    def kv_rows(self) -> int:
        """Window rows that are rebuilt, layers times tokens."""
        return sum(layer.kv_rows for layer in self.layers)

    @property
    def token_layers(self) -> int:
        """Tokens through whole layers (attention and experts)."""
        return sum(layer.whole for layer in self.layers)


def count_first_token(window: int, ratios: Sequence[int], reach: int | None = None) -> ReplayCount:
    """What the first token after the boundary needs: the `window` - 1 rows that it can see."""
    return _count(window - 1, window, ratios, reach)


def count_whole_window(window: int, ratios: Sequence[int], reach: int | None = None) -> ReplayCount:
    """What every slot of the restored windows needs: the last `window` rows of every layer."""
    return _count(window, window, ratios, reach)


def _count(top_rows: int, window: int, ratios: Sequence[int], reach: int | None) -> ReplayCount:
    """`reach` tokens lead back to the start of the prompt, before which nothing is needed."""
    limit = reach if reach is not None else 1 << 60
    layers: list[LayerNeed] = []
    whole = 0
    for ratio in reversed(ratios):
        kv_rows = max(top_rows, whole + window - 1 if whole else 0)
        state_rows = OVERLAP_ROWS if ratio == OVERLAP_ROWS else 0
        need = LayerNeed(min(kv_rows, limit), min(max(state_rows, 0), limit), whole)
        layers.append(need)
        whole = need.inputs
    return ReplayCount(tuple(layers[::-1]))
