"""Cache regions of each kind of layer: what a request's state consists of."""

from __future__ import annotations

from dataclasses import replace

from simulator.basis.errors import InputError
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.deepseek_v4.precision import Precision
from workloads.state_layout import Every, Region, Ring, Sliding, StateLayout, Tail


def layer_regions(
    config: ModelConfig,
    precision: Precision,
    attention: LayerAttention,
    draft_tokens: int = 0,
    paged_window: bool = False,
) -> dict[str, Region]:
    """Regions of one layer by the name of their pool, in the order in which a request lists them.

    Rings and tails are longer by the draft tokens of a step, so that refused ones have overwritten
    nothing that the next query or block needs. Engines round up further: SGLang doubles its rings.
    With `paged_window` the window lies in pages in place of a ring.
    """
    kv = precision.kv_format(config)
    held = (Sliding if paged_window else Ring)(config.sliding_window + draft_tokens)
    regions = [Region("window", "window", held, kv)]
    if attention.ratio:
        kind, pool, every = attention.kind, attention.pool, Every(attention.ratio)
        tail = Tail(attention.halves * attention.ratio + draft_tokens)
        state = precision.state_format(attention.halves, config.head_dim)
        regions += [
            Region(pool, kind, every, kv),
            Region(f"{pool}_state", f"{kind}_state", tail, state),
        ]
        if attention.indexed:
            state = precision.state_format(attention.halves, config.index_head_dim)
            index = precision.index_format(config)
            regions += [
                Region(f"{pool}_index", f"{kind}_index", every, index),
                Region(f"{pool}_index_state", f"{kind}_index_state", tail, state),
            ]
    return {region.pool: region for region in regions}


def model_state(
    config: ModelConfig,
    precision: Precision,
    mtp: bool = False,
    draft_tokens: int = 0,
    paged_window: bool = False,
) -> StateLayout:
    """All regions of a model, named as in the graph; rings longer by `draft_tokens`."""
    if draft_tokens < 0:
        raise InputError(f"a step has 0 draft tokens or more, but got {draft_tokens}")
    layers = [(layer_name(i), attention) for i, attention in enumerate(config.layers)]
    if mtp:
        layers += [
            (mtp_name(stage), attention) for stage, attention in enumerate(config.mtp_stages)
        ]
    return StateLayout(
        tuple(
            replace(region, name=f"{layer}/attn/{name}")
            for layer, attention in layers
            for name, region in layer_regions(
                config, precision, attention, draft_tokens, paged_window
            ).items()
        )
    )


def layer_name(index: int) -> str:
    """Scope of a backbone layer."""
    return f"layer{index:02d}"


def next_ids_name(stage: int) -> str:
    """Input of an MTP layer: the ids as many tokens ahead as its place says, from 1 on."""
    return f"next_ids{stage}" if stage else "next_ids"


def mtp_name(stage: int) -> str:
    """Scope of an MTP layer."""
    return f"mtp{stage}" if stage else "mtp"
