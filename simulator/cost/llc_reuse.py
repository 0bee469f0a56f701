"""How many more bytes a kernel fetches than it has distinct ones, as its LLC is too small."""

from __future__ import annotations

from hwmodels.bandwidth.reuse import matrix_again_bytes, picked_again_share
from hwmodels.chip import ChipSpec
from hwmodels.llc.spec import chip_cache
from simulator.cost.tile_ways import value_bytes
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand, Shape


def fetch_factor(demand: Demand, moved: Traffic, chip: ChipSpec) -> float:
    """Bytes from and to memory, over those that the traffic counts: at least one.

    Assumes: queries of a kernel come in order and renew their picks at an even pace, so that the
        distinct entries are those of the recorded or stated locality.
    Assumes: heads of one query that run on several cores read its entries at the same time.
    """
    if not moved.dram_bytes:
        return 1.0
    cache = chip_cache(chip)
    again = 0.0
    for product in demand.products:
        if product.shape is Shape.MATRIX and product.rows > 1:
            activation, weight = value_bytes(product.math)
            again += product.count * matrix_again_bytes(
                cache, chip.core_count, round(product.rows), round(product.columns),
                round(product.depth), activation, weight,
            )  # fmt: skip
    queries = max(
        (round(p.count) for p in demand.products if p.shape is Shape.ATTENTION), default=1
    )
    for run in demand.cache_runs:
        if run.written or run.touch_bytes <= run.nbytes or queries < 2:
            continue
        picks = round(run.touch_bytes / run.run_bytes / queries)
        renewed = max(0.0, (run.nbytes / run.run_bytes - picks) / (queries - 1))
        again += run.nbytes * picked_again_share(
            cache, run.run_bytes, queries, picks, round(renewed, 3)
        )
    return 1.0 + again / moved.dram_bytes
