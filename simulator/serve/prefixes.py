"""The prefix cache that a scenario asks for, one for each replica."""

from __future__ import annotations

from collections.abc import Callable

from simulator.basis.errors import InputError
from simulator.prefix.cached_bytes import cached_bytes
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tier import load_tiers
from simulator.prefix.tiered_cache import CacheRules
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from simulator.prefix.write_policy import find_write_policy
from simulator.serve.deployment import DeployedReplica
from simulator.serve.prefix_source import NoPrefixes, PrefixSource
from simulator.serve.scenario import PrefixCache, Scenario
from simulator.serve.tiered_prefixes import TraceRuns, device_tier, tiered_prefixes
from workloads.traffic.trace import Trace


def prefix_maker(
    scenario: Scenario, deployment: DeployedReplica, trace: Trace
) -> Callable[[], PrefixSource]:
    """What makes the cache of a replica; all share the block ids of the trace."""
    wanted = scenario.prefix_cache
    if wanted is None:
        return NoPrefixes
    if not trace.block_tokens:
        raise InputError(
            f"a prefix cache is asked for, but the trace {trace.name!r} has no block ids that say "
            "which prompts share a prefix; leave prefix_cache out, or give a trace with ids"
        )
    runs = TraceRuns(trace)
    rules = cache_rules(wanted, deployment)
    lower = load_tiers(wanted.tiers)[1:] if wanted.tiers else ()
    nbytes = deployment.cache_tokens * rules.sizes.page_bytes / rules.sizes.page_tokens
    loads = deployment.geometry.layout.loads
    timer = RestoreTimer(
        tiers=[device_tier(nbytes), *lower],
        sizes=rules.sizes,
        layers=rules.geometry.layers,
        prefill_ns=deployment.prefill_ns,
        layer_by_layer=loads is None or loads.by_layer,
        rows_with_pages=rules.policy.everywhere,
    )
    return lambda: tiered_prefixes(runs, rules, lower, timer, nbytes)


def cache_rules(wanted: PrefixCache, deployment: DeployedReplica) -> CacheRules:
    """Policies of a scenario, sizes of its engine and model."""
    return CacheRules(
        policy=parse_window_policy(
            wanted.window_policy, deployment.geometry.layout.retention.policy
        ),
        geometry=WindowGeometry.of_model(deployment.capacity.question.config),
        sizes=cached_bytes(deployment.geometry),
        write=find_write_policy(wanted.write_policy),
        page_eviction=wanted.eviction,
        window_eviction=wanted.eviction,
    )
