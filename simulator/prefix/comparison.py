"""Window policies side by side on one trace, one deployment and one set of tiers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from hwmodels.chip_price import find_price, list_priced_chips, priced_as
from hwmodels.node import load_node
from simulator.basis.errors import InputError
from simulator.basis.whole import round_up
from simulator.cost.question import AskedStep, ask
from simulator.cost.step_timer import StepTimer
from simulator.engine.cache_layout import CacheLayout
from simulator.engine.physical_layout import bind_layout
from simulator.prefix.array_cache import cache_of
from simulator.prefix.cached_bytes import CachedBytes, cached_bytes
from simulator.prefix.cached_prompts import TraceRuns
from simulator.prefix.eviction import parse_eviction
from simulator.prefix.known_prefix import check_block_ids
from simulator.prefix.prefill_clock import PrefillClock
from simulator.prefix.replay import Replay, ReplayRules, ReplayTotals
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tier import SECONDS_A_DAY, Tier, load_tiers
from simulator.prefix.tiered_cache import CacheRules, TieredCache
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import WindowPolicy
from simulator.prefix.write_policy import WritePolicy, find_write_policy
from workloads.layout_check import working_layout
from workloads.parallel import ParallelLayout
from workloads.traffic.trace import Trace

# Contexts at which the time of a reply token is costed; it changes little in between.
_REPLY_STEP_TOKENS = 4096
# Requests times policies from which on processes of their own gain more than they cost to start.
_WORTH_PROCESSES = 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheDeployment:
    """What serves and stores: model and chips (`asked`), tiers, and how they are written.

    `drafts`: the engine drafts tokens, whose rule may shorten hits.
    `usd_per_chip_hour`: None where no price is known; `price_text` says whose and when.
    """

    asked: AskedStep
    tiers: tuple[Tier, ...]
    write: WritePolicy
    page_eviction: str = "lru"
    window_eviction: str = "lru"
    state_eviction: str | None = None
    choose: bool = False
    share_link: bool = False
    share_writes: bool = False
    drafts: bool = False
    usd_per_chip_hour: float | None = None
    price_text: str = ""

    @property
    def layout(self) -> CacheLayout:
        """How the engine stores its cache."""
        return self.asked.deployment.layout

    @property
    def layer_by_layer(self) -> bool:
        """Whether the engine computes layers while later ones load."""
        return self.layout.loads is None or self.layout.loads.by_layer

    @property
    def draft_granules(self) -> int:
        """Granules that hits are shorter by."""
        rule = self.layout.retention.drafts
        return rule.granules if self.drafts and rule is not None else 0

    @property
    def rules_note(self) -> str:
        """Rules of the engine that take hits, with their origin."""
        kept, engine = self.layout.retention, self.asked.question.engine
        text = (
            f"{engine} hits whole {self.layout.hit_tokens:,} tokens ({self.layout.origin}) and "
            f"keeps windows as {kept.policy} ({kept.origin})"
        )
        if not self.drafts:
            return text
        if kept.drafts is None:
            return f"{text}; its profile has no rule that shortens hits where tokens are drafted"
        return (
            f"{text}; where it drafts, each hit is {kept.drafts.granules} granule(s) shorter "
            f"({kept.drafts.origin})"
        )

    @property
    def layout_note(self) -> str:
        """How the model lies on the chips of the node, and on how many of them."""
        question, node = self.asked.question, self.asked.node
        of = f" of {node.chip_count}" if question.count < node.chip_count else ""
        short = ", as no layout of all cuts its weights evenly" if of else ""
        return (
            f"{question.model} lies on {question.count}{of} {question.chip} as "
            f"{question.layout}{short}"
        )

    @property
    def loads_note(self) -> str:
        """How it loads, with the origin of that."""
        loads = self.layout.loads
        how = "layer by layer, beside computing" if self.layer_by_layer else "before computing"
        origin = "guessed: the engine's profile does not say" if loads is None else loads.origin
        return f"{self.asked.question.engine} loads prefixes {how} ({origin})"

    @property
    def sizes(self) -> CachedBytes:
        """Bytes in the engine's granules."""
        question = self.asked.question
        return cached_bytes(
            bind_layout(
                self.layout, self.asked.config, kv=question.kv_dtype, index=question.index_dtype
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """One policy's run in the figures of the table; shares are of all input tokens.

    `chip_s_saved`: chip-seconds of prefill that the cache spared. `write_share`: by tier, of the
    run's time that its writes take; above 1 they do not keep up. In USD per million input tokens:
    `usd_per_m_input` for the chips' time of all prefills, `storage_usd_per_m_input_by_tier` for
    what tiers store (those with a price) over the run, `total_usd_per_m_input` for both.
    """

    totals: ReplayTotals
    hit_fraction: float
    hit_fraction_by_tier: dict[str, float]
    vetoed_fraction_by_pool: dict[str, float]
    recomputed_fraction: float
    written_bytes_per_s: dict[str, float]
    written_bytes_per_day: dict[str, float]
    chip_s_saved: float
    ttft_mean_s: float
    ttft_p99_s: float
    uncached_mean_s: float
    uncached_p99_s: float
    slower_requests: int
    write_share: dict[str, float]
    usd_per_m_input: float | None
    storage_usd_per_m_input_by_tier: dict[str, float]
    total_usd_per_m_input: float | None


def compare_policies(
    trace: Trace,
    policies: Sequence[WindowPolicy],
    deployment: CacheDeployment,
    advance: Callable[[int], None] | None = None,
) -> list[PolicyRow]:
    """Replay the trace once a policy; `advance` is called with requests served over all of them.

    Assumes: every chip of the deployment holds a share of each prompt's cache and loads it at the
    bandwidth that a tier states for the node; a prompt served alone takes the time of all chips.
    """
    check_block_ids(trace)
    jobs = min(len(policies), os.cpu_count() or 1)
    if jobs == 1 or len(policies) * len(trace) < _WORTH_PROCESSES:
        setup, prompts = restore_setup(deployment), TraceRuns(trace)
        return [
            _replayed(prompts, policy, deployment, setup, _shifted(advance, number * len(trace)))
            for number, policy in enumerate(policies)
        ]
    with ProcessPoolExecutor(
        jobs, get_context("spawn"), initializer=_set_up, initargs=(trace, deployment)
    ) as pool:
        runs = [pool.submit(_replay_apart, policy) for policy in policies]
        for number, run in enumerate(as_completed(runs), 1):
            run.result()  # the first fault ends the comparison
            if advance is not None:
                advance(number * len(trace))
        return [run.result() for run in runs]


Setup = tuple[RestoreTimer, Callable[[WindowPolicy], CacheRules]]


# What the replays of one process share: read, priced and remembered once.
_SHARED: list[tuple[TraceRuns, CacheDeployment, Setup]] = []


def _set_up(trace: Trace, deployment: CacheDeployment) -> None:
    _SHARED[:] = [(TraceRuns(trace), deployment, restore_setup(deployment))]


def _replay_apart(policy: WindowPolicy) -> PolicyRow:
    """One policy in a process of its own."""
    [(runs, deployment, setup)] = _SHARED
    return _replayed(runs, policy, deployment, setup, None)


def _replayed(
    runs: TraceRuns,
    policy: WindowPolicy,
    deployment: CacheDeployment,
    setup: Setup,
    advance: Callable[[int], None] | None,
) -> PolicyRow:
    timer, rules_of = setup
    cache = cache_of(deployment.tiers, rules_of(policy), runs.trace.block_tokens)
    replay = Replay(
        runs.trace,
        cache,
        replace(timer, rows_with_pages=policy.everywhere),
        ReplayRules(
            choose=deployment.choose,
            share_link=deployment.share_link,
            share_writes=deployment.share_writes,
            token_ns=_rounded(timer.token_ns),
        ),
        runs,
    )
    return policy_row(replay.run(advance), deployment)


def _eviction(of: str, text: str) -> str:
    """Name of an eviction policy, known to be one."""
    try:
        return parse_eviction(text).name
    except InputError as error:
        raise InputError(f"--{of}-eviction: {error.message}") from None


def deployment_for(
    *,
    node: str,
    tiers: str,
    write: str = "through",
    page_eviction: str = "lru",
    window_eviction: str = "lru",
    state_eviction: str | None = None,
    choose: bool = False,
    share_link: bool = False,
    share_writes: bool = False,
    drafts: bool = False,
    **deployment: Any,
) -> CacheDeployment:
    """A deployment on a whole node by names or paths; raises `InputError` for what is unknown.

    `deployment` as of `ask_deployment`, but for the chips, which are the node's. Without `tp` and
    `dp` it takes all chips as one tensor group, or where the model's weights cannot be cut so, as
    many as work (see `working_layout`).
    """
    spec = load_node(node)
    tp, dp = deployment.get("tp"), deployment.get("dp", 1)
    if tp is not None and tp * dp != spec.chip_count:
        raise InputError(
            f"tp {tp} x dp {dp} is {tp * dp} chips, but node {node} has {spec.chip_count}; "
            "tp x dp is the chips of the node"
        )
    asked = ask(**deployment, chip=spec.chip, count=spec.chip_count, phase="prefill")
    layout = _layout_of(asked, is_default=tp is None and dp == 1)
    # The node's own links, which an edited file may have changed.
    asked = asked.changed(node=spec.with_links_of(asked.chip), parallel=layout)
    sold_as = priced_as(asked.chip)
    price = find_price(sold_as) if sold_as in list_priced_chips() else None
    return CacheDeployment(
        asked=asked,
        tiers=load_tiers(tiers),
        write=find_write_policy(write),
        page_eviction=_eviction("page", page_eviction),
        window_eviction=_eviction("window", window_eviction),
        state_eviction=None if state_eviction is None else _eviction("state", state_eviction),
        choose=choose,
        share_link=share_link,
        share_writes=share_writes,
        drafts=drafts,
        usd_per_chip_hour=None if price is None else float(price.usd_per_hour.si),
        price_text="" if price is None else price.describe(sold_as),
    )


def _layout_of(asked: AskedStep, is_default: bool) -> ParallelLayout:
    """How the model lies on the chips: as asked, or as it can."""
    question = asked.question
    precision = asked.deployment.formats.precision
    return working_layout(asked.config, precision, question.layout, is_default=is_default)


def too_small(
    deployment: CacheDeployment, policies: Sequence[WindowPolicy], block_tokens: int
) -> list[str]:
    """A sentence for every tier that has no room for one block of a trace, or for one window."""
    _, rules_of = restore_setup(deployment)
    found = []
    for policy in policies:
        for store in TieredCache(deployment.tiers, rules_of(policy), block_tokens).stores:
            lacks = []
            if store.pages.capacity_blocks == 0:
                lacks.append(f"a block of {block_tokens:,} tokens ({store.block_bytes:,} B)")
            share = store.tier.window_share
            windows = store.tier.capacity_bytes * (1 if share is None else share)
            if policy.stores_windows and windows < store.checkpoint_bytes:
                lacks.append(f"a window ({store.checkpoint_bytes:,} B)")
            if lacks:
                found.append(
                    f"{policy.name}: tier {store.tier.name} of {store.tier.capacity_bytes:,} B has "
                    f"no room for {' or '.join(lacks)}"
                )
    return found


def restore_setup(
    deployment: CacheDeployment,
) -> tuple[RestoreTimer, Callable[[WindowPolicy], CacheRules]]:
    """What times a deployment's hits, and its rules for a policy."""
    asked = deployment.asked
    steps = StepTimer(asked)
    clock = PrefillClock(steps.total_ps, 4 * asked.config.index_topk)
    sizes, geometry = deployment.sizes, WindowGeometry.of_model(asked.config)
    timer = RestoreTimer(
        tiers=deployment.tiers,
        sizes=sizes,
        layers=geometry.layers,
        prefill_ns=clock.prefill_ns,
        token_ns=clock.token_ns,
        layer_by_layer=deployment.layer_by_layer,
    )

    def rules(policy: WindowPolicy) -> CacheRules:
        return CacheRules(
            policy=policy,
            geometry=geometry,
            sizes=sizes,
            write=deployment.write,
            page_eviction=deployment.page_eviction,
            window_eviction=deployment.window_eviction,
            state_eviction=deployment.state_eviction,
            draft_granules=deployment.draft_granules,
        )

    return timer, rules


def policy_row(totals: ReplayTotals, deployment: CacheDeployment) -> PolicyRow:
    """Figures of a run."""
    tokens, span_s = max(1, totals.input_tokens), max(1e-9, totals.span_s)
    chips = deployment.asked.question.count
    price = deployment.usd_per_chip_hour
    computing_s = totals.computing_ns / 1e9
    usd = None if price is None else computing_s * chips * price / 3600 / tokens * 1e6
    storage = _storage_usd(totals, deployment, span_s / 3600 / tokens * 1e6)
    per_s = {tier.name: tier.written_bytes / span_s for tier in totals.tiers}
    return PolicyRow(
        totals=totals,
        hit_fraction=totals.loaded_tokens / tokens,
        hit_fraction_by_tier={t.name: t.loaded_tokens / tokens for t in totals.tiers},
        vetoed_fraction_by_pool={p: n / tokens for p, n in totals.vetoed_tokens.items()},
        recomputed_fraction=totals.recomputed_tokens / tokens,
        written_bytes_per_s=per_s,
        written_bytes_per_day={name: SECONDS_A_DAY * rate for name, rate in per_s.items()},
        chip_s_saved=(int(totals.uncached_ns.sum()) / 1e9 - computing_s) * chips,
        ttft_mean_s=float(totals.ttft_ns.mean()) / 1e9,
        ttft_p99_s=float(np.percentile(totals.ttft_ns, 99)) / 1e9,
        uncached_mean_s=float(totals.uncached_ns.mean()) / 1e9,
        uncached_p99_s=float(np.percentile(totals.uncached_ns, 99)) / 1e9,
        slower_requests=int((totals.ttft_ns > totals.uncached_ns).sum()),
        write_share={tier.name: tier.write_busy_s / span_s for tier in totals.tiers},
        usd_per_m_input=usd,
        storage_usd_per_m_input_by_tier=storage,
        total_usd_per_m_input=None if usd is None else usd + sum(storage.values()),
    )


def _storage_usd(
    totals: ReplayTotals, deployment: CacheDeployment, hours_per_m_input: float
) -> dict[str, float]:
    """Of the tiers with a price, for what they store at most."""
    found = {}
    for tier, run in zip(deployment.tiers, totals.tiers, strict=True):
        per_hour = tier.usd_per_hour(run.peak_bytes, run.device_years)
        if per_hour is not None:
            found[tier.name] = per_hour * hours_per_m_input
    return found


def _rounded(token_ns: Callable[[int], int]) -> Callable[[int], int]:
    """A reply token's time, costed at few contexts."""
    known: dict[int, int] = {}

    def rounded(context: int) -> int:
        near = round_up(max(1, context), _REPLY_STEP_TOKENS)
        if near not in known:
            known[near] = token_ns(near)
        return known[near]

    return rounded


def _shifted(advance: Callable[[int], None] | None, before: int) -> Callable[[int], None] | None:
    return None if advance is None else lambda served: advance(before + served)
