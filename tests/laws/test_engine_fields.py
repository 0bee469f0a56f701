"""Law: a field of an engine's profile moves a time or a memory figure of that engine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path as Path_
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.basis.errors import V4SimError
from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ask_capacity
from simulator.cost.engine_price import kernel_prices
from simulator.cost.price import Target
from simulator.cost.timeline import layer_durations
from simulator.engine import profile as profile_module
from simulator.engine.cache_layout import CacheLayout
from simulator.engine.kernel_section import FusedKernel, KernelSection
from simulator.engine.lowering import lower
from simulator.engine.phase import Phase
from simulator.engine.physical_layout import bind_layout
from simulator.engine.profile import EngineProfile, find_profile, layout_of, list_profiles
from simulator.prefix.cached_bytes import cached_bytes
from simulator.prefix.hit import Extent, HitRule, Residency
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from simulator.serve.run import run_scenario
from simulator.serve.scenario import Scenario
from tests.laws.panel import POINTS, Point, small
from tests.sampling import WHOLE, tenth
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard

# Fields that say who it is, what was read, or which nodes and constants; not how it works.
WORDS = {
    *("name", "version", "note", "about", "source", "guess", "nearest", "family", "nodes"),
    *("measured_as", "before", "module"),
}
# Fields whose other values are other kernels or constants, of which there is no next one.
NAMES = {
    "families": "which constants price a kernel: every family is validated on its own rows",
    "program": "which form prices a kernel: a kernel of another form has other sizes",
    "math": "another class has other constants: the families' rule above",
    "math_on": "another class has other constants: the families' rule above",
    "form": "each form has constants fitted with it",
    "kernels": "the list itself",
    "formats": "row formats by precision: every format is asked for in its own law",
    "multiplies": "which chips: tests of what is answered as if",
    "not_on": "which chips: tests of what is answered as if",
    "groups": "which pools share a block: names",
    "buckets": "which pools share a block: names",
    "kind": "another way of sizing has other fields",
    "lives": "another life has other fields, and the sizing another rule",
    "duplicate": "a row format by name",
    **dict.fromkeys(
        ("reserved_pages", "reserved_rows", "freed", "least_compressed"),
        "ids in page tables: tests of address --engine",
    ),
    "beyond_block": "which questions are refused: tests of --drafts",
    "index_priced_as": "a row format by name: --packed-keys has its own test",
}
SHAPES = (
    *(POINTS[0], POINTS[3], POINTS[-1]),
    Point(4, 1, 8191, ParallelLayout(8)),
    Point(1, 8192, 0, ParallelLayout(1, 8, 8)),
    Point(2, 1, 2047, ParallelLayout(4, 2, 8)),
    Point(256, 1, 8191, ParallelLayout(8)),
    Point(1, 1024, 0, ParallelLayout(8)),
    Point(8, 1, 0, ParallelLayout(8)),  # a prefill of one token a request
    Point(2, 8192, 0, ParallelLayout(8)),
    *(Point(batch, 1, 8191, ParallelLayout(8)) for batch in (48, 100, 400, 1600)),
    *(Point(batch, 1, 8191, ParallelLayout(4, 2, 8)) for batch in (400, 2600)),
)
FORMATS = (Precision(), Precision(expert="fp4"), Precision(expert="bf16", kv="bf16", linear="bf16"))
Path = tuple[str | int, ...]
FOLDER = Path_(profile_module.__file__).parent / "profiles"


def chips_of(engine: str) -> tuple[str, ...]:
    """Chips that the engine was made for, and one that it answers for as if."""
    if engine == "atom":
        return "mi355x", "mi300x", "h200"
    return ("ascend-910c", "ascend-950dt") if "ascend" in engine else ("b200", "h200", "mi300x")


def fields_of(model: BaseModel, at: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """(path, value, type) of every numeric and choice field below a model, that is set."""
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if name not in model.model_fields_set and at and at[0] != "kernels":
            continue  # what a file does not say, it cannot change
        if (name in WORDS or name in NAMES) and name != "kernels":
            continue
        yield from values_of(value, info.annotation, (*at, name))


def values_of(value: Any, annotation: Any, at: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(value, BaseModel):
        yield from fields_of(value, at)
    elif isinstance(value, dict):
        for key, own in value.items():
            yield from values_of(own, annotation, (*at, key))
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for place, own in enumerate(value):
            yield from values_of(own, None, (*at, place))
    elif isinstance(value, str):
        if choices_of(annotation) or at[-1] == "policy":
            yield at, value, annotation
    elif value is not None and value != ():
        yield at, value, annotation


def choices_of(annotation: Any) -> tuple[Any, ...]:
    """Values of a Literal, also inside a union."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for part in get_args(annotation) for value in choices_of(part))


def others(value: Any, annotation: Any, at: Path) -> list[Any]:
    """The next values that a field may have."""
    if at[-1] == "policy":
        return ["vllm:none", "zero"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, value // 2, 0, 1, 64 * value, 4096 * value]
    if isinstance(value, float):
        more = [value * 64, value * 1000] if at[0] == "host" else []
        return [value * 2, value / 2, min(1.0, value * 1.05), *more]
    if isinstance(value, tuple):
        return [value[:1], value[-1:], tuple(2 * own for own in value)]
    return [choice for choice in choices_of(annotation) if choice != value]


def changed(profile: EngineProfile, at: Path, value: Any) -> EngineProfile | None:
    """The profile with one field at another value; None where it may not have that."""
    if at[0] == "layout":
        own = layout_of(profile)
        data = listed(own.model_dump(exclude_unset=True))
        put(data, at[1:], value)
        try:
            layout = CacheLayout.model_validate(data, strict=False)
        except (ValidationError, V4SimError):
            return None
        return profile.model_copy(update={"layout": layout})
    data = listed(profile.model_dump())
    put(data, at, value)
    if at[-1] == "stream" and not value:  # on the main stream no rule says up to how many tokens
        put(data, (*at[:-1], "stream_tokens"), None)
        put(data, (*at[:-1], "one_token_stream"), False)
    try:
        section = KernelSection.model_validate(
            {name: data[name] for name in KernelSection.model_fields}, strict=False
        )
    except (ValidationError, V4SimError):
        return None
    return profile.model_copy(
        update={name: getattr(section, name) for name in KernelSection.model_fields}
    )


def put(data: Any, at: Path, value: Any) -> None:
    for key in at[:-1]:
        data = list(data) if isinstance(data, tuple) else data
        data = data[key]
    data[at[-1]] = value


def listed(data: Any) -> Any:
    """Tuples of mappings as lists, so that they can be changed."""
    if isinstance(data, dict):
        return {key: listed(value) for key, value in data.items()}
    if isinstance(data, (tuple, list)) and data and isinstance(data[0], dict):
        return [listed(value) for value in data]
    return data


@cache
def graph_of(point: Point, precision: Precision) -> Graph:
    graph = build_graph(small("v4-flash"), point.step.split(point.layout.data), precision)
    return shard(graph, point.layout, point.step.tokens)


def times(profile: EngineProfile, chip: str, point: Point, precision: Precision) -> object:
    """Durations of one layer of every kind; None where it is refused, which is no figure."""
    spec = find_chip(chip)
    target = Target(spec, find_node(chip, 8), profile)
    single = point.new == 1 and point.past == 0
    phase = Phase(decode=False, single=True) if single else None
    try:
        kernels = lower(graph_of(point, precision), profile, RunStats(), phase)
        known = kernel_prices((kernel.demand for kernel in kernels), target, "tile")
    except V4SimError:
        return None
    return layer_durations(kernels, [known[k.demand] for k in kernels], spec)


def memory(profile: EngineProfile, engine: str) -> Iterator[object]:
    """What the pools hold, what a prefix takes, how it is kept and how it is loaded."""
    layout = layout_of(profile)
    chip = chips_of(engine)[0]
    four_bits = {"chip": "h200", "expert_dtype": "fp4"} if chip == "b200" else {}
    for drafts, tokens, contexts, more in (
        (0, 8192, "131072", {}),
        (3, 8192, "8192", {}),
        (0, 1, "700000", {}),
        (0, 8192, "131072", four_bits),
    ):
        asked = {"model": "v4-flash", "chip": chip, "count": 8, "engine": engine} | more
        question = ask_capacity(
            contexts=contexts, draft_tokens=drafts, in_flight_tokens=tokens, **asked
        ).changed(layout=layout, memory_share=layout.memory.share)  # fmt: skip
        try:
            answer = capacity_of(question)
        except V4SimError:
            yield None
            continue
        yield answer.requests, answer.budget_bytes, answer.fits
    try:
        yield cached_bytes(bind_layout(layout, find_model("v4-flash")))
    except V4SimError:
        yield None
    yield parse_window_policy("engine", layout.retention.policy).parts
    yield layout.loads is None or layout.loads.by_layer
    yield layout.context_parallel
    yield drafted_hit(layout)


# Requests of equal lengths that come in twos, so that ranks differ; with and without drafts.
SERVED: tuple[dict[str, Any], ...] = (
    {},
    {
        "speculation": {"draft_tokens": 1, "accepted": [1.8]},
        "scheduler": {"order": "prefill-first"},
    },
    {"scheduler": {"order": "prefill-first", "gathers_prompts": True}},
)


@cache
def served(engine: str, at: Path, value: Any) -> tuple[object, ...] | None:
    """Ends of requests on two ranks under an engine whose file says another value."""
    own = FOLDER / f"{engine}.yaml"
    data = yaml.safe_load(own.read_text(encoding="utf-8"))
    if isinstance(data["kernels"], str):
        data["kernels"] = str(FOLDER / "kernels" / f"{data['kernels']}.yaml")
    if at:
        put(data, at, listed(value))
    with TemporaryDirectory() as folder:
        path = Path_(folder) / f"{engine}.yaml"
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        found: list[object] = []
        for keys in SERVED:
            try:
                run = run_scenario(scenario_of(str(path), keys))
            except V4SimError:
                return None
            found.append(tuple(run.requests.column("finish_ns").tolist()))
            found.append(tuple(run.requests.client_ttft_ns().tolist()))
        return tuple(found)


def scenario_of(engine: str, keys: dict[str, Any]) -> Scenario:
    made = {"input_tokens": 700, "output_tokens": 24, "requests": 11, "rate_per_s": 40.0}
    data = {
        "name": "law",
        "model": "v4-flash",
        "chip": "b200",
        "engine": engine,
        "parallel": {"dp": 2},
        "traffic": {"made": made},
    }
    return Scenario.model_validate_json(json.dumps(data | keys))


def drafted_hit(layout: CacheLayout) -> int:
    """Tokens that an equal prompt hits where tokens are drafted."""
    drafts = layout.retention.drafts
    rule = HitRule(
        policy=parse_window_policy("zero"),
        geometry=WindowGeometry(128, 1),
        granule_tokens=layout.hit_tokens,
        draft_granules=0 if drafts is None else drafts.granules,
    )
    held = Residency(known_tokens=10**6, compressed=[Extent(10**6, "hbm")])
    return rule.find(10**6 + 1, held).loaded_tokens


@cache
def own_times(engine: str, chip: str, point: Point, precision: Precision) -> object:
    return times(find_profile(engine), chip, point, precision)


@cache
def own_memory(engine: str) -> tuple[object, ...]:
    return tuple(memory(find_profile(engine), engine))


def differ(others: Iterable[object], own: Iterable[object]) -> bool:
    """Whether any figure is another, among those that both have."""
    pairs = zip(others, own, strict=True)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def moves(engine: str, at: Path, value: Any, annotation: Any) -> bool | None:
    """Whether some other value moves a figure; None where there is no other.

    A refusal is no figure, but of `stage`: another order of launches contradicts the graph.
    """
    if at[0] in ("host", "batching"):
        return any(
            served(engine, at, other) not in (None, served(engine, (), None))
            for other in others(value, annotation, at)
        )
    profile = find_profile(engine)
    panel = list(itertools.product(chips_of(engine), SHAPES, FORMATS))
    tried = None
    for other in others(value, annotation, at):
        own = changed(profile, at, other)
        if own is None:
            continue
        tried = False
        if at[0] == "layout" and differ(memory(own, engine), own_memory(engine)):
            return True
        for place in panel:
            known, found = own_times(engine, *place), times(own, *place)
            if differ([found], [known]) or (at[-1] == "stage" and found is None is not known):
                return True
    return tried


# Engine, path of a field: why no other value moves a figure.
HIDDEN = "follows the GEMM of its stream, which decides how long that stays beside the main one"
COUNTED = "the unit of hit_tokens and of --page-tokens; pools have pages of their own"
OTHER = "the other rule has other fields: both have engines that use them"
STILL: dict[tuple[str, str], str] = {
    ("sglang-0.5", "kernels/17/stream_tokens"): HIDDEN,
    ("vllm-0.33", "kernels/17/stream_tokens"): HIDDEN,
    **{
        (engine, "layout/page_tokens"): COUNTED
        for engine in ("ideal", "trtllm-1.3", "vllm-0.22", "vllm-0.33", "vllm-ascend")
    },
    ("vllm-0.33", "host/prompts_in_graphs"): "nothing else of its host is counted for prompts",
    ("vllm-ascend", "layout/hit_scales"): "says what --page-tokens does to hits",
    ("vllm-0.22", "layout/sizing/block_bytes"): OTHER,
    ("vllm-0.33", "layout/sizing/block_bytes"): OTHER,
}


@cache
def cases() -> tuple[tuple[str, Path], ...]:
    found = []
    for engine in list_profiles():
        profile = find_profile(engine)
        for at, value, _ in fields_of(profile):
            # Profiles that share kernels differ in their layouts only.
            shared = {
                "sglang-0.5-cap": "sglang-0.5",
                "vllm-0.22": "vllm-0.33",
                "vllm-ascend": "ascend",
            }
            own = at[0] == "layout" or engine not in shared
            if own and value != default_of(at):
                found.append((engine, at))
    return tuple(found)


def key(engine: str, at: Path) -> tuple[str, str]:
    return engine, "/".join(map(str, at))


def default_of(at: Path) -> Any:
    """Value of a field of a kernel that is not set; another object where there is none."""
    info = FusedKernel.model_fields.get(str(at[-1])) if at[0] == "kernels" else None
    return info.default if info is not None else cases


def test_exceptions_are_few_fields_that_are_there() -> None:
    known = {key(*case) for case in cases()}
    assert set(STILL) <= known
    assert len(STILL) <= len(known) // 10


@pytest.mark.parametrize(
    ("engine", "at"),
    tenth([case for case in cases() if key(*case) not in STILL], 8)[:: 1 if WHOLE else 6],
    ids=lambda v: "/".join(map(str, v)) if isinstance(v, tuple) else v,
)
def test_a_field_of_an_engine_moves_a_figure(engine: str, at: Path) -> None:
    text = "/".join(map(str, at))
    value, annotation = next((v, a) for p, v, a in fields_of(find_profile(engine)) if p == at)
    assert moves(engine, at, value, annotation), f"{text} = {value} moves nothing"
