"""What index formats do to the picks, by execution: recall, score error, change of the layer.

Scores are computed once over the longest context; shorter contexts are its prefixes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import InputError
from simulator.indexer.index_case import IndexCase
from simulator.indexer.layer_output import (
    LayerChange,
    QueryAttention,
    layer_changes,
    made_up_attention,
)
from simulator.indexer.scores import REFERENCE, VARIANTS, Variant, rotated, scores, top_k
from workloads.block_scale import Array
from workloads.deepseek_v4.config import ModelConfig

QUERIES = 6
MOST_ENTRIES = 2**18
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPoint:
    """Means over the queries of a case, for a variant at a context of `entries` index keys.

    `recall` is the share of float32's picks that are picked; `worst_recall` that of the worst
    query; `planted_recall` counts planted entries among float32's picks (None: none there).
    `score_error` is the root mean square error over the standard deviation of the scores.
    """

    distribution: str
    entries: int
    variant: Variant
    recall: float
    worst_recall: float
    planted_recall: float | None
    score_error: float
    output_change: float
    missed_attention: float


def contexts_up_to(entries: int, picks: int) -> tuple[int, ...]:
    """`entries` and its halves, as long as more are visible than are picked; ascending."""
    sizes = [entries]
    while sizes[-1] // 2 > picks:
        sizes.append(sizes[-1] // 2)
    return tuple(reversed(sizes))


def check_entries(entries: int, config: ModelConfig) -> int:
    """Entries that an experiment can have, or an `InputError`."""
    least = config.index_topk + 1
    if not least <= entries <= MOST_ENTRIES:
        gap = least - entries if entries < least else entries - MOST_ENTRIES
        raise InputError(
            f"--entries {entries:,} is out of range: {config.name} picks {config.index_topk:,} "
            f"entries, so give {least:,} to {MOST_ENTRIES:,} "
            f"({gap:,} too {'few' if entries < least else 'many'})"
        )
    return entries


def case_accuracy(
    case: IndexCase,
    config: ModelConfig,
    seed: int,
    say: Say = lambda text: None,
    variants: Sequence[Variant] = VARIANTS,
) -> list[AccuracyPoint]:
    """All variants on one case."""
    say(f"{case.name}: float32 reference")
    exact, turned = scores(case, REFERENCE), rotated(case)
    given = {}
    for variant in variants:
        say(f"{case.name}: {variant.name}")
        given[variant] = scores(turned if variant.hadamard else case, variant)
    points = []
    for entries in contexts_up_to(case.entries, config.index_topk):
        say(f"{case.name}: picks and layer at {entries:,} entries")
        points += _at(case, config, seed, entries, exact, given)
    return points


def _at(
    case: IndexCase,
    config: ModelConfig,
    seed: int,
    entries: int,
    exact: Array,
    given: dict[Variant, Array],
) -> list[AccuracyPoint]:
    """Points of one context."""
    count = min(config.index_topk, entries)
    recalls: dict[Variant, list[float]] = {variant: [] for variant in given}
    planted: dict[Variant, list[float]] = {variant: [] for variant in given}
    errors: dict[Variant, list[float]] = {variant: [] for variant in given}
    changes: dict[Variant, list[LayerChange]] = {variant: [] for variant in given}
    for query in range(case.queries):
        row = exact[query, :entries]
        wanted = _mask(top_k(row, count), entries)
        picked = {v: _mask(top_k(s[query, :entries], count), entries) for v, s in given.items()}
        spread = float(row.std())
        rng = np.random.default_rng([seed, entries, query])
        own = case.attention[query] if case.attention else None
        for variant, change in _changes(config, row, wanted, picked, rng, own).items():
            mask = picked[variant]
            recalls[variant].append(float((mask & wanted).sum()) / count)
            changes[variant].append(change)
            difference = given[variant][query, :entries] - row
            error = float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))
            errors[variant].append(error / spread if spread else 0.0)
            if case.planted:
                sought = wanted & _mask(case.planted[query], case.entries)[:entries]
                if sought.any():
                    planted[variant].append(float((mask & sought).sum()) / sought.sum())
    return [
        AccuracyPoint(
            distribution=case.name,
            entries=entries,
            variant=variant,
            recall=float(np.mean(recalls[variant])),
            worst_recall=min(recalls[variant]),
            planted_recall=float(np.mean(planted[variant])) if planted[variant] else None,
            score_error=float(np.mean(errors[variant])),
            output_change=float(np.mean([c.output_change for c in changes[variant]])),
            missed_attention=float(np.mean([c.missed_attention for c in changes[variant]])),
        )
        for variant in given
    ]


def _changes(
    config: ModelConfig,
    row: Array,
    wanted: Array,
    picked: dict[Variant, Array],
    rng: np.random.Generator,
    executed: QueryAttention | None = None,
) -> dict[Variant, LayerChange]:
    """Attention over the entries that float32 or any variant picks, executed or made up."""
    used = np.flatnonzero(np.logical_or.reduce([wanted, *picked.values()]))
    if executed is not None:
        attention = executed.over(used)
    else:
        spread = float(row.std()) or 1.0
        standardised = (row[used] - row.mean()) / spread
        attention = made_up_attention(config, standardised, rng)
    names = {variant.name: variant for variant in picked}
    masks = {name: picked[variant][used] for name, variant in names.items()}
    found = layer_changes(attention, masks, wanted[used])
    return {names[name]: change for name, change in found.items()}


def _mask(ids: Array, entries: int) -> Array:
    mask = np.zeros(entries, dtype=bool)
    mask[ids] = True
    return mask
