"""Law: every number of a chip, its memory and its node moves a kernel at fidelity `cycle`.

Each number is halved and doubled, or takes the next value that is legal, over a panel of kernels of
calibrated engines. More of a rate, a capacity or a count is never slower, more of a latency or a
timing never faster. The table beside this file says what moved most; `make laws` goes through all
fields and kernels, `make test` through the kernels of the table for a seeded tenth of the fields.
"""

from __future__ import annotations

import pytest

from tests.laws.hardware import (
    DOUBLED,
    FIELDS,
    HALVED,
    MOVED,
    Move,
    against,
    all_moves,
    changed,
    largest,
    machine,
    moves,
    table,
)
from tests.sampling import WHOLE, tenth

# More of these is never slower.
RESOURCES = (
    *("REFI", "REFIpb", "stack_ids", "bank_groups", "banks_a_group", "bursts_a_row"),
    *("pseudo_channels", "bandwidth", "stacks", "channels_per_stack"),
)
MORE = (
    *(f"memory.{name}" for name in RESOURCES),
    *(f"llc.{name}" for name in ("capacity", "read_bandwidth", "ways", "slices")),
    *("near_cache.capacity", "near_cache.read_bandwidth", "noc.core_port", "noc.partition_link"),
    *("cores.count", "cores.clock", "cores.scratchpad", "cores.l1_and_scratchpad"),
    *("cores.l1_cache", "cores.register_file", "cores.threads", "cores.blocks"),
    *("cores.copy_bytes", "cores.vector_core_count", "cores.unified_buffer"),
    *("cores.l0a", "cores.l0b", "cores.l0c", "cores.l1_to_l0a", "cores.l1_to_l0b"),
    *(f"matrix.{name}" for name in ("bf16", "fp16", "fp8", "fp4", "int8", "tf32", "fp32")),
    *("vector.fp32", "vector.special", "scale_up.bandwidth", "power.tdp"),
    *("node.scale_up.bandwidth", "node.host_link.bandwidth", "node.scale_out.bandwidth"),
)
# More of these is never faster.
TIMINGS = (
    *("RCD", "CL", "CWL", "RCDRD", "RCDWR", "RP", "RAS", "RC", "WR", "RTP", "CCDS", "CCDL", "CCDR"),
    *("RRDS", "RRDL", "FAW", "WTRS", "WTRL", "RTW", "PPD", "RFC", "RFCpb", "RREFD"),
)
LESS = (
    *(f"memory.{name}" for name in TIMINGS),
    *("memory.latency", "llc.latency", "llc.far_latency"),
    *("cores.matrix_fill", "cores.matrix_issue", "launch.graph_gap", "launch.stream_gap"),
    *("node.scale_up.latency", "node.host_link.latency", "node.scale_out.latency"),
)
# Neither is more of it, for the reason.
NEITHER = {
    "dies_per_package": "how what there is is divided",
    "memory.BL": "the peak is stated: longer bursts make the clock of a channel faster",
    "memory.rows": "an address space",
    "memory.capacity": "what fits",
    "memory.channel_width": "checked against the bandwidth",
    "memory.pin_rate": "checked against the bandwidth",
    "llc.line": "longer lines serve streams, shorter ones picks",
    "llc.sector": "the same",
    "llc.partitions": "how the capacity is divided: more of it is far",
    "cores.peak_clock": "the published peak is at it: a higher one leaves less a clock",
    "cores.matrix_flops_per_clock": "checked against the peak rates",
    "power.all_in": "money",
    "node.chips_per_node": "which peers are near",
}
DIRECTION = dict.fromkeys(MORE, 1) | dict.fromkeys(LESS, -1) | dict.fromkeys(NEITHER, 0)
