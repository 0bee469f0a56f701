"""What stands behind the times of an engine's kernels: the objects whose docstrings say so."""

from __future__ import annotations

from collections.abc import Iterable

from hwmodels.chip import ChipSpec
from hwmodels.machine.power import throttled_seconds
from simulator.cost.price import Price
from simulator.engine.kernel import Demand
from simulator.kernels.constants_file import chip_standing, constants_for
from simulator.kernels.interval import (
    Interval,
    interval_of,
    interval_of_sum,
    least_deviation,
)
from simulator.kernels.standing import Standing, distance_between


def always_assumed() -> tuple[object, ...]:
    """What every result's interval and causes rest on."""
    from simulator.cost import records

    return (records, records.step_interval, interval_of_sum, least_deviation, interval_of)


def cores_assumed(chip: ChipSpec) -> tuple[object, ...]:
    """What tiles on the chip's cores rest on, beyond what holds for all chips."""
    from simulator.cost.tile_buffers import CubeCores, cube_cores

    cubes = (CubeCores,) if cube_cores(chip) else ()
    return (*cubes, *_memory_assumed(chip), *_distance_assumed(chip))


def _distance_assumed(chip: ChipSpec) -> tuple[object, ...]:
    """What intervals of a chip rest on that was not fitted."""
    if chip_standing(chip).calibrated:
        return ()
    return (Standing.reaches, Standing.far, distance_between)


def _memory_assumed(chip: ChipSpec) -> tuple[object, ...]:
    """What the timing of a memory rests on whose preset the chip's file leaves out or edits."""
    from hwmodels.dram.edited_preset import edited_preset
    from hwmodels.dram.memory_preset import named_preset
    from simulator.kernels.warmth import memory_bytes_per_s

    named = () if chip.memory.preset else (named_preset,)
    return (*named, edited_preset, memory_bytes_per_s) if chip.memory.replaced else named


def engine_assumed(prices: Iterable[tuple[Demand, Price]]) -> tuple[object, ...]:
    """Objects whose `Assumes:` lines hold for kernels that programs of an engine priced."""
    programs, families, calibrated = dict[str, None](), dict[str, None](), True
    for demand, price in prices:
        if demand.priced_as is not None:
            programs[demand.priced_as.program] = None
            if price.priced_by != "tile":
                families[price.priced_by] = None
                calibrated = calibrated and price.calibrated
    if not programs:
        return ()
    found: list[object] = [*_shared(), *_forms(programs), *_families(families)]
    return tuple(found if calibrated else [*found, *_doubts()])


def _shared() -> list[object]:
    from simulator.cost.engine_price import kernel_prices
    from simulator.engine.kernel_section import FusedKernel
    from simulator.engine.phase import is_decode, uniform
    from simulator.engine.physical_layout import PoolGeometry
    from simulator.kernels.warmth import warm_share
    from simulator.kernels.waves import waves_of

    return [
        kernel_prices,
        is_decode,
        uniform,
        PoolGeometry.picked_row_bytes,
        FusedKernel.runs_beside,
        warm_share,
        waves_of,
    ]


def _doubts() -> list[object]:
    return [constants_for, Interval.widened]


def _forms(programs: Iterable[str]) -> list[object]:
    """Programs, and the forms of families that they use."""
    from simulator.cost import collectives
    from simulator.cost.programs import PROGRAMS
    from simulator.kernels import (
        core_rates,
        elementwise,
        expert_tokens,
        gemm_time,
        hyper_connection,
        index_logits,
        moe_gemm,
        moe_layer,
        nccl,
        power,
        sparse_core,
    )

    gemms = (gemm_time, power.power_seconds, throttled_seconds)
    links = (nccl.rank_bytes_per_s, nccl.protocol_seconds, collectives.between_nodes)
    moved = (elementwise.elementwise_parts, core_rates.vector_ops_per_clock)
    used: dict[str, tuple[object, ...]] = {
        "index_logits": (
            index_logits.IndexLogits,
            index_logits.padded_share,
            core_rates.core_rate,
        ),
        "core": (sparse_core.KeyTime, sparse_core.held_heads, core_rates.core_rate),
        "gemm": gemms,
        "moe": (
            moe_gemm.grouped_gemm_seconds,
            expert_tokens.expected_experts,
            moe_layer.MoeFamily.passed_bytes,
        ),
        "mhc_pre": (hyper_connection.warm_streams, hyper_connection._sites),
        "mhc_post": (hyper_connection._sites,),
        "elementwise": moved,
        "pad": moved,
        **dict.fromkeys(("all_reduce", "gather_scatter", "exchange"), links),
    }
    return [thing for name in programs for thing in (PROGRAMS[name], *used.get(name, ()))]


def _families(names: Iterable[str]) -> list[object]:
    """Families and what they choose."""
    from simulator.kernels.graph_all_reduce import GraphAllReduce
    from simulator.kernels.registry import find_family

    found: list[object] = []
    for name in names:
        family = find_family(name)
        found.append(type(family))
        if isinstance(family, GraphAllReduce):
            found.append(type(family).own)
    return found
