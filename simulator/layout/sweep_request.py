"""Reads what a user asks of a layout sweep into a checked question, its points and its step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulator.basis.errors import InputError, unknown_name
from simulator.capacity.request_pages import Load
from simulator.cost.engine_notes import priced_as
from simulator.cost.question import AskedStep, step_of_deployment
from simulator.deployment import ask_deployment
from simulator.engine.physical_layout import CacheGeometry, bind_layout
from simulator.engine.profile import find_profile, layout_of
from simulator.layout.grouping import GROUPINGS, Groupings, grouped_layouts
from simulator.layout.layout_step import LayoutStep
from simulator.layout.padding import DEFAULT_PADDINGS, Padding, parse_padding
from simulator.layout.request_mix import parse_mix
from simulator.layout.sweep import (
    DEFAULT_PAGES,
    LayoutPoint,
    SweepQuestion,
    check_page,
    sweep_points,
    swept_pools,
)
from workloads.layout_check import check_layout

_SHARING = ("vllm-0.22", "vllm-0.33")
MOST_POINTS = 5000
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSweep:
    """A checked sweep. `left_out` are sentences on pages of the default list that cannot be.

    `base` is the point that the cuts of the table and the figures go through.
    """

    question: SweepQuestion
    points: tuple[LayoutPoint, ...]
    base: LayoutPoint
    step: AskedStep
    engine: str
    pool: str
    left_out: tuple[str, ...]

    @property
    def priced_as(self) -> tuple[str, ...]:
        """Sentences on formats whose kernels are priced as another's."""
        return priced_as(self.step)

    def layout_step(self) -> LayoutStep:
        """The decode step of the mix, lowered once."""
        return LayoutStep(self.step, self.question.mix.typical(), self.question.neighbours)


def ask_sweep(
    *,
    pool: str,
    pages: str | None,
    paddings: str | None,
    groupings: str | None,
    mix: str,
    neighbours: float,
    context: int,
    in_flight: int,
    budget_gib: float,
    **deployment: Any,
) -> AskedSweep:
    """Check and complete a sweep; every fault is one `InputError` sentence.

    `deployment` as of `ask_deployment`; without tp and dp every chip is a data rank of its own.
    """
    given = dict(deployment)
    if given.get("tp") is None and given.get("dp", 1) == 1:
        given["dp"] = given.get("count", 1)
    own = ask_deployment(**given)
    config, layout = own.config, own.layout
    most = config.max_position_embeddings
    requests = parse_mix(mix, most)
    _check_numbers(neighbours, context, in_flight, budget_gib, most)
    kv, index = own.formats.kv, own.formats.index
    step = step_of_deployment(own, "decode", requests.requests, requests.longest_tokens, 1, "tile")
    check_layout(config, own.formats.precision, own.parallel)
    bound = bind_layout(layout, config, kv=kv, index=index)
    if pool not in swept_pools(bound):
        raise InputError(unknown_name("pool", pool, swept_pools(bound)))
    shared = [layout_of(find_profile(name)) for name in _SHARING]
    question = SweepQuestion(
        groupings=Groupings(
            config=config, kv=kv, index=index, layouts=grouped_layouts(layout, *shared)
        ),
        chip=step.chip,
        mix=requests,
        neighbours=neighbours,
        budget_bytes=int(budget_gib * GIB),
        load=Load(context_tokens=context, in_flight_tokens=in_flight),
    )
    sizes, left_out = _pages(bound, pool, pages)
    ways = _paddings(paddings)
    groups = _groupings(groupings, pool)
    points = sweep_points(pool, sizes, ways, groups)
    if len(points) > MOST_POINTS:
        raise InputError(
            f"{len(points):,} combinations were asked for, but at most {MOST_POINTS:,} are swept "
            f"({len(points) - MOST_POINTS:,} too many); name fewer pages, paddings or groupings"
        )
    page = bound.pool(pool).page_tokens if pool != "all" else layout.page_tokens
    if pool == "window" and not page:
        raise InputError(
            f"engine {own.engine!r} keeps a window block a request, which has no pages; "
            "try an engine with window pages, such as --engine sglang-0.5"
        )
    near = min(sizes, key=lambda size: abs(math.log(size / (page or size))))
    return AskedSweep(
        question=question, points=tuple(points), base=LayoutPoint(pool, near, ways[0], groups[0]),
        step=step, engine=own.engine, pool=pool, left_out=left_out,
    )  # fmt: skip


def _check_numbers(
    neighbours: float, context: int, in_flight: int, budget_gib: float, most: int
) -> None:
    if not 0 <= neighbours <= 1:
        raise InputError(f"neighbours is {neighbours:g}, expected a chance from 0 to 1")
    if not 1 <= context <= most:
        raise InputError(f"context is {context:,} tokens, expected 1 to {most:,} of the model")
    if in_flight < 1:
        raise InputError(
            f"in-flight is {in_flight:,} tokens, expected at least 1, the token decoded"
        )
    if not 0 < budget_gib <= 2**20:
        raise InputError(f"budget is {budget_gib:g} GiB, expected more than 0, at most 1,048,576")


def _pages(
    geometry: CacheGeometry, pool: str, pages: str | None
) -> tuple[list[int], tuple[str, ...]]:
    """Sizes to sweep; of the default list those that cannot be are left out with a sentence."""
    if pages is not None:
        sizes = [_whole(piece) for piece in pages.split(",")]
        for size in sizes:
            check_page(geometry, pool, size)
        return sorted(dict.fromkeys(sizes)), ()
    kept, left_out = [], []
    for size in DEFAULT_PAGES:
        try:
            check_page(geometry, pool, size)
            kept.append(size)
        except InputError as error:
            left_out.append(error.message)
    return kept, tuple(left_out)


def _whole(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise InputError(
            f"{text.strip()!r} in --pages is no whole number; try --pages 128,256,512"
        ) from None


def _paddings(text: str | None) -> Sequence[Padding]:
    if text is None:
        return DEFAULT_PADDINGS
    return list(dict.fromkeys(parse_padding(piece.strip()) for piece in text.split(",")))


def _groupings(text: str | None, pool: str) -> list[str]:
    """Those asked for; else all ways, or for one pool that in which it has pages of its own."""
    if text is None:
        return list(GROUPINGS[1:]) if pool == "all" else ["separate"]
    names = [piece.strip() for piece in text.split(",")]
    for name in names:
        if name not in GROUPINGS:
            raise InputError(unknown_name("grouping", name, GROUPINGS))
    return list(dict.fromkeys(names))
