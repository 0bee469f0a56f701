"""Which of a kernel's bytes go to device memory, and how many pass through the last-level cache."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.engine.kernel import Demand, Operand


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read from and written to device memory, and bytes between cores and the LLC."""

    dram_read_bytes: int
    dram_write_bytes: int
    llc_bytes: int

    @property
    def dram_bytes(self) -> int:
        """Reads and writes."""
        return self.dram_read_bytes + self.dram_write_bytes


def traffic(demand: Demand, llc_bytes: int) -> Traffic:
    """Traffic of a kernel on a chip with an LLC of `llc_bytes`.

    Assumes: a value between kernels stays in the last-level cache when it and all that moves until
        its use fit in half of it; it is never written to memory then.
    Assumes: weights and cache entries come from memory once in every kernel that reads them.
    """

    def leaves(operand: Operand) -> bool:
        return operand.reuse_bytes is None or 2 * operand.reuse_bytes > llc_bytes

    return Traffic(
        dram_read_bytes=demand.weight_bytes
        + demand.cache_read_bytes
        + sum(operand.nbytes for operand in demand.inputs if leaves(operand)),
        dram_write_bytes=demand.cache_write_bytes
        + sum(operand.nbytes for operand in demand.outputs if leaves(operand)),
        llc_bytes=demand.weight_bytes
        + max(demand.cache_touch_bytes, demand.cache_read_bytes)
        + demand.cache_write_bytes
        + demand.activation_bytes,
    )
