"""Chips and numbers of draft tokens that an engine's layout is made for."""

from __future__ import annotations

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.layout.cache_layout import ChipNeed
from simulator.layout.capacity_question import CapacityQuestion
from simulator.layout.geometry import reach_of


def check_support(question: CapacityQuestion) -> None:
    """Raises UnsupportedError where the engine has no such mode; says what comes nearest."""
    layout, chip = question.layout, question.chip
    _check_chip(question.engine, layout.chip, chip)
    stored = layout.formats.index.get(question.index)
    _check_chip(
        f"{question.engine} with index keys in {question.index}",
        layout.formats.needs.get(stored) if stored else None,
        chip,
    )
    _check_drafts(question)


def _check_chip(what: str, need: ChipNeed | None, chip: ChipSpec) -> None:
    if need is None:
        return
    if chip.vendor in need.not_on:
        fault = f"is not made for {chip.vendor}'s chips, such as {chip.name}"
    elif need.multiplies and chip.matrix_flops_per_s(need.multiplies) is None:
        fault = f"needs matrix units that multiply {need.multiplies}, which {chip.name} has not"
    else:
        return
    raise UnsupportedError(f"{what} {fault} ({need.origin}); nearest: {need.nearest}")


def _check_drafts(question: CapacityQuestion) -> None:
    """A ring holds what is in reach and the drafts that may be refused.

    Source: SGLang 0.5.23: draft tokens of a step are at most ring - window + 2.
    """
    for name, rule in question.layout.pools.items():
        if rule.draft_rows is None:
            continue
        most = max(0, rule.draft_rows - reach_of(name, question.config) + 2)
        if question.draft_tokens > most:
            raise UnsupportedError(
                f"{question.draft_tokens} draft tokens are asked for, but {question.engine} keeps "
                f"{rule.draft_rows} rows of pool {name}, enough for {most} "
                f"({question.draft_tokens - most} too many); nearest: --draft-tokens {most}"
            )
