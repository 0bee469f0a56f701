"""Price of an engine's kernel: its program's time, never less than the roofline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hwmodels.machine.live import to_ps
from simulator.cost.family_call import (
    FamilyCall,
    Priced,
    borrowable,
    kernel_of,
    priced_calls,
)
from simulator.cost.price import Price, Target
from simulator.cost.roofline import roofline_price
from simulator.cost.tile import tile_prices
from simulator.engine.kernel import Demand
from simulator.kernels.causes import CAUSE_OF_RESOURCE, shared_out
from simulator.kernels.parts import Parts


def kernel_prices(demands: Iterable[Demand], target: Target, fidelity: str) -> dict[Demand, Price]:
    """Price of every distinct demand by `roofline` or by `tile`; those cut into tiles together.

    Assumes: a kernel that no calibrated family covers takes as long as the tile model says.
    Assumes: kernels of an attention module side by side do not slow each other down, as the
        measured modules that they were fitted to.
    """
    distinct = list(dict.fromkeys(demands))
    if fidelity == "roofline":
        # What does not slow others down at `tile` does not at its bound either.
        return {
            demand: replace(roofline_price(demand, target), contends=contends(demand, target))
            for demand in distinct
        }
    programs = {demand: _program_price(demand, target) for demand in distinct}
    tiled = [demand for demand, price in programs.items() if price is None]
    found = dict(zip(tiled, tile_prices(tiled, target), strict=True))
    return {demand: price or found[demand] for demand, price in programs.items()}


def contends(demand: Demand, target: Target) -> bool:
    """Whether a kernel slows down those beside it: not one of a measured attention module."""
    return demand.priced_as is None or not kernel_of(demand, target).stage


def engine_price(demand: Demand, target: Target) -> Price:
    """Price of one kernel at fidelity `tile`."""
    return kernel_prices([demand], target, "tile")[demand]


def _program_price(demand: Demand, target: Target) -> Price | None:
    """Time by the program that the engine's profile names; None where that is the tile model."""
    found = program_price(demand, target)
    return found[0] if found else None


def program_price(demand: Demand, target: Target) -> tuple[Price, list[FamilyCall]] | None:
    """The same with the calls of families that the kernel consists of.

    Kernels of an attention module have the interval of the module, which was measured whole.
    """
    from simulator.cost.programs import program_calls

    calls = program_calls(demand, target)
    priced = priced_calls(calls, target.chip)
    if calls is None or priced is None:
        return None
    stage = kernel_of(demand, target).stage
    module = target.profile.module
    if stage and module is not None:
        borrowed = any(call.constants.borrowed or call.derived for call in calls)
        priced = Priced(priced.parts, borrowable(module, target.chip), borrowed)
    interval = priced.interval(demand, module=bool(stage) and module is not None)
    floor = roofline_price(demand, target)
    seconds = {cause: float(value[0]) for cause, value in priced.parts.seconds.items()}
    total = to_ps(sum(seconds.values()))
    causes = shared_out(total, seconds)
    short = floor.alone_ps - total
    if short > 0:
        cause = CAUSE_OF_RESOURCE[max(floor.busy_ps, key=lambda name: floor.busy_ps[name])]
        causes[cause] = causes.get(cause, 0) + short
        total = floor.alone_ps
    launch = min(causes.get("launch", 0), total)
    price = Price(
        run_ps=total - launch,
        busy_ps={**floor.busy_ps, "launch": launch},
        traffic=floor.traffic,
        causes_ps=causes,
        priced_by=priced.family,
        low=interval.low,
        high=interval.high,
        calibrated=interval.calibrated,
        contends=contends(demand, target),
        cut=priced.parts.cut,
        work=_work(demand, priced.parts),
    )
    return price, calls


def _work(demand: Demand, parts: Parts) -> dict[str, float]:
    """Work of the calls; of programs that say none, that of the nodes."""
    own = {name: float(np.asarray(value).sum()) for name, value in parts.work.items()}
    return {"macs": float(sum(product.macs for product in demand.products))} | own
