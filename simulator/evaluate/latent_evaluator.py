"""The packed, paged evaluator for DeepSeek-V3.2. Weights are under the graph's parameter names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.cache.pool_spec import PoolSpec
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v32.config import V32Config
from workloads.deepseek_v32.graph import INDEX, LATENT, build_v32_graph, v32_state
from workloads.graph import Graph
from workloads.op import Array
from workloads.state_layout import StateLayout
from workloads.step_shape import StepShape

POOLS = (PoolSpec(name=LATENT, ratio=1), PoolSpec(name=INDEX, ratio=1))


class LatentEvaluator(Evaluator):
    """Runs steps of one V3.2 model; its table has the `POOLS` of this module."""

    def __init__(
        self,
        config: V32Config,
        weights: Mapping[str, Array],
        table: RequestTable,
        *,
        kv: str = "fp8",
        all_logits: bool = False,
        **options: Any,
    ) -> None:
        self._kv, self._all_logits = kv, all_logits
        super().__init__(config, weights, table, **options)  # type: ignore[arg-type]

    def _built(self, step: StepShape) -> Graph:
        config: Any = self.config
        return build_v32_graph(config, step, kv=self._kv, all_logits=self._all_logits)

    def _weights(self, graph: Graph, weights: Mapping[str, Array]) -> Mapping[str, Array]:
        return {
            name: np.asarray(weights[name]).reshape(own.shape) for name, own in graph.params.items()
        }

    def _state(self, mtp: bool, draft_tokens: int) -> StateLayout:
        config: Any = self.config
        return v32_state(config, self._kv)


def random_v32_weights(config: V32Config, seed: int) -> dict[str, Array]:
    """Weights under the graph's names, scaled so that activations stay near one."""
    rng = np.random.default_rng(seed)
    graph = build_v32_graph(config, StepShape.uniform(1, 1, 0))
    found = {}
    for name, own in graph.params.items():
        _, _, columns = own.matrix
        if name.endswith(("norm", "k_norm_weight")):
            found[name] = 1.0 + 0.3 * rng.standard_normal(own.shape)
        elif name.endswith(("bias",)):
            found[name] = 0.1 * rng.standard_normal(own.shape)
        elif name == "embed/table":
            found[name] = rng.standard_normal(own.shape)
        else:
            found[name] = rng.standard_normal(own.shape) / np.sqrt(columns)
    return found
