"""Kernels that run side by side meet in memory: their accesses go through one window together.

Two passes over a layer: kernels are placed by their own prices; every set that then runs at the
same time is simulated once as one mix; its kernels are priced again, slower by what the mix costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hwmodels.bandwidth.curve import rate_curve
from hwmodels.bandwidth.mix import Mix, joined_parts, mix_bytes
from hwmodels.chip import ChipSpec
from simulator.cost.memory_mix import memory_mix
from simulator.cost.price import Price
from simulator.cost.timeline import Placed, simulate_layer
from simulator.lower.kernel import Demand, Kernel

# Full rate of a mix in bytes a second, and the price of a kernel whose memory is slower by a
# factor.
FullRate = Callable[[Mix], float]
PriceAgain = Callable[[Demand, float], Price]


def joint_prices(
    kernels: Sequence[Kernel],
    prices: Sequence[Price],
    chip: ChipSpec,
    price_again: PriceAgain,
) -> list[Price]:
    """Prices with what kernels of different streams cost each other in memory.

    Assumes: which kernels run side by side is decided by their own prices; what their mix costs
        them is not used to place them anew a third time.
    Assumes: a kernel that runs beside others for a part of its work is slower by that part's share.
    """
    known: dict[object, list[Price]] = {}
    repriced: dict[tuple[Demand, float], Price] = {}
    found: list[Price] = []
    for own, own_prices in _layers(kernels, prices):
        key = tuple(kernel.signature for kernel in own)
        if key not in known:
            known[key] = list(own_prices)
            for i, factor in joint_factors(own, own_prices, chip).items():
                again = (own[i].demand, factor)
                if again not in repriced:
                    repriced[again] = price_again(*again)
                known[key][i] = repriced[again]
        found += known[key]
    return found


def _layers(
    kernels: Sequence[Kernel], prices: Sequence[Price]
) -> Iterator[tuple[list[Kernel], list[Price]]]:
    """Kernels of one scope with their prices."""
    for _, group in groupby(range(len(kernels)), key=lambda i: kernels[i].scope):
        members = list(group)
        yield [kernels[i] for i in members], [prices[i] for i in members]


def joint_factors(
    kernels: Sequence[Kernel], prices: Sequence[Price], chip: ChipSpec
) -> dict[int, float]:
    """Factors on the memory time of the kernels of a layer that share memory, by position."""
    if len({kernel.stream for kernel in kernels}) < 2:
        return {}
    mixes = [memory_mix(k.demand, p.traffic) for k, p in zip(kernels, prices, strict=True)]
    sharing = {i for i, mix in enumerate(mixes) if mix and "memory" in prices[i].shares}
    factors: dict[int, float] = {}
    for members, shares in _side_by_side(simulate_layer(kernels, prices, chip), sharing):
        demands = [_rated(mixes[i], mix_bytes(mixes[i]) / prices[i].run_ps) for i in members]
        slower = joint_factor(demands, lambda mix: rate_curve(chip, mix).full_bytes_per_s)
        for i, share in zip(members, shares, strict=True):
            factors[i] = factors.get(i, 1.0) + share * (slower - 1.0)
    return {i: round(factor, 6) for i, factor in factors.items() if round(factor, 6) != 1.0}


def _side_by_side(
    places: Sequence[Placed], sharing: set[int]
) -> Iterator[tuple[list[int], list[float]]]:
    """Kernels that share memory for a stretch, and how much of its work each does in it.

    A start or an end cuts the stretches of all that run, so that those of one set are equal.
    """
    stretches: dict[tuple[int, int], dict[int, float]] = {}
    for i in sorted(sharing):
        for stretch in places[i].stretches:
            stretches.setdefault((stretch.start_ps, stretch.end_ps), {})[i] = stretch.share
    for _, members in sorted(stretches.items()):
        if len(members) > 1:
            yield list(members), list(members.values())


def _rated(mix: Mix, bytes_per_ps: float) -> Mix:
    """The mix with its bytes as those of a picosecond of a kernel on its own."""
    total = mix_bytes(mix)
    return tuple(replace(part, nbytes=part.nbytes / total * bytes_per_ps) for part in mix)


def joint_factor(mixes: Sequence[Mix], full_rate: FullRate) -> float:
    """Memory time of mixes together, over the sum of their times one after the other.

    Assumes: kernels side by side put their accesses into the memory's queues in proportion to the
        bytes a second that each moves on its own; together they have as many streams as the chip
        has cores, and what their mix costs is that of a memory with enough in flight.
    """
    together = joined_parts(part for mix in mixes for part in mix)
    apart = sum(mix_bytes(mix) / full_rate(mix) for mix in mixes)
    return mix_bytes(together) / full_rate(together) / apart
