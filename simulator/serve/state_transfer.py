"""State of a prompt on its way from a prefill replica to a decode replica.

What is sent follows from the model and its formats: compressed entries and index keys of the
prompt, the window's rows, and the compressor's rows that are not yet folded into an entry.

Assumes: state is sent when the prompt is done, over the network links of all chips of the prefill
    replica together, each rank a part; the tensor ranks of the decode replica share what they get
    among them at no cost. Replicas have links of their own; transfers from one follow one another.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy

from hwmodels.node import find_node
from simulator.engine.physical_layout import CacheGeometry
from simulator.serve.deployment import DeployedReplica
from simulator.serve.live_request import LiveRequest
from simulator.serve.scenario import Scenario


class StateTransfer:
    """Sends requests on; `arrive` is called when their state is there."""

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
        # One queue for each data rank of each prefill replica.
        links = parallel.data * (split.prefill_replicas if split else 1)
        self._free_ns = [0] * links
        self.sent_bytes = 0

    def send(self, request: LiveRequest) -> None:
        """Queue the state of a prompt on the link that is free first."""
        nbytes = transferred_bytes(self.geometry, request.input_tokens)
        self.sent_bytes += nbytes
        now = int(self.env.now)
        link = min(range(len(self._free_ns)), key=self._free_ns.__getitem__)
        begin = max(now, self._free_ns[link])
        end = begin + self.latency_ns + round(nbytes / self.bytes_per_ns)
        self._free_ns[link] = end
        arrived = self.env.timeout(end - now)
        arrived.callbacks.append(lambda _: self.arrive(request))


def transferred_bytes(geometry: CacheGeometry, tokens: int) -> int:
    """Bytes of a prompt's state in the engine's row formats, without padding.

    A compressor keeps the rows of its open block; where blocks overlap, that before it as well:
    tokens % 4 + 4 rows at a ratio of 4.
    Source: SGLang 0.5.23, disaggregation.
    """
    total = 0
    for pool in geometry.pools:
        if pool.lives == "context":
            rows = tokens // pool.ratio
        elif pool.kind == "window":
            rows = min(tokens, pool.reach_tokens)
        else:
            overlap = pool.reach_tokens // 2 if pool.kind.startswith("csa") else 0
            rows = min(tokens, tokens % (pool.reach_tokens - overlap) + overlap)
        total += pool.layers * rows * pool.row_bytes
    return total
