"""What share of their peaks units reach under the constants of the families that kernels are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine.live import to_ps
from simulator.cost.family_call import Borrowable, constants_of
from simulator.cost.price import Price, Target
from simulator.engine.kernel import Demand
from simulator.kernels.interval import interval_of
from simulator.kernels.regime import Situation
from simulator.kernels.unit_rates import MICRO

UNITS = ("cube", "vector", "memory", "link")


class TileRates:
    """Shares of peaks by unit, a value a demand, and starts; 1 and the chip's own without a family.

    A kernel of a family begins with the family's start in place of the chip's launch gap.
    """

    cube: NDArray[np.float64]
    vector: NDArray[np.float64]
    memory: NDArray[np.float64]
    link: NDArray[np.float64]

    def __init__(self, demands: Sequence[Demand], target: Target) -> None:
        self._demands = demands
        self._constants = [_constants(demand, target) for demand in demands]
        for unit in UNITS:
            found = [own.values[unit] if own else 1.0 for own in self._constants]
            setattr(self, unit, np.array(found, dtype=np.float64))

    def starts_ps(self, launch_ps: int) -> list[int]:
        """Launch of each kernel."""
        return [_start_ps(own) if own else launch_ps for own in self._constants]

    def priced(self, at: int, price: Price) -> Price:
        """The price of one demand, with its family's start, name and interval."""
        own = self._constants[at]
        if own is None:
            return price
        asked = self._demands[at].priced_as
        assert asked is not None
        launch = _start_ps(own)
        causes = {**price.causes_ps, "launch": launch}
        seconds = (price.run_ps + launch) * 1e-12
        call = Situation(
            seconds=seconds,
            cause=max(causes, key=lambda cause: causes[cause]),
            decode=asked.decode,
            tokens=asked.tokens,
            requests=asked.requests,
        )
        interval = interval_of(own.stored, call, seconds, borrowed=own.borrowed)
        return replace(
            price,
            busy_ps={**price.busy_ps, "launch": launch},
            causes_ps=causes,
            priced_by=own.family,
            low=interval.low,
            high=interval.high,
            calibrated=interval.calibrated,
        )


def _start_ps(constants: Borrowable) -> int:
    return to_ps(constants.values["start_us"] * MICRO)


def _constants(demand: Demand, target: Target) -> Borrowable | None:
    if demand.priced_as is None or demand.priced_as.program != "tile":
        return None
    return constants_of(demand, target, tuple(product.math for product in demand.products))
