"""Time to copy scattered entries from host memory: what a link carries for a row of cache."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.node import NodeSpec
from simulator.basis.whole import ceil_div, round_up

SCALE_BYTES = 8
SECTOR_BYTES = 32
PACKET_BYTES = 128
PCIE_HEADER_BYTES = 20
READS_IN_FLIGHT = 768
KERNEL_OF_COPY_ENGINE = 68.5 / 83.4
"""Both directions of PCIe 5, blocks of 2 MB, H100: a kernel's loads and stores against the copy
engine. Source: vLLM's blog on KV offloading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGather:
    """Reads of one chip from host memory, by a kernel that loads the missing rows itself.

    `share`: useful bytes a second against the link's bandwidth.

    Assumes: a kernel on the chip reads the rows where they lie (copies launched from the host, one
        a row, would cost a launch each); it reaches 82 % of what a copy engine does (measured with
        2 MB blocks, both ways at once, on an H100 with PCIe 5).
    Assumes: a row of 584 B is two runs, 576 B of values and 8 B of scales at the end of its page,
        read in sectors of 32 B by packets of up to 128 B, each with 20 B of header and checksum on
        PCIe (guessed from the packet format; 64-bit address, no prefix): 728 B on the wire. Links
        other than PCIe carry sectors without headers (guessed: no figure was found).
    Assumes: host memory keeps up with the links of all chips (12 channels of DDR5-6400 carry
        614 GB/s a socket, the links of eight chips 504 GB/s).
    Assumes: at most 768 reads are in flight on PCIe (guessed: ten-bit tags), each for one latency;
        on other links no such limit binds (guessed).
    """

    bytes_per_s: float
    latency_s: float
    share: float
    packet_share: float
    row_bytes: int
    reads_in_flight: int | None

    @property
    def useful_bytes_per_s(self) -> float:
        """Bytes of rows a second once the reads flow."""
        flowing = self.bytes_per_s * self.share
        if self.reads_in_flight is None:
            return flowing
        rows_in_flight = self.reads_in_flight / _packets(self.row_bytes)
        return min(flowing, rows_in_flight * self.row_bytes / self.latency_s)

    def seconds(self, rows: float) -> float:
        """Time to read so many rows: one latency and their bytes; none for no rows.

        Assumes: rows of all requests of a step are read by one kernel and share the link evenly.
        """
        return self.latency_s + rows * self.row_bytes / self.useful_bytes_per_s if rows else 0.0


def host_gather(node: NodeSpec, row_bytes: int, share: float | None = None) -> HostGather:
    """Reads over the node's host link; `share` replaces the derived useful share."""
    is_pcie = node.host_link.kind.startswith("PCIe")
    header = PCIE_HEADER_BYTES if is_pcie else 0
    sectors = round_up(row_bytes - SCALE_BYTES, SECTOR_BYTES) + SECTOR_BYTES
    packet_share = row_bytes / (sectors + _packets(row_bytes) * header)
    return HostGather(
        bytes_per_s=node.host_bytes_per_s,
        latency_s=node.host_latency_s,
        share=KERNEL_OF_COPY_ENGINE * packet_share if share is None else share,
        packet_share=packet_share,
        row_bytes=row_bytes,
        reads_in_flight=READS_IN_FLIGHT if is_pcie else None,
    )


def _packets(row_bytes: int) -> int:
    """Packets of a row: of its values, and one of its scales."""
    return ceil_div(row_bytes - SCALE_BYTES, PACKET_BYTES) + 1
