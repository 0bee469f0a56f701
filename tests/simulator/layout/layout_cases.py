"""Questions that the tests of the layout sweep share."""

from __future__ import annotations

from functools import cache

from hwmodels.chip import find_chip
from simulator.capacity.request_pages import Load
from simulator.engine.physical_layout import CacheGeometry
from simulator.engine.profile import find_profile, layout_of
from simulator.layout.grouping import Groupings, grouped_layouts
from simulator.layout.padding import parse_padding
from simulator.layout.request_mix import DEFAULT_MIX, RequestMix, parse_mix
from simulator.layout.sweep import SweepQuestion
from workloads.deepseek_v4.config import find_model

MOST = 2**20


def mix_of(text: str) -> RequestMix:
    return parse_mix(text, MOST)


@cache
def groupings(engine: str = "sglang-0.5", model: str = "v4-flash", index: str = "fp8") -> Groupings:
    layouts = [layout_of(find_profile(name)) for name in (engine, "vllm-0.22", "vllm-0.33")]
    kv = next(iter(layouts[0].formats.kv))
    return Groupings(
        config=find_model(model), kv=kv, index=index, layouts=grouped_layouts(*layouts)
    )


def cut(
    page: int = 0, padding: str = "engine", grouping: str = "separate", pool: str = "all", **of: str
) -> CacheGeometry:
    return groupings(**of).cut(grouping, parse_padding(padding), pool, page)


def question(chip: str = "h200", mix: str = DEFAULT_MIX, **of: str) -> SweepQuestion:
    return SweepQuestion(
        groupings=groupings(**of),
        chip=find_chip(chip),
        mix=mix_of(mix),
        neighbours=0.0,
        budget_bytes=40 * 2**30,
        load=Load(context_tokens=131_072),
    )
