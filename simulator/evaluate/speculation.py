"""Speculative decoding executed: a DSpark head drafts a block, the backbone verifies, greedily.

The head's pass runs the graph of `workloads.deepseek_v4.dspark` over the same pools: it reads the
window rows that steps have left for its stages and stores nothing. Tokens that are refused are
taken back, and whatever they had stored reads as NaN from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simulator.basis.errors import InputError, UnsupportedError
from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator, StepOutput
from simulator.evaluate.graph_weights import graph_weights
from simulator.evaluate.metadata import TokenIds
from simulator.evaluate.pools import FRESH, BoundRegion
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from workloads.batch import pack
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.dspark import build_draft_graph
from workloads.op import Array, EvalContext
from workloads.step_shape import StepShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Drafts [requests, block] of one pass, their logits [requests, block, vocab], and how likely
    each is accepted if those before it are [requests, block] (None without that head).
    """

    ids: Array
    logits: Array
    confidence: Array | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a run said: token ids, and how many drafts each of its steps accepted."""

    tokens: tuple[int, ...]
    accepted: tuple[int, ...]

    @property
    def per_step(self) -> float:
        """Tokens that a step yielded on average, its own among them."""
        return 1 + float(np.mean(self.accepted)) if self.accepted else 1.0


class BlockDrafter:
    """A model with a DSpark head: steps of its backbone, and passes of the head.

    `draft_tokens` (default: the block) are drafted and verified a step; rings are longer by them.
    Raises UnsupportedError for a model without such a head.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Array],
        table: RequestTable,
        *,
        draft_tokens: int | None = None,
        **options: Any,
    ) -> None:
        if not config.drafts_blocks:
            raise UnsupportedError(f"{config.name} has no DSpark draft head to run")
        self.draft_tokens = draft_tokens or config.dspark_block_size or 1
        block = max(self.draft_tokens, config.dspark_block_size or 1)
        self.config = config.model_copy(update={"dspark_block_size": block})
        self.evaluator = Evaluator(
            self.config,
            weights,
            table,
            mtp=True,
            all_logits=True,
            draft_tokens=self.draft_tokens,
            **options,
        )
        graph = self._graph(StepShape.uniform(1, block, 1))
        self._params = {
            name: value.astype(self.evaluator.dtype) if value.dtype.kind == "f" else value
            for name, value in graph_weights(self.config, graph, weights).items()
        }
        self.draft_from: dict[int, int] = {}

    @property
    def table(self) -> RequestTable:
        """Rows and pages of the requests."""
        return self.evaluator.table

    def step(self, additions: Sequence[tuple[int, TokenIds]]) -> StepOutput:
        """A step of the backbone, which leaves rows for the head; logits of all tokens."""
        return self.evaluator.step(additions)

    def draft(self, anchors: Sequence[tuple[int, int]]) -> Drafts:
        """A block for each (row, last token, which no step has seen yet)."""
        block = self.config.dspark_block_size or 1
        noise = self.config.dspark_noise_token_id or 0
        ids = [np.array([token] + [noise] * (block - 1)) for _, token in anchors]
        rows = np.array([row for row, _ in anchors], dtype=np.int64)
        past = [int(self.table.lengths[row]) for row in rows]
        known = np.array([self.draft_from.get(int(row), 0) for row in rows], dtype=np.int64)
        batch = replace(pack(list(zip(ids, past, strict=True))), draft_from=known)
        values: dict[str, Array] = {"token_ids": batch.token_ids}
        graph = self._graph(batch.step)
        for node in graph.nodes:
            arrays = [values[name] for name in node.inputs]
            arrays += [self._params[name] for name in node.params]
            regions = tuple(
                BoundRegion(self.evaluator.pools[name], rows, node.path, None)
                for name in node.regions
            )
            context = EvalContext(batch, regions, ChoiceRecord(), node.path, self.evaluator.dtype)
            values.update(zip(node.outputs, node.op.evaluate(arrays, context), strict=True))
        drafts, logits, *rest = (values[name] for name in graph.outputs)
        count = len(anchors)
        return Drafts(
            ids=drafts.reshape(count, block),
            logits=logits.reshape(count, block, -1),
            confidence=rest[0].reshape(count, block) if rest else None,
        )

    def take_back(self, row: int, tokens: int) -> None:
        """Forget all of a request beyond so many tokens; what it had stored reads as NaN."""
        self.evaluator.take_back(row, tokens)

    def forget_window(self, row: int) -> None:
        """A prefix restored without the head's window: its drafts begin with nothing behind them.

        Rows of the stages read as NaN, so that a pass that looked at them would show.
        """
        self.draft_from[row] = int(self.table.lengths[row])
        for name, pool in self.evaluator.pools.items():
            if name.startswith("mtp"):
                size = pool.region.growth.tokens
                pool.data[row * size : (row + 1) * size] = FRESH

    def speak(self, row: int, anchor: int, count: int) -> Spoken:
        """`count` tokens from `anchor` on, greedily: the same as without drafts."""
        if count < 1:
            raise InputError(f"{count} tokens are asked for, expected 1 or more")
        tokens, accepted = [anchor], []
        while len(tokens) < count:
            past = int(self.table.lengths[row])
            drafts = self.draft([(row, tokens[-1])]).ids[0, : self.draft_tokens]
            logits = self.step([(row, [tokens[-1], *drafts.tolist()])]).logits
            best = logits.argmax(axis=1)
            agreed = int(np.cumprod(best[:-1] == drafts).sum())
            self.take_back(row, past + 1 + agreed)
            accepted.append(agreed)
            tokens += [int(token) for token in best[: agreed + 1]]
        return Spoken(tokens=tuple(tokens[:count]), accepted=tuple(accepted))

    def _graph(self, step: StepShape) -> Any:
        return build_draft_graph(self.config, step, self.evaluator.precision)


def with_random_head(
    raw: Mapping[str, Any], weights: Mapping[str, Array], seed: int, block: int = 5
) -> tuple[dict[str, Any], dict[str, Array]]:
    """A model's raw configuration and weights with a DSpark head of random weights on it.

    Two stages that tap the last two layers, a Markov rank of 16, the last token as noise.
    """
    layers = int(raw["num_hidden_layers"])
    ratios = [*list(raw["compress_ratios"])[:layers], 0, 0]
    given = {k: v for k, v in raw.items() if k != "layer_types"}
    headed = given | {
        "compress_ratios": ratios,
        "num_nextn_predict_layers": 2,
        "dspark_block_size": block,
        "dspark_markov_rank": 16,
        "dspark_target_layer_ids": [max(0, layers - 2), layers - 1],
        "dspark_noise_token_id": int(raw["vocab_size"]) - 1,
    }
    return headed, random_weights(headed, seed, mtp=True) | dict(weights)


def greedy_tokens(evaluator: Evaluator, row: int, anchor: int, count: int) -> tuple[int, ...]:
    """`count` tokens from `anchor` on, one a step: what speculation must not change."""
    tokens = [anchor]
    while len(tokens) < count:
        tokens.append(int(evaluator.step([(row, tokens[-1:])]).logits[-1].argmax()))
    return tuple(tokens)
