"""How far back an exact replay of the sliding windows must begin, in closed form.

A query sees its own token and the `n_win - 1` before it. To rebuild the window rows of layer L at
the last n_win tokens before a boundary, layer L - 1 must have its rows for n_win - 1 tokens more,
and so on down to layer 1: layer l rebuilds n_win + (L - l)(n_win - 1) rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.deepseek_v4.config import ModelConfig


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """Work of a replay: tokens that enter layer 1, whole layers run over them, rows rebuilt.

    A token-layer is one token through attention and experts of one layer. `kv_rows`: rows of the
    window caches, layers times tokens.
    """

    tokens: int
    token_layers: int
    kv_rows: int


@dataclass(frozen=True, slots=True)
class WindowGeometry:
    """The sliding windows of a model: `n_win` tokens in each of `layers` layers."""

    n_win: int
    layers: int

    @classmethod
    def of_model(cls, model: ModelConfig) -> WindowGeometry:
        """Geometry of a model; its MTP layer is not counted."""
        return cls(model.sliding_window, model.num_hidden_layers)

    @property
    def replay_tokens(self) -> int:
        """n_win x L, the token count that is usually stated."""
        return self.n_win * self.layers

    @property
    def first_token_tokens(self) -> int:
        """Fewest tokens that make the first token after the boundary exact: (n_win - 1) L."""
        return (self.n_win - 1) * self.layers

    @property
    def tight_tokens(self) -> int:
        """Fewest tokens that rebuild every row of the window: n_win + (L - 1)(n_win - 1)."""
        return self.n_win + (self.layers - 1) * (self.n_win - 1)

    def whole(self, distance: int) -> ReplayWork:
        """Replay of min(distance, n_win x L) tokens, all of them through all layers."""
        tokens = min(distance, self.replay_tokens)
        return ReplayWork(tokens, tokens * self.layers, tokens * self.layers)

    def trimmed(self, distance: int) -> ReplayWork:
        """Replay in which every layer runs only over the tokens that layers above need.

        Layer L is not run: only its rows are projected. `distance` tokens reach back to a
        checkpoint or to the start of the prompt and cut the triangle off.
        """
        spans = [
            min(distance, self.n_win + above * (self.n_win - 1)) for above in range(self.layers)
        ]
        return ReplayWork(spans[-1], sum(spans[:-1]), sum(spans))
