"""Kernels in simulated time: streams side by side inside a layer, layers one after the other.

Each distinct layer is simulated once, on a machine of its own; equal layers replay its times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import simpy

from hwmodels.chip import ChipSpec
from hwmodels.machine.live import Machine
from hwmodels.machine.shared_pipes import Job, Stretch
from simulator.cost.price import Price
from simulator.engine.kernel import Kernel

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel with its price and its place in the step's time."""

    kernel: Kernel
    price: Price
    start_ps: int
    end_ps: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel's place within its layer; the stretches are those of its work after the launch."""

    start_ps: int
    end_ps: int
    stretches: tuple[Stretch, ...]

    def timed(self, kernel: Kernel, price: Price, offset_ps: int) -> Timed:
        """The kernel in the step, its layer starting at the offset."""
        stretches = tuple(
            Stretch(s.start_ps + offset_ps, s.end_ps + offset_ps, s.share) for s in self.stretches
        )
        return Timed(kernel, price, self.start_ps + offset_ps, self.end_ps + offset_ps, stretches)


def timeline(
    kernels: Sequence[Kernel],
    prices: Sequence[Price],
    chip: ChipSpec,
    progress: Progress | None = None,
) -> list[Timed]:
    """All kernels of a step in launch order, with start and end.

    Assumes: a layer starts when the layer before it has ended on every stream.
    """
    known: dict[object, list[Placed]] = {}
    timed: list[Timed] = []
    offset = 0
    layers = list(_layers(kernels))
    for done, (first, last) in enumerate(layers):
        own, own_prices = kernels[first:last], prices[first:last]
        key = tuple(kernel.signature for kernel in own)
        if key not in known:
            known[key] = simulate_layer(own, own_prices, chip)
        for kernel, price, placed in zip(own, own_prices, known[key], strict=True):
            timed.append(placed.timed(kernel, price, offset))
        offset += max(placed.end_ps for placed in known[key])
        if progress is not None:
            progress(done + 1, len(layers))
    return timed


def layer_durations(
    kernels: Sequence[Kernel], prices: Sequence[Price], chip: ChipSpec
) -> dict[str, int]:
    """Duration of every layer on its own, by scope."""
    return {
        kernels[first].scope: max(
            placed.end_ps
            for placed in simulate_layer(kernels[first:last], prices[first:last], chip)
        )
        for first, last in _layers(kernels)
    }


def _layers(kernels: Sequence[Kernel]) -> Iterator[tuple[int, int]]:
    """Ranges of kernels of one scope."""
    start = 0
    for i in range(1, len(kernels) + 1):
        if i == len(kernels) or kernels[i].scope != kernels[start].scope:
            yield start, i
            start = i


def simulate_layer(
    kernels: Sequence[Kernel], prices: Sequence[Price], chip: ChipSpec
) -> list[Placed]:
    """Place of every kernel, the layer starting at 0.

    A stream launches its kernels in order; each waits for those that it reads. The launch gap
    counts as part of the kernel.
    """
    machine = Machine(chip)
    ended = [machine.env.event() for _ in kernels]
    places = [Placed(0, 0, ())] * len(kernels)

    def run_stream(members: list[int]) -> simpy.events.ProcessGenerator:
        for i in members:
            yield machine.env.all_of([ended[j] for j in kernels[i].after])
            start = machine.now_ps
            price = prices[i]
            stretches = yield from machine.run(price.launch_ps, Job(price.run_ps, price.shares))
            places[i] = Placed(start, machine.now_ps, tuple(stretches))
            ended[i].succeed()

    streams: dict[int, list[int]] = {}
    for i, kernel in enumerate(kernels):
        streams.setdefault(kernel.stream, []).append(i)
    for members in streams.values():
        machine.env.process(run_stream(members))
    machine.env.run()
    return places
