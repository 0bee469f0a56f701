"""A serving scenario: one YAML document with everything that decides a run.

Files that it names are found from the folder of the scenario's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from hwmodels.chip import find_chip
from simulator.basis.data_files import is_path
from simulator.basis.errors import InputError
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml
from simulator.engine.default_engine import DEFAULT_ENGINE, default_engine
from simulator.serve.client import Client
from simulator.serve.expert_load import ExpertLoad
from workloads.traffic.synth_spec import SynthSpec, synth_spec

Whole = Annotated[int, Field(gt=0, le=2**40)]
AtLeastZero = Annotated[int, Field(ge=0, le=2**40)]
Positive = Annotated[float, Field(gt=0)]
# Keys that name files, or facts that ship: their section ("" at the top) and key.
FILES = (
    *(("", "model"), ("", "chip"), ("", "engine"), ("", "prices")),
    *(("traffic", "trace"), ("prefix_cache", "tiers")),
    *(("expert_load", "shares"), ("expert_load", "recorder")),
)
# Each is simulated by itself.
Replicas = Annotated[int, Field(gt=0, le=4096)]
NotNegative = Annotated[float, Field(ge=0)]


class Parallel(StrictModel):
    """Degrees of one replica; chips = tp x dp x pp."""

    tp: Whole = 1
    dp: Whole = 1
    ep: Whole | None = None
    pp: Whole = 1
    cp: Whole = 1


class FixedShape(StrictModel):
    """Requests made from numbers: lengths, and how they arrive.

    `rate_per_s` gives an open loop (Poisson, or gamma with coefficient of variation `cv`, or evenly
    `fixed`); `concurrency` a closed one. Lengths spread evenly over `range_ratio` x length up to
    the length (1: all alike), and are at least 1 (as with 0, where any length is as likely).
    """

    input_tokens: Whole
    output_tokens: Whole
    requests: Whole
    rate_per_s: Positive | None = None
    arrivals: Literal["poisson", "gamma", "fixed"] = "poisson"
    cv: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    concurrency: Whole | None = None
    range_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    shared_prefix_tokens: AtLeastZero = 0

    @model_validator(mode="after")
    def _check_loop(self) -> Self:
        if (self.rate_per_s is None) == (self.concurrency is None):
            raise KeyFaultError(
                ("rate_per_s",), "give either rate_per_s (open loop) or concurrency (closed loop)"
            )
        if self.shared_prefix_tokens > self.input_tokens:
            raise KeyFaultError(
                ("shared_prefix_tokens",),
                f"shared_prefix_tokens is {self.shared_prefix_tokens}, expected at most the "
                f"{self.input_tokens} of input_tokens",
            )
        return self


class Traffic(StrictModel):
    """What is asked: a trace file, `made` requests of given lengths, `synth`etic sessions, or what
    a benchmark `client` sends.

    `synth`: `kind` (agent, chat or single) and parameters as of v4sim trace synth, with `_` for
    `-`; seeded by the scenario. `concurrency` closes the loop over a trace's sessions; `first`
    takes only its first requests; `spread_seed` spreads rounded arrival times within their quantum.
    `columns`, `ignore` and `estimate_tokens` say how the file is read, `window_s` and `sample` what
    is taken of it, as of v4sim trace info.
    """

    trace: str | None = None
    made: FixedShape | None = None
    synth: dict[str, int | float | str] | None = None
    client: Client | None = None
    rate_scale: Positive = 1.0
    concurrency: Whole | None = None
    longest_wait_s: Annotated[float, Field(gt=0, le=1e9)] | None = None
    first: Whole | None = None
    spread_seed: AtLeastZero | None = None
    columns: str | None = None
    ignore: tuple[str, ...] = ()
    estimate_tokens: float | None = None
    window_s: tuple[float, float] | None = None
    sample: float | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        sources = ("trace", "made", "synth", "client")
        given = [name for name in sources if getattr(self, name) is not None]
        if len(given) != 1:
            both = " and ".join(given) or "none"
            raise KeyFaultError(
                ("trace",),
                f"give one of trace, made (what requests look like), synth and client, not {both}",
            )
        if self.synth is not None:
            _spec(self.synth, 0)
        return self

    def synth_spec(self, seed: int) -> SynthSpec | None:
        """What synthetic sessions are drawn from; None where there are none."""
        return None if self.synth is None else _spec(self.synth, seed)


def _spec(given: Mapping[str, int | float | str], seed: int) -> SynthSpec:
    given = {"kind": "agent", **given}
    kind = str(given.pop("kind"))
    try:
        return synth_spec(kind, **({"seed": seed} | given))
    except TypeError as error:
        raise KeyFaultError(("synth",), f"synth: {error}") from None
    except InputError as error:
        raise KeyFaultError(("synth",), f"synth: {error.message}") from None


Mechanism = Literal["lockstep", "host", "exchange", "skew", "padding"]


class Scheduler(StrictModel):
    """Limits and order of a replica's steps.

    `step_tokens` and `max_requests`: of a data rank, and of all. `gathers_prompts`: prompts wait a
    while until every data rank has one (SGLang's prefill delayer). `step_overhead_us` comes on top
    of what the engine's host does.
    """

    max_requests: Whole = 256
    step_tokens: Whole = 8192
    order: Literal["decode-first", "prefill-first"] = "decode-first"
    preempt: Literal["recompute", "swap"] = "recompute"
    step_overhead_us: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    gathers_prompts: bool = False


class Speculation(StrictModel):
    """`draft_tokens` a step; `accepted`: tokens that a step yields on average, for each number of
    drafts from 1 up (so that `accepted[draft_tokens - 1]` applies). In its place
    `accepted_by_position`: how often the first, the second, ... draft is accepted, of all steps, as
    engines print it. `passes` of the MTP layer make the drafts: as many, unless a block is drafted
    at once (DSpark: 1).

    Assumes: how often a draft is accepted does not depend on how many are drafted.
    """

    draft_tokens: Whole
    accepted: Annotated[tuple[Positive, ...], Field(max_length=64)] = ()
    accepted_by_position: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(max_length=64)
    ] = ()
    passes: Whole | None = None

    @model_validator(mode="after")
    def _check_accepted(self) -> Self:
        if bool(self.accepted) == bool(self.accepted_by_position):
            raise KeyFaultError(
                ("accepted",),
                "accepted and accepted_by_position say the same thing: give one of them",
            )
        if self.accepted_by_position:
            return self._check_positions()
        if len(self.accepted) < self.draft_tokens:
            raise KeyFaultError(
                ("accepted",),
                f"accepted has {len(self.accepted)} values, expected at least the "
                f"{self.draft_tokens} of draft_tokens",
            )
        if not 1 <= self.tokens_per_step <= self.draft_tokens + 1:
            raise KeyFaultError(
                ("accepted",),
                f"accepted says {self.tokens_per_step} tokens a step with {self.draft_tokens} "
                f"drafts, expected 1 to {self.draft_tokens + 1}",
            )
        return self

    def _check_positions(self) -> Self:
        rates, key = self.accepted_by_position, "accepted_by_position"
        if len(rates) < self.draft_tokens:
            raise KeyFaultError(
                (key,),
                f"{key} has {len(rates)} values, expected at least the {self.draft_tokens} of "
                "draft_tokens",
            )
        rises = next((i for i, pair in enumerate(pairwise(rates)) if pair[1] > pair[0]), None)
        if rises is not None:
            raise KeyFaultError(
                (key, rises + 1),
                f"{key} rises from {rates[rises]:g} to {rates[rises + 1]:g} at draft {rises + 2}, "
                "which is accepted only where the one before is: give shares of all steps",
            )
        return self

    @property
    def tokens_by_drafts(self) -> tuple[float, ...]:
        """Mean tokens of a step and request, for each number of drafts from 1 up."""
        if self.accepted:
            return self.accepted
        return tuple(1.0 + total for total in accumulate(self.accepted_by_position))

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of a step and request."""
        return self.tokens_by_drafts[self.draft_tokens - 1]


class PrefixCache(StrictModel):
    """Prefixes that are kept; `tiers` names a YAML of tiers beside HBM."""

    window_policy: str = "boundary+junction"
    write_policy: str = "through"
    eviction: str = "lru"
    tiers: str | None = None


class ServiceLevels(StrictModel):
    """Targets on percentiles, in the client's units; those left out are not asked for."""

    ttft_s: Positive | None = None
    tpot_ms: Positive | None = None
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


class Disaggregation(StrictModel):
    """Prefill on replicas of their own, state sent over the node's network link.

    `transfer`: `at_once` when the prompt is done, or by `layer` beside the computation, so that
    what is left is the last layer's part, or what the link could not send by then.
    """

    prefill_replicas: Replicas
    transfer: Literal["at_once", "layer"] = "at_once"
    prefill_parallel: Parallel | None = None


class Prices(StrictModel):
    """Dated price of a chip, and its power drawn at the wall (and what it draws while idle)."""

    usd_per_chip_hour: Positive
    date: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    kw_per_chip: Positive | None = None
    idle_kw_per_chip: Positive | None = None
    usd_per_kwh: NotNegative = 0.0


class Scenario(StrictModel):
    """One serving run.

    `expert_load`: how unevenly experts are picked, where data ranks exchange tokens (absent: a law
    with its source). `without`: mechanisms that are left out, to see what each contributes.
    `prices`: as given, the name of a shipped one of the chip, `rental`, or a file of such prices.
    """

    name: Annotated[str, Field(min_length=1)]
    model: str
    chip: str
    parallel: Parallel = Parallel()
    replicas: Replicas = 1
    routing: Literal["round-robin", "least-loaded", "prefix-aware"] = "round-robin"
    engine: str = DEFAULT_ENGINE
    fidelity: Literal["roofline", "tile", "cycle"] = "tile"
    kv_dtype: str | None = None
    index_dtype: str | None = None
    expert_dtype: str | None = None
    page_tokens: Whole | None = None
    packed_keys: bool = False
    exchange: str | None = None
    expert_load: ExpertLoad | None = None
    memory_share: Annotated[float, Field(gt=0, le=1)] | None = None
    traffic: Traffic
    scheduler: Scheduler = Scheduler()
    speculation: Speculation | None = None
    prefix_cache: PrefixCache | None = None
    service_levels: ServiceLevels = ServiceLevels()
    disaggregation: Disaggregation | None = None
    prices: Prices | str | None = None
    without: tuple[Mechanism, ...] = ()
    seed: AtLeastZero = 1

    @property
    def chips(self) -> int:
        """Chips of all replicas, prefill ones among them."""
        total = self.replicas * self.chips_per_replica
        if self.disaggregation is not None:
            prefill = self.disaggregation.prefill_parallel or self.parallel
            total += self.disaggregation.prefill_replicas * prefill.tp * prefill.dp * prefill.pp
        return total

    @property
    def chips_per_replica(self) -> int:
        """Chips of one (decode) replica."""
        return self.parallel.tp * self.parallel.dp * self.parallel.pp


def load_scenario(path: Path | str) -> Scenario:
    """Scenario of a YAML file; files that it names are found beside it."""
    path = Path(path)
    return resolved(load_yaml(path, Scenario), path)


def resolved(scenario: Scenario, path: Path) -> Scenario:
    """A scenario whose files are found from the folder of `path`, with its chip's engine."""
    found = with_files(scenario, lambda name: beside(path, name))
    if "engine" in scenario.model_fields_set:
        return found
    try:
        chip = find_chip(found.chip)
    except InputError:
        return found  # told where the chip is read
    return found.model_copy(update={"engine": default_engine(chip)})


def with_files(scenario: Scenario, change: Callable[[str], str]) -> Scenario:
    """A scenario with every file that it names under another path."""
    changes: dict[str, Any] = {}
    for section, key in FILES:
        place = changes.get(section) or (getattr(scenario, section) if section else scenario)
        named: Any = getattr(place, key, None)
        if names_file((section, key), named):
            if section:
                changes[section] = place.model_copy(update={key: change(named)})
            else:
                changes[key] = change(named)
    return scenario.model_copy(update=changes)


def names_file(keys: tuple[str, ...], value: object) -> bool:
    """Whether a key's value names a file: a trace is always one, the others where they read so."""
    place = keys if len(keys) == 2 else ("", *keys)
    if place not in FILES or not isinstance(value, str):
        return False
    always = (("traffic", "trace"), ("expert_load", "shares"), ("expert_load", "recorder"))
    return place in always or is_path(value)


def beside(scenario: Path, name: str) -> str:
    """A file that a scenario names, found beside it."""
    given = Path(name).expanduser()
    return str(given if given.is_absolute() else scenario.parent / given)
