"""The replicas of a scenario, the way to them, and from prefill replicas to decode replicas."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from simulator.serve.deployment import DeployedReplica
from simulator.serve.live_request import LiveRequest
from simulator.serve.prefix_source import NoPrefixes, PrefixSource
from simulator.serve.prefixes import prefix_maker
from simulator.serve.replica import Replica
from simulator.serve.resources import Ledger
from simulator.serve.router import ROUTES
from simulator.serve.scenario import Scenario
from simulator.serve.state_transfer import StateTransfer
from simulator.serve.tiered_prefixes import TieredPrefixes
from workloads.traffic.trace import Trace

Finished = Callable[[LiveRequest], None]


class Fleet:
    """Replicas; a pipeline lane counts as one. Those that decode come first.

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
            found += [
                Replica(
                    self.env,
                    deployment.clock,
                    Ledger(deployment.resources),
                    deployment.rule,
                    self._finished,
                    prefixes=prefixes,
                    jumps=self._jumps,
                    hand_over=hand_over,
                )
                for _ in range(deployment.lanes)
            ]
        return found
