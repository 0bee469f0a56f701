"""The replicas of a scenario, the way to them, and from prefill replicas to decode replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import simpy

from hwmodels.node import find_node
from simulator.engine.physical_layout import CacheGeometry
from simulator.prefix.cached_bytes import cached_bytes
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tier import load_tiers
from simulator.prefix.tiered_cache import CacheRules
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from simulator.prefix.write_policy import find_write_policy
from simulator.serve.deployment import DeployedReplica
from simulator.serve.live_request import LiveRequest
from simulator.serve.lockstep import Lockstep
from simulator.serve.prefix_source import NoPrefixes, PrefixSource
from simulator.serve.replica import Replica
from simulator.serve.resources import Ledger
from simulator.serve.router import ROUTES
from simulator.serve.scenario import PrefixCache, Scenario
from simulator.serve.tiered_prefixes import TieredPrefixes, TraceRuns, device_tier, tiered_prefixes
from simulator.serve.traffic import require_ids
from workloads.traffic.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """What went from prefill to decode replicas: requests, bytes by pool, and the wait for them.

    `link_bytes_per_s`: of one data rank's network links together.
    """

    requests: int
    pool_bytes: Mapping[str, int]
    mean_wait_s: float
    link_bytes_per_s: float
    by_layer: bool

    @property
    def sent_bytes(self) -> int:
        """Bytes of all pools."""
        return sum(self.pool_bytes.values())


class StateTransfer:
    """Sends requests on; `arrive` is called when their state is there.

    What is sent follows from the model and its formats: compressed entries and index keys of the
    prompt, the window's rows, and the compressor's rows that are not yet folded into an entry.

    Assumes: state is sent when the prompt is done (or layer by layer beside it), over the network
        links of all chips of the prefill replica together, each rank a part; the tensor ranks of
        the decode replica share what they get among them at no cost. Replicas have links of their
        own; transfers from one follow one another.
    """

    def __init__(
        self,
        env: simpy.Environment,
        scenario: Scenario,
        prefill: DeployedReplica,
        arrive: Callable[[LiveRequest], None],
    ) -> None:
        self.env = env
        self.arrive = arrive
        self.geometry = prefill.geometry
        parallel = prefill.capacity.question.parallel
        node = find_node(scenario.chip, parallel.ranks)
        self.bytes_per_ns = node.scale_out_bytes_per_s * parallel.tensor / 1e9
        self.latency_ns = round(node.scale_out_latency_s * 1e9)
        split = scenario.disaggregation
        self.by_layer = split is not None and split.transfer == "layer"
        self.layers = prefill.capacity.question.config.num_hidden_layers
        # One queue for each data rank of each prefill replica.
        links = parallel.data * (split.prefill_replicas if split else 1)
        self._free_ns = [0] * links
        self.sent_bytes = self.sent = self.waited_ns = 0
        self.pool_bytes: dict[str, int] = {}

    @property
    def transfers(self) -> Transfers:
        """What was sent so far."""
        return Transfers(
            requests=self.sent,
            pool_bytes=dict(self.pool_bytes),
            mean_wait_s=self.waited_ns / max(1, self.sent) / 1e9,
            link_bytes_per_s=self.bytes_per_ns * 1e9,
            by_layer=self.by_layer,
        )

    def send(self, request: LiveRequest) -> None:
        """Queue the state of a prompt on the link that is free first."""
        pools = transferred_pools(self.geometry, request.input_tokens)
        for name, taken in pools.items():
            self.pool_bytes[name] = self.pool_bytes.get(name, 0) + taken
        nbytes = sum(pools.values())
        self.sent_bytes += nbytes
        self.sent += 1
        now = int(self.env.now)
        link = min(range(len(self._free_ns)), key=self._free_ns.__getitem__)
        whole = round(nbytes / self.bytes_per_ns)
        if self.by_layer:
            # Sent since the prompt was begun; the last layer's part follows its computation.
            begin = max(request.admitted_ns, self._free_ns[link])
            last = now + round(whole / self.layers)
            end = max(last, begin + whole) + self.latency_ns
        else:
            end = max(now, self._free_ns[link]) + self.latency_ns + whole
        self._free_ns[link] = end
        self.waited_ns += end - now
        arrived = self.env.timeout(end - now)
        arrived.callbacks.append(lambda _: self.arrive(request))


def transferred_bytes(geometry: CacheGeometry, tokens: int) -> int:
    """Bytes of a prompt's state, of all pools."""
    return sum(transferred_pools(geometry, tokens).values())


def transferred_pools(geometry: CacheGeometry, tokens: int) -> dict[str, int]:
    """Bytes of a prompt's state by pool, in the engine's row formats, without padding.

    A compressor keeps the rows of its open block; where blocks overlap, that before it as well:
    tokens % 4 + 4 rows at a ratio of 4.
    Source: SGLang 0.5.23, disaggregation.
    """
    found: dict[str, int] = {}
    for pool in geometry.pools:
        if pool.lives == "context":
            rows = tokens // pool.ratio
        elif pool.kind == "window":
            rows = min(tokens, pool.reach_tokens)
        else:
            overlap = pool.reach_tokens // 2 if pool.kind.startswith("csa") else 0
            rows = min(tokens, tokens % (pool.reach_tokens - overlap) + overlap)
        found[pool.name] = found.get(pool.name, 0) + pool.layers * rows * pool.row_bytes
    return found


def prefix_maker(
    scenario: Scenario, deployment: DeployedReplica, trace: Trace
) -> Callable[[], PrefixSource]:
    """What makes the cache of a replica; all share the block ids of the trace."""
    wanted = scenario.prefix_cache
    if wanted is None:
        return NoPrefixes
    require_ids(trace)
    runs = TraceRuns(trace)
    rules = cache_rules(wanted, deployment)
    lower = load_tiers(wanted.tiers)[1:] if wanted.tiers else ()
    tokens = deployment.cache_tokens / deployment.ranks
    nbytes = tokens * rules.sizes.page_bytes / rules.sizes.page_tokens
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
    drafted = deployment.geometry.layout.retention.drafts
    return CacheRules(
        policy=parse_window_policy(
            wanted.window_policy, deployment.geometry.layout.retention.policy
        ),
        geometry=WindowGeometry.of_model(deployment.capacity.question.config),
        sizes=cached_bytes(deployment.geometry),
        write=find_write_policy(wanted.write_policy),
        page_eviction=wanted.eviction,
        window_eviction=wanted.eviction,
        draft_granules=drafted.granules if drafted and deployment.rule.new_per_request > 1 else 0,
    )


Finished = Callable[[LiveRequest], None]


class Fleet:
    """Replicas; a pipeline lane, or a data rank that is simulated, counts as one. Those that decode
    come first.

    With disaggregation, prompts go to prefill replicas, and what they leave over the network to
    decode replicas, which take requests in the order of their arrival there.
    """

    def __init__(
        self,
        env: simpy.Environment,
        scenario: Scenario,
        deployment: DeployedReplica,
        prefill: DeployedReplica | None,
        trace: Trace,
        finished: Finished,
        jumps: bool,
    ) -> None:
        self.env = env
        self.choose = ROUTES[scenario.routing]
        self.refused: dict[str, int] = {}
        self.homes: dict[int, int] = {}
        self._turns = [0, 0]
        self._jumps = jumps
        self._finished = finished
        makes = prefix_maker(scenario, prefill or deployment, trace)
        split = scenario.disaggregation
        self.decoding = self._lanes(
            deployment, scenario.replicas, NoPrefixes if prefill else makes, None
        )
        self.prefilling: list[Replica] = []
        self.transfer: StateTransfer | None = None
        if prefill is not None and split is not None:
            self.transfer = StateTransfer(env, scenario, prefill, self._arrive)
            self.prefilling = self._lanes(
                prefill, split.prefill_replicas, makes, self.transfer.send
            )

    @property
    def prefixes(self) -> tuple[TieredPrefixes, ...]:
        """Prefix caches; lanes of a replica share one."""
        found = {id(r.prefixes): r.prefixes for r in self.replicas}
        return tuple(p for p in found.values() if isinstance(p, TieredPrefixes))

    @property
    def replicas(self) -> list[Replica]:
        """All of them."""
        return [*self.decoding, *self.prefilling]

    def submit(self, request: LiveRequest) -> bool:
        """Send a request to a replica; False where it could not be held even alone."""
        first = self.prefilling or self.decoding
        reason = self.decoding[0].refuses(request) or first[0].refuses(request)
        if reason is not None:
            self.refused[reason] = self.refused.get(reason, 0) + 1
            return False
        place = self._place(first, request, 0)
        self.homes[request.index] = place + (len(self.decoding) if self.prefilling else 0)
        first[place].submit(request)
        return True

    def _arrive(self, request: LiveRequest) -> None:
        """The state of a prompt has reached the decode replicas."""
        request.received = True
        request.shared_tokens = 0
        place = self._place(self.decoding, request, 1)
        self.homes[request.index] = place
        self.decoding[place].submit(request)

    def _place(self, replicas: list[Replica], request: LiveRequest, turn: int) -> int:
        if len(replicas) == 1:
            return 0
        self._turns[turn] += 1
        return self.choose(replicas, request, self._turns[turn] - 1)

    def _lanes(
        self,
        deployment: DeployedReplica,
        replicas: int,
        makes: Callable[[], PrefixSource],
        hand_over: Finished | None,
    ) -> list[Replica]:
        found = []
        for _ in range(replicas):
            prefixes = makes()
            if deployment.ranks > 1:
                ranks = [self._lane(deployment, prefixes, hand_over, drives=False)]
                for _ in range(deployment.ranks - 1):
                    ranks.append(self._lane(deployment, makes(), hand_over, drives=False))
                Lockstep(self.env, ranks, delayer_passes=deployment.delayer_passes)
                found += ranks
                continue
            found += [self._lane(deployment, prefixes, hand_over) for _ in range(deployment.lanes)]
        return found

    def _lane(
        self,
        deployment: DeployedReplica,
        prefixes: PrefixSource,
        hand_over: Finished | None,
        *,
        drives: bool = True,
    ) -> Replica:
        return Replica(
            self.env,
            deployment.rank_clock(),
            Ledger(deployment.resources),
            deployment.rule,
            self._finished,
            prefixes=prefixes,
            jumps=self._jumps,
            hand_over=hand_over,
            drives=drives,
        )
