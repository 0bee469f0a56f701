"""The indexer of the model that runs: its own queries, keys and attention in place of made-up ones.

The golden file's model runs over its prompt; one layer's index queries, keys and head weights are
kept for the last tokens, which see all entries, and with them what the layer's attention looks at.
"""

from __future__ import annotations

import numpy as np

from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import load_inputs
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from simulator.indexer.index_case import IndexCase
from simulator.indexer.layer_output import QueryAttention
from workloads.block_scale import Array
from workloads.deepseek_v4.config import ModelConfig, model_from_mapping
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_name, model_state


def executed_case() -> tuple[IndexCase, ModelConfig]:
    """Last queries of the first layer with an indexer, and the model that ran."""
    raw, ids, weights = load_inputs(shipped_golden_file())
    config = model_from_mapping(raw, name="tiny")
    pools = pools_of(model_state(config, Precision()))
    table = RequestTable(1, len(ids), page_tokens=page_multiple(pools), pools=pools)
    evaluator = Evaluator(config, weights, table)
    row = table.admit()
    layer = next(i for i, one in enumerate(config.layers) if one.indexed)
    scope, ratio = f"{layer_name(layer)}/attn", config.layers[layer].ratio
    names = {
        "q": f"{scope}/indexer/q_round",
        "w": f"{scope}/indexer/weights",
        "heads": f"{scope}/q_rope",
        "kv": f"{scope}/kv_round",
    }
    values = evaluator.step([(row, ids)], keep=names.values()).values
    count = len(ids) // ratio
    seeing = [t for t in range(len(ids)) if (t + 1) // ratio == count]
    pool = config.layers[layer].pool
    keys, entries = (
        _stored(evaluator, f"{scope}/{name}", row, count) for name in (f"{pool}_index", pool)
    )
    sink = evaluator.params[f"{scope}/sink"]
    attention = tuple(
        QueryAttention(
            q=values[names["heads"]][t].astype(np.float32),
            keys=np.concatenate(
                [values[names["kv"]][max(0, t + 1 - config.sliding_window) : t + 1], entries]
            ).astype(np.float32),
            sink=sink.astype(np.float32),
            window=min(t + 1, config.sliding_window),
        )
        for t in seeing
    )
    case = IndexCase(
        name="executed",
        about=f"layer {layer} of the golden file's model run over its {len(ids)} tokens: its own "
        "index queries, keys and attention",
        q=values[names["q"]][seeing].astype(np.float32),
        k=keys.astype(np.float32),
        w=values[names["w"]][seeing].astype(np.float32),
        attention=attention,
        synthetic=False,
    )
    return case, config


def _stored(evaluator: Evaluator, region: str, row: int, count: int) -> Array:
    pool = evaluator.pools[region]
    return pool.format.decode(pool.data[pool.slots(row, np.arange(count))])
