"""What a kernel moves to and from device memory, by access pattern."""

from __future__ import annotations

from hwmodels.bandwidth.mix import Mix, MixPart, joined_parts
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand


def memory_mix(demand: Demand, moved: Traffic) -> Mix:
    """Parts whose bytes add up to those of the traffic.

    Assumes: weights are stored so that each core reads its share from front to back, as tiles of a
        shuffled matrix are; rows of 128 bytes of a row-major one would come as scattered runs.
    Assumes: dense values that leave the last-level cache are read and written front to back.
    """
    runs = [
        MixPart(run.run_bytes, run.run_bytes, run.written, run.nbytes) for run in demand.cache_runs
    ]
    scattered_reads = sum(run.nbytes for run in runs if not run.written)
    scattered_writes = sum(run.nbytes for run in runs if run.written)
    streams = [
        MixPart(0, 0, False, max(0.0, moved.dram_read_bytes - scattered_reads)),
        MixPart(0, 0, True, max(0.0, moved.dram_write_bytes - scattered_writes)),
    ]
    return joined_parts([*streams, *runs])
