"""Numbers of draft tokens that an engine's layout is made for."""

from __future__ import annotations

from simulator.basis.errors import UnsupportedError
from simulator.layout.capacity_question import CapacityQuestion
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state


def check_drafts(question: CapacityQuestion) -> None:
    """Raise UnsupportedError for more drafts than rings hold beside what is in reach.

    Source: SGLang 0.5.23: draft tokens of a step are at most ring - window + 2.
    """
    for region in model_state(question.config, Precision()).regions:
        rule = question.layout.pools[region.kind]  # type: ignore[index]
        if rule.draft_reaches is None:
            continue
        reach = region.growth.tokens
        most = (rule.draft_reaches - 1) * reach + 2
        if question.draft_tokens > most:
            raise UnsupportedError(
                f"{question.draft_tokens} draft tokens are asked for, but {question.engine} keeps "
                f"{rule.draft_reaches * reach} rows of pool {region.pool}, enough for {most} "
                f"({question.draft_tokens - most} too many); nearest: --draft-tokens {most}"
            )
