"""A deployment: model, chips, parallel layout, engine and formats, named and checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.chip_edits import edited_chip
from hwmodels.node import NodeSpec, find_node
from simulator.basis.errors import InputError, UnsupportedError, unknown_name
from simulator.basis.whole import within
from simulator.engine.cache_layout import AS_IF_STORED, CacheLayout, ChipNeed
from simulator.engine.default_engine import default_engine
from simulator.engine.entry_bytes import find_row_format
from simulator.engine.exchange import with_exchange
from simulator.engine.launch import usual_step_tokens
from simulator.engine.physical_layout import check_pages
from simulator.engine.profile import EngineProfile, find_profile, layout_of, on_cores
from simulator.engine.sizing_rules import WindowSizing
from workloads.deepseek_v4.config import ModelConfig, find_model
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.parallel import ParallelLayout

# Beyond this a question is a slip of the hand.
MOST_CHIPS = 2**14
_FORMATS = ("kv", "index", "expert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Stored formats of cache rows, index keys and experts."""

    kv: str
    index: str
    expert: str

    @property
    def precision(self) -> Precision:
        """The same as a graph takes them."""
        return Precision(expert=self.expert, index=self.index, kv=self.kv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What runs where, by which engine; `ask_deployment` makes and checks it.

    `engine` is the user's word for `profile`, whose pages are those asked for; `layout` is how that
    stores the cache, with its pools sized as asked. `stages` are of a pipeline; `context_parallel`
    ranks of a tensor group share a request's entries. `memory_share`: what the engine takes of a
    chip's memory. `given_step_tokens`: most tokens of a data rank's step, None: the engine's own.
    """

    config: ModelConfig
    chip: ChipSpec
    node: NodeSpec
    engine: str
    profile: EngineProfile
    layout: CacheLayout
    parallel: ParallelLayout
    formats: Formats
    memory_share: float
    stages: int = 1
    context_parallel: int = 1
    exchange: str | None = None
    given_step_tokens: int | None = None

    @property
    def step_tokens(self) -> int:
        """Most tokens of a data rank's step: as given, or the engine's own on the chip."""
        if self.given_step_tokens is not None:
            return self.given_step_tokens
        return usual_step_tokens(self.profile.name, self.chip, self.parallel.data)

    @property
    def chips(self) -> int:
        """Chips in all."""
        return self.parallel.ranks * self.stages

    def changed(self, **changes: Any) -> Deployment:
        """The deployment with other fields, or other formats: `kv`, `index`, `expert`."""
        formats = {name: changes.pop(name) for name in _FORMATS if name in changes}
        return replace(self, formats=replace(self.formats, **formats), **changes)

    @property
    def not_made_for(self) -> str | None:
        """A sentence where the engine does not run on the chip; None where it does."""
        return _chip_note(self.profile.name, self.layout.chip, self.chip, "it ran there")

    @property
    def as_if(self) -> tuple[str, ...]:
        """Sentences on what the engine does not do and is taken to do, for first lines."""
        layout, formats = self.layout, self.formats.precision
        found = [self.not_made_for]
        kv, index = formats.kv_format(self.config), formats.index_format(self.config)
        for what, said, precision, entry in (
            ("kv", "cache rows", self.formats.kv, kv),
            ("index", "index keys", self.formats.index, index),
        ):
            row = layout.formats.row(what, precision)
            nbytes = find_row_format(row).nbytes(entry.dim, entry.rotary_values)
            if not layout.formats.stores(what, precision):
                found.append(
                    f"{self.profile.name} stores no {said} in {precision}: as if it did, in rows "
                    f"of {nbytes} B, not measured"
                )
            else:
                asked = f"{self.profile.name} with {said} in {precision}"
                need = layout.formats.needs.get(row)
                found.append(_chip_note(asked, need, self.chip, "it had that kernel"))
        own = layout_of(find_profile(self.engine)).page_tokens
        if layout.page_tokens != own:
            found.append(
                f"pages of {layout.page_tokens:,} tokens in place of the {own:,} that "
                f"{self.profile.name} has: not measured"
            )
        return tuple(sentence for sentence in found if sentence)

    @property
    def budget_note(self) -> str | None:
        """A sentence where the engine budgets other index keys than it stores."""
        sizing = self.layout.sizing
        priced = sizing.index_priced_as if isinstance(sizing, WindowSizing) else None
        if priced is None:
            return None
        entry = self.formats.precision.index_format(self.config)
        row = self.layout.formats.row("index", self.formats.index)
        stored, budgeted = (find_row_format(name).nbytes(entry.dim) for name in (row, priced))
        if budgeted <= stored:
            return None
        return (
            f"index keys in {self.formats.index} take {stored} B, but {self.profile.name} sets "
            f"aside {budgeted} B for each, so that they free no room; --packed-keys counts them as "
            "stored"
        )


def ask_deployment(
    *,
    model: str,
    chip: str,
    count: int = 1,
    tp: int | None = None,
    dp: int = 1,
    ep: int | None = None,
    pp: int = 1,
    cp: int = 1,
    engine: str | None = None,
    kv_dtype: str | None = None,
    index_dtype: str | None = None,
    expert_dtype: str | None = None,
    page_tokens: int | None = None,
    packed_keys: bool = False,
    memory_share: float | None = None,
    max_requests: int | None = None,
    step_tokens: int | None = None,
    exchange: str | None = None,
    edits: Sequence[str] | None = None,
) -> Deployment:
    """Check and complete a deployment; every fault is one sentence.

    `edits` change numbers of the chip, such as `memory.RC=60ns`, which is then named after them.

    An engine that is not named is the chip's default, formats and tokens a step are the engine's,
    experts those that the chip multiplies. Raises UnsupportedError for what the engine cannot do.
    """
    config, spec = find_model(model), edited_chip(find_chip(chip), edits or ())
    named = default_engine(spec) if engine is None else engine
    profile = on_cores(find_profile(named, page_tokens), spec.architecture)
    layout = layout_of(profile)
    node = find_node(chip, within("count", count, 1, MOST_CHIPS)).with_links_of(spec)
    within("pp", pp, 1, config.num_hidden_layers)
    parallel = _parallel(config, count, tp, dp, ep, pp)
    _check_context_parallel(within("cp", cp, 1, MOST_CHIPS), parallel, layout, profile.name)
    formats = Formats(
        kv=_kv(kv_dtype, layout),
        index=_stored("index", index_dtype, layout),
        expert=default_expert_dtype(config, spec, profile)
        if expert_dtype is None
        else expert_dtype,
    )
    found = Deployment(
        config=config,
        chip=spec,
        node=node,
        engine=named,
        profile=with_exchange(profile, exchange, parallel),
        exchange=exchange,
        layout=_sized(layout, max_requests, packed_keys, profile.name),
        parallel=parallel,
        formats=formats,
        stages=pp,
        context_parallel=cp,
        memory_share=_share(memory_share, layout.memory.share),
        given_step_tokens=None
        if step_tokens is None
        else within("step tokens", step_tokens, 1, 2**40),
    )
    check_pages(layout, model_state(config, formats.precision).regions, config.name)
    return found


def default_expert_dtype(config: ModelConfig, chip: ChipSpec, profile: EngineProfile) -> str:
    """As in the checkpoint; FP4 is repacked to FP8 (one byte a weight) for chips without FP4,
    unless the engine keeps it."""
    kept = profile.experts is not None and profile.experts.kept
    if config.expert_dtype == "fp4" and chip.matrix_flops_per_s("fp4") is None and not kept:
        return "fp8"
    return config.expert_dtype


def _chip_note(what: str, need: ChipNeed | None, chip: ChipSpec, then: str) -> str | None:
    if need is None:
        return None
    if chip.vendor in need.not_on:
        fault = f"is not made for {chip.vendor}'s chips, such as {chip.name}"
    elif need.multiplies and chip.matrix_flops_per_s(need.multiplies) is None:
        fault = f"needs matrix units that multiply {need.multiplies}, which {chip.name} has not"
    else:
        return None
    return f"{what} {fault} ({need.origin}): as if {then}, not measured; nearest: {need.nearest}"


def _kv(given: str | None, layout: CacheLayout) -> str:
    """Precision of cache rows; `fp4` is the engine's own four-bit row, or MXFP4."""
    if given == "fp4":
        return "nvfp4" if layout.formats.stores("kv", "nvfp4") else "mxfp4"
    return _stored("kv", given, layout)


def _stored(what: str, given: str | None, layout: CacheLayout) -> str:
    stored = layout.formats.kv if what == "kv" else layout.formats.index
    if given is None:
        return next(iter(stored))
    if given not in AS_IF_STORED[what]:
        known = (*AS_IF_STORED[what], *(("fp4",) if what == "kv" else ()))
        raise InputError(unknown_name(f"{what} dtype", given, known))
    return given


def _share(given: float | None, default: float) -> float:
    if given is None:
        return default
    if not 0 < given <= 1:
        raise InputError(
            f"memory share is {given:g}, expected more than 0 and at most 1; the engine's own "
            f"is {default:g}"
        )
    return given


def _sized(layout: CacheLayout, requests: int | None, packed: bool, engine: str) -> CacheLayout:
    """The layout with state for so many requests, and with keys budgeted as they are stored."""
    sizing: dict[str, int | None] = {"index_priced_as": None} if packed else {}
    if requests is not None:
        sizing["max_requests"] = within("max requests", requests, 1, 2**20)
    if isinstance(layout.sizing, WindowSizing):
        return layout.model_copy(update={"sizing": layout.sizing.model_copy(update=sizing)})
    if requests is not None:
        raise InputError(
            f"--max-requests is given, but {engine} sets no state aside for a number of requests; "
            "leave it out"
        )
    return layout


def _parallel(
    config: ModelConfig, count: int, tp: int | None, dp: int, ep: int | None, pp: int
) -> ParallelLayout:
    product = "tp x dp x pp" if pp > 1 else "tp x dp"
    given = f"dp {dp} x pp {pp}" if pp > 1 else f"dp {dp}"
    within("dp", dp, 1, MOST_CHIPS)
    if tp is None:
        if count % (dp * pp):
            raise InputError(f"{given} does not divide the {count} chips; count = {product}")
        tp = count // (dp * pp)
    if within("tp", tp, 1, MOST_CHIPS) * dp * pp != count:
        raise InputError(
            f"tp {tp} x {given} is {tp * dp * pp} chips, but --count is {count}; count = {product}"
        )
    ranks = tp * dp
    if ep is None:
        # Attention replicas have the experts spread over all ranks, or as many as divide them:
        # every rank would hold them all else.
        ep = gcd(ranks, config.n_routed_experts) if dp > 1 else 1
    if ranks % within("ep", ep, 1, MOST_CHIPS):
        divisors = ", ".join(str(d) for d in range(1, ranks + 1) if ranks % d == 0)
        raise InputError(f"ep {ep} does not divide the {ranks} chips; try one of {divisors}")
    return ParallelLayout(tp, dp, ep)


def _check_context_parallel(
    cp: int, parallel: ParallelLayout, layout: CacheLayout, engine: str
) -> None:
    if cp == 1:
        return
    if parallel.tensor == 1:
        raise InputError(
            f"cp {cp} shares a request's entries among a tensor group, but with tp 1 each rank is "
            f"a group of its own; try tp {cp}"
        )
    if parallel.tensor % cp:
        raise InputError(
            f"cp {cp} does not divide the {parallel.tensor} ranks of a tensor group, which share "
            f"the entries of a request; try cp {parallel.tensor}"
        )
    if not layout.context_parallel:
        raise UnsupportedError(
            f"{engine} keeps a request's compressed entries whole on every rank, so cp {cp} is not "
            f"supported; nearest: dp {parallel.tensor} with tp 1, which keeps a request on one rank"
        )
