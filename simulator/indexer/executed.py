"""The indexer of the model that runs: its own queries, keys and attention in place of made-up ones.

The golden file's model runs over its prompt; one layer's index queries, keys and head weights are
kept for the last tokens, which see all entries, and with them what the layer's attention looks at.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from simulator.basis.errors import InputError
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


def holds_model(path: Path) -> bool:
    """Whether an `.npz` file holds a model with its prompt, and not index queries and keys."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return {"config.npy", "input_ids.npy"} <= set(file.namelist())


def given_case(path: Path, model: ModelConfig) -> IndexCase:
    """The case of a file's own model, whose indexer must have the dimensions of the asked one."""
    case, config = executed_case(path)
    for field in ("index_n_heads", "index_head_dim", "index_topk"):
        found, wanted = getattr(config, field), getattr(model, field)
        if found != wanted:
            raise InputError(
                f"{path}: its model has {field} {found:,}, but --model {model.name} has "
                f"{wanted:,}; give the file's own configuration as --model"
            )
    return case


def executed_case(path: Path | None = None) -> tuple[IndexCase, ModelConfig]:
    """Last queries of the first layer with an indexer, and the model that ran.

    The model is the shipped golden file's, or that of a file of the same form.
    """
    raw, ids, weights = load_inputs(path or shipped_golden_file())
    config = model_from_mapping(raw, name=path.stem if path else "tiny")
    check_indexer(path, config, len(ids))
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
        about=f"layer {layer} of the model of {path.name if path else 'the golden file'} run over "
        f"its {len(ids)} tokens: its own index queries, keys and attention",
        q=values[names["q"]][seeing].astype(np.float32),
        k=keys.astype(np.float32),
        w=values[names["w"]][seeing].astype(np.float32),
        attention=attention,
        synthetic=False,
    )
    return case, config


def check_indexer(path: Path | None, config: ModelConfig, tokens: int) -> None:
    """Raise InputError where no layer has an indexer, or all entries of the prompt are picked."""
    ratios = [layer.ratio for layer in config.layers if layer.indexed]
    if not ratios:
        raise InputError(f"{path}: no layer of its model has an indexer")
    least = (config.index_topk + 1) * ratios[0]
    if tokens < least:
        raise InputError(
            f"{path}: its prompt has {tokens:,} tokens, in which all of "
            f"{tokens // ratios[0]:,} entries would be picked of {config.index_topk:,}; give at "
            f"least {least:,} ({least - tokens:,} more)"
        )


def _stored(evaluator: Evaluator, region: str, row: int, count: int) -> Array:
    pool = evaluator.pools[region]
    return pool.format.decode(pool.data[pool.slots(row, np.arange(count))])
