"""Random kernels of V4 steps on five chips: the machine's time beside the closed form's.

`python -m tests.validation.rung_gap COUNT [SEED]` prints the table and the kernels furthest apart,
with what their time goes to on either rung.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from simulator.basis.errors import InputError, UnsupportedError
from simulator.cost.engine_price import engine_price
from simulator.cost.machine_price import machine_price
from simulator.cost.price import Price, Target
from simulator.cost.question import ask
from simulator.cost.step import rank_graph
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from tests.validation.report import table
from workloads.run_stats import RunStats

CHIPS = ("h200", "b200", "h100", "gb200", "mi355x", "ascend-950dt")
ENGINES = ("sglang-0.5", "vllm-0.33", "trtllm-1.3")
OWN_ENGINES = {"mi355x": (*ENGINES, "atom"), "ascend-950dt": ("ascend",)}
MODELS = ("v4-flash", "v4-pro")
STEPS: tuple[dict[str, object], ...] = (
    {"batch": 1, "context": 8192},
    {"batch": 64, "context": 8192},
    {"batch": 8, "context": 131_072},
    {"phase": "prefill", "batch": 1, "context": 8192, "new_tokens": 8192},
)
WORST, CAUSES = 10, 3


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A kernel on both rungs."""

    where: str
    kernel: str
    tile: Price
    cycle: Price

    @property
    def share(self) -> float:
        """The machine's time over the closed form's, less one."""
        return self.cycle.alone_ps / self.tile.alone_ps - 1.0


@cache
def kernels_of(
    chip: str, engine: str, model: str, step: int
) -> tuple[Target, tuple[tuple[str, Demand], ...]] | None:
    """Kernels of a step by name, on eight chips that share tensors; None where it does not run."""
    try:
        asked = ask(model=model, chip=chip, count=8, tp=8, engine=engine, **STEPS[step])  # type: ignore[arg-type]
    except (InputError, UnsupportedError):
        return None
    graph = rank_graph(asked.question, asked.config, asked.deployment.formats.precision)
    target = Target(asked.chip, asked.node, asked.deployment.profile)
    kernels = {k.name: k.demand for k in reversed(lower(graph, target.profile, RunStats()))}
    return target, tuple(sorted(kernels.items()))


def random_gaps(count: int, seed: int) -> Iterator[Gap]:
    """Gaps of kernels that a calibrated family prices, each name of a step as likely."""
    rng = np.random.default_rng(seed)
    pairs = [(chip, engine) for chip in CHIPS for engine in OWN_ENGINES.get(chip, ENGINES)]
    places = [(*pair, *rest) for pair, *rest in product(pairs, MODELS, range(len(STEPS)))]
    found = 0
    while found < count:
        chip, engine, model, step = places[rng.integers(len(places))]
        run = kernels_of(chip, engine, model, step)
        if run is None:
            continue
        target, kernels = run
        name, demand = kernels[rng.integers(len(kernels))]
        cycle, tile = machine_price(demand, target), engine_price(demand, target)
        if cycle is None or tile is None:
            continue
        found += 1
        said = ", ".join(f"{key} {value}" for key, value in STEPS[step].items())
        yield Gap(where=f"{chip} {engine} {model} {said}", kernel=name, tile=tile, cycle=cycle)


def _causes(price: Price) -> str:
    """The largest causes of a price."""
    ranked = sorted(price.causes_ps.items(), key=lambda item: -item[1])[:CAUSES]
    return ", ".join(f"{name} {ps / 1e6:,.1f}" for name, ps in ranked if ps)


def gap_table(gaps: Sequence[Gap]) -> str:
    """Median and p90 by chip and of all, and the kernels furthest apart."""
    rows = []
    for chip in (*CHIPS, "all"):
        own = [abs(g.share) for g in gaps if chip == "all" or g.where.startswith(chip + " ")]
        if own:
            median, p90 = np.median(own), np.quantile(own, 0.9)
            rows.append((chip, f"{len(own)}", f"{median:.1%}", f"{p90:.1%}"))
    lines = [table(("chip", "kernels", "median", "p90"), rows, 1), ""]
    for gap in sorted(gaps, key=lambda g: -abs(g.share))[:WORST]:
        lines.append(
            f"- {gap.share:+.0%} {gap.kernel} ({gap.tile.priced_by}), {gap.where}: cycle "
            f"{gap.cycle.alone_ps / 1e6:,.1f} us ({_causes(gap.cycle)}), tile "
            f"{gap.tile.alone_ps / 1e6:,.1f} us ({_causes(gap.tile)})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    asked_for = [int(word) for word in sys.argv[1:]]
    print(gap_table(list(random_gaps(asked_for[0], asked_for[1] if len(asked_for) > 1 else 0))))
