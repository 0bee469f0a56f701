"""Passes that draft the tokens of a speculative step: graphs, and what of them is costed.

A DSpark head drafts a block in one pass; MTP layers draft a token each, the last of them again for
every further one. Window rows that a DSpark head keeps of the step's tokens are part of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError, UnsupportedError
from simulator.deployment import Deployment
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.dspark import build_draft_graph
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import mtp_name
from workloads.graph import Graph
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import MOST_VERIFIED, StepShape

# Beyond these, rows are no longer verified by the kernels of a decode step.
MOST_DRAFTS = MOST_VERIFIED - 1


@dataclass(frozen=True, slots=True)
class DraftPass:
    """One pass on one rank: its graph, and the layers of it that the pass consists of."""

    graph: Graph
    scopes: frozenset[str]
    name: str

    def kernels(self, profile: EngineProfile, stats: RunStats) -> list[Kernel]:
        """Its launches, their layers named after the pass."""
        return [
            replace(kernel, scope=f"{self.name}:{kernel.scope}")
            for kernel in lower(self.graph, profile, stats)
            if kernel.scope in self.scopes
        ]


def check_drafts(asked: Deployment, draft_tokens: int, phase: str) -> None:
    """Raise InputError or UnsupportedError for drafts that the model or the engine cannot make."""
    if not draft_tokens:
        return
    config, name = asked.config, asked.profile.name
    if draft_tokens < 0:
        raise InputError(f"{draft_tokens} draft tokens are asked for, expected 0 or more")
    if draft_tokens > MOST_DRAFTS:
        raise InputError(
            f"{draft_tokens} draft tokens a step are asked for, but at most {MOST_DRAFTS} are "
            f"verified by the kernels of a decode step ({draft_tokens - MOST_DRAFTS} too many)"
        )
    if phase != "decode":
        raise InputError(f"--drafts {draft_tokens} belongs to decode steps, not to {phase} ones")
    if not config.mtp_layers:
        raise UnsupportedError(
            f"{config.name} has neither MTP layers nor a DSpark head to draft with; leave --drafts "
            "out"
        )
    block = config.dspark_block_size
    rule = asked.profile.drafts
    longer = rule is not None and rule.beyond_block
    if config.drafts_blocks and block and draft_tokens > block and not longer:
        raise UnsupportedError(
            f"{draft_tokens} drafts are asked for, but {name} drafts a block of {block}, as "
            f"the model's dspark_block_size says ({draft_tokens - block} too many); nearest: "
            f"--drafts {block}, or --engine vllm-0.33, which drafts longer blocks"
        )


def draft_passes(
    config: ModelConfig,
    precision: Precision,
    layout: ParallelLayout,
    requests: StepShape,
    draft_tokens: int,
) -> Iterator[DraftPass]:
    """Passes after a step whose `requests` have (1 + drafts, past) tokens, on the busiest rank.

    Assumes: a draft block begins behind all tokens of the step, accepted or not, which moves no
        row more or less where the window is full.
    Assumes: a block longer than the model's own is drafted in one pass over as many positions.
    """
    own = requests.split(layout.data)
    if config.drafts_blocks:
        yield _block_pass(config, precision, layout, requests, draft_tokens)
        return
    for number in range(draft_tokens):
        stage = min(number, config.mtp_layers - 1)
        first = number < config.mtp_layers
        step = own if first else StepShape(tuple((1, new + past) for new, past in own.requests))
        total = (requests if first else StepShape.uniform(requests.batch, 1, 1)).tokens
        small = _single_stage(config, stage)
        graph = shard(build_graph(small, step, precision, mtp=True), layout, total)
        yield DraftPass(graph, frozenset({mtp_name(0)}), f"draft{number}")


def _block_pass(
    config: ModelConfig, precision: Precision, layout: ParallelLayout, requests: StepShape,
    draft_tokens: int,
) -> DraftPass:  # fmt: skip
    block = max(draft_tokens, config.dspark_block_size or 0)
    longer = config.model_copy(update={"dspark_block_size": block})
    step = StepShape(tuple((block, new + past) for new, past in requests.requests))
    graph = build_draft_graph(longer, step.split(layout.data), precision)
    local = shard(graph, layout, step.tokens)
    return DraftPass(local, frozenset(node.scope for node in local.nodes), "draft")


def _single_stage(config: ModelConfig, stage: int) -> ModelConfig:
    """A model of the last layer and one draft stage."""
    last = config.num_hidden_layers - 1
    return config.cut(
        (last, last + 1 + stage),
        num_hidden_layers=1,
        num_hash_layers=0,
        num_nextn_predict_layers=1,
    )


class BlockDraftedStep:
    """Time of steps with a DSpark head, in ps: the step itself, its rows for the draft, and a pass.

    `verify_ps` times a backbone's step, `seed_ps` the rows that the draft's stages keep of its
    tokens, `pass_ps` a pass over blocks of `block` tokens.
    """

    def __init__(
        self,
        verify_ps: Callable[[StepShape], int],
        seed_ps: Callable[[StepShape], int],
        pass_ps: Callable[[StepShape], int],
        draft_tokens: int,
        window_tokens: int,
        block: int,
    ) -> None:
        self._verify_ps = verify_ps
        self._seed_ps = seed_ps
        self._pass_ps = pass_ps
        self._drafts = draft_tokens
        self._window = window_tokens
        self._block = max(block, draft_tokens)

    def total_ps(self, step: StepShape) -> int:
        """A step of decoding requests (1 + drafts tokens each), of prompts, or of both."""
        near = tuple((new, min(past, self._window)) for new, past in step.requests)
        total = self._verify_ps(step) + self._seed_ps(StepShape(near))
        new = self._drafts + 1
        decoding = sum(1 for own, past in step.requests if own == new and past >= own)
        if decoding:
            total += self._pass_ps(StepShape.uniform(decoding, self._block, self._window))
        return total
