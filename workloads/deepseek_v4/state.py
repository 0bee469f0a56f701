"""Cache regions of each kind of layer: what a request's state consists of."""

from __future__ import annotations

from dataclasses import replace

from simulator.basis.errors import InputError
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.state_layout import Every, Region, Ring, StateLayout, Tail

# Overlapping blocks (ratio 4) pool two halves of the projection: previous block and own block.
HALVES = {4: 2, 128: 1}


def layer_regions(
    config: ModelConfig, precision: Precision, ratio: int, draft_tokens: int = 0
) -> dict[str, Region]:
    """Regions of one layer by local name, in the order in which a request lists them.

    Rings and tails are longer by the draft tokens of a step, so that refused ones have overwritten
    nothing that the next query or block needs. Engines round up further: SGLang doubles its rings.
    """
    kv = precision.kv_format(config)
    window = Ring(config.sliding_window + draft_tokens)
    regions = {"window": Region("window", "window", window, kv)}
    if ratio:
        pool = f"c{ratio}"
        halves = HALVES[ratio]
        state = precision.state_format(halves, config.head_dim)
        regions[pool] = Region(pool, pool, Every(ratio), kv)
        regions["state"] = Region("state", "state", Tail(halves * ratio + draft_tokens), state)
    if ratio == 4:
        state = precision.state_format(HALVES[4], config.index_head_dim)
        index = precision.index_format(config)
        regions["index"] = Region("index", "index", Every(4), index)
        tail = Tail(HALVES[4] * 4 + draft_tokens)
        regions["index_state"] = Region("index_state", "index_state", tail, state)
    return regions


def model_state(
    config: ModelConfig, precision: Precision, mtp: bool = False, draft_tokens: int = 0
) -> StateLayout:
    """All regions of a model, named as in the graph; rings longer by `draft_tokens`."""
    if draft_tokens < 0:
        raise InputError(f"a step has 0 draft tokens or more, but got {draft_tokens}")
    ratios = [(layer_name(i), r) for i, r in enumerate(config.layer_ratios)]
    if mtp:
        ratios += [(mtp_name(stage), ratio) for stage, ratio in enumerate(config.mtp_ratios)]
    return StateLayout(
        tuple(
            replace(region, name=f"{layer}/attn/{name}")
            for layer, ratio in ratios
            for name, region in layer_regions(config, precision, ratio, draft_tokens).items()
        )
    )


def layer_name(index: int) -> str:
    """Scope of a backbone layer."""
    return f"layer{index:02d}"


def mtp_name(stage: int) -> str:
    """Scope of an MTP layer."""
    return f"mtp{stage}" if stage else "mtp"
