"""The roofline: every resource at its peak, all overlapped; the slowest sets the time."""

from __future__ import annotations

from hwmodels.machine import to_ps
from simulator.cost.collective import link_seconds
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT, product_rate
from simulator.cost.price import Price, Target
from simulator.cost.traffic import traffic
from simulator.engine.kernel import Demand
from simulator.kernels.causes import CAUSE_OF_RESOURCE


def roofline_price(demand: Demand, target: Target) -> Price:
    """Launch gap + max(work / peak of each unit, memory bytes / bandwidth, link time).

    Assumes: all units, memory and links overlap perfectly within a kernel, and kernels of
        different streams share them without loss.
    Assumes: every kernel waits for one launch gap of a replayed graph on its stream.
    """
    chip = target.chip
    moved = traffic(demand, chip.llc_bytes)
    seconds = unit_seconds(demand, target)
    seconds["memory"] = moved.dram_bytes / chip.hbm_bandwidth_bytes_per_s
    seconds["llc"] = moved.llc_bytes / chip.llc_bandwidth_bytes_per_s
    busy = {resource: to_ps(duration) for resource, duration in seconds.items()}
    longest = max(busy, key=lambda resource: busy[resource])
    launch = to_ps(chip.launch_gap_s)
    causes = {"launch": launch, CAUSE_OF_RESOURCE[longest]: busy[longest]}
    busy["launch"] = launch
    return Price(
        run_ps=busy[longest],
        busy_ps=busy,
        traffic=moved,
        causes_ps={cause: part_ps for cause, part_ps in causes.items() if part_ps},
        priced_by="roofline",
        work={"macs": float(sum(product.macs for product in demand.products))},
    )


def unit_seconds(demand: Demand, target: Target) -> dict[str, float]:
    """Time of matrix, vector and special-function units and of the links, each at its peak."""
    chip = target.chip
    seconds = {
        "matrix": 0.0,
        "vector": demand.vector_ops / chip.vector_flops_per_s,
        "special": demand.special_ops / chip.special_ops_per_s,
        "link": link_seconds(demand, target.node, bound=True),
    }
    for product in demand.products:
        rate = product_rate(chip, product)
        seconds[rate.unit] += 2 * product.macs / rate.flops_per_s
        if rate.convert:
            converted = CONVERT_OPS_PER_WEIGHT * product.weight_elements
            seconds["vector"] += converted / chip.vector_flops_per_s
    return seconds
