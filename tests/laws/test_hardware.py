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
    TOGETHER,
    Move,
    against,
    all_moves,
    changed,
    judged_moves,
    kept_unsteadiness,
    largest,
    machine,
    moves,
    quick_moves,
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

# Numbers that move no kernel by what they are, with the reason.
EXCEPT = {
    "dies_per_package": "of an engine's kernels measured rows alone ask how many dies share them",
    "memory.capacity": "what fits, which v4sim capacity says",
    "memory.pin_rate": "finds the preset where a file names none, and is checked against the peak",
    "memory.channel_width": "checked against the bandwidth: a note where they differ",
    "cores.matrix_flops_per_clock": "checked against the peak rates: a note where they differ",
    "matrix.fp16": "no kernel multiplies in FP16",
    "matrix.int8": "no kernel multiplies in INT8",
    "launch.stream_gap": "steps are replayed from a graph",
    "power.all_in": "money: power bills",
    "node.host_link.bandwidth": "tiers and offloading",
    "node.host_link.latency": "tiers and offloading",
}
# Numbers that move nothing today: what the machine would have to read.
_L1 = "an L1 of each core in front of its port: loads that hit there take no turn of the port"
_NEAR = "a cache of each group of cores between their ports and the last level"
_TILES = "a time to fill it: the tile model asks whether a tile fits, which it does in half of it"
_VECTOR = "a third unit of a core: special operations are inside the fitted vector clocks"
STILL = {
    "near_cache.capacity": _NEAR,
    "near_cache.read_bandwidth": _NEAR,
    "cores.l1_and_scratchpad": _L1,
    "cores.l1_cache": _L1,
    "cores.threads": "grids of many small blocks: elementwise passes are one block a core",
    "cores.blocks": "grids of blocks without shared memory: all that run need more than their 32nd",
    "cores.unified_buffer": _TILES,
    "cores.l0a": _TILES,
    "cores.l0b": _TILES,
    "cores.l0c": _TILES,
    "matrix.tf32": "the mixing product's own matrix clocks, which are fitted bytes a clock",
    "matrix.fp32": "the same, on chips without TF32",
    "vector.special": _VECTOR,
    "node.scale_up.bandwidth": "the node of the target: collectives load the chip's own by name",
}
# Never to be left out.
ALWAYS_MOVE = (
    *(f"memory.{name}" for name in ("RC", "RCD", "RP", "RAS", "FAW", "CCDS", "CCDL", "RFC")),
    *(f"memory.{name}" for name in ("REFI", "stack_ids", "bank_groups", "banks_a_group")),
    *("memory.stacks", "memory.channels_per_stack", "llc.capacity", "llc.latency"),
    *("llc.read_bandwidth", "cores.scratchpad", "cores.register_file", "cores.count"),
    *("cores.clock", "cores.peak_clock"),
)
# Numbers of which more (or less) goes the wrong way at the same programs: why.
_ORDER = "requests meet in another order in queues and banks: one kernel, by up to 2.2 %"
_TURNS = (
    "index logits write few scores among their keys: with shorter turns between writes and reads "
    "the controller takes another order of them, slower by up to 6.4 %"
)
AGAINST = {
    "memory.stack_ids": "more reads follow one of another stack id, CCDR apart and not CCDS",
    **dict.fromkeys(("memory.CWL", "memory.WTRS", "memory.WTRL"), _TURNS),
    **dict.fromkeys(("memory.RRDS", "memory.RREFD", "llc.latency"), _ORDER),
    "cores.clock": "requests leave all cores twice as fast, and queue in the cache's slices",
}
# The same where the engine cuts another program: by which of its rules.
OTHER_PROGRAM = {
    "cores.count": "keys and tiles are dealt to more cores, of which each has less to overlap",
    "cores.vector_core_count": "the tile model cuts rows into more tiles than there are rows",
}
# Numbers whose largest move is within what the kernel's time is unsteady by: read, but not felt.
UNFELT = ("cores.copy_bytes",)


def test_every_number_has_a_direction_and_an_entry() -> None:
    assert list(table()["fields"]) == list(FIELDS)
    assert set(DIRECTION) == set(FIELDS)


def test_exceptions_are_few() -> None:
    assert set(EXCEPT) | set(STILL) <= set(FIELDS)
    assert not set(EXCEPT) & set(STILL)
    assert len(EXCEPT) <= 0.15 * len(FIELDS)
    assert not (set(EXCEPT) & set(ALWAYS_MOVE))


def test_the_table_is_of_today() -> None:
    fields = table()["fields"]
    unmoved = {path for path, entry in fields.items() if "kernel" not in entry}
    assert unmoved == set(EXCEPT) | set(STILL)
    assert {path for path in fields if "against" in fields[path]} == set(AGAINST)
    others = {path for path in fields if "against_with_another_program" in fields[path]}
    assert others == set(OTHER_PROGRAM)
    assert {p for p in fields if fields[p].get("beyond_unsteadiness") is False} == set(UNFELT)


def found_moves(path: str) -> list[Move]:
    """Moves of all kernels; in a sample of the one that the table names, or of quick ones."""
    kept = table()["fields"][path].get("kernel")
    if WHOLE:
        return all_moves(path)
    if kept is None:
        return quick_moves(path)
    chip, engine, kernel = kept.split(" ", 2)
    return moves(path, chip, engine, only=lambda name: name == kernel)


@pytest.mark.parametrize("path", tenth(FIELDS, 11))
def test_a_number_moves_kernels_and_the_right_way(path: str) -> None:
    found = found_moves(path)
    most = largest(found)
    moved = most is not None and abs(most.share) > MOVED
    assert moved != (path in EXCEPT or path in STILL), f"{path}: {most}"
    if path in TOGETHER:
        found = judged_moves(path) if WHOLE else []
    wrong = against(found, DIRECTION[path], kept_unsteadiness())
    for known, same in ((AGAINST, True), (OTHER_PROGRAM, False)):
        said = [move for move in wrong if move.same_program is same]
        assert not said or path in known, said
        assert said or path not in known or not WHOLE, f"{path} goes the right way: strike it off"


def test_timings_that_constrain_one_another_move_together() -> None:
    own = machine("h200", "sglang-0.5")
    half, twice = (changed(own, "memory.RAS", factor) for factor in (HALVED, DOUBLED))
    assert half is not None
    assert twice is not None
    assert half[1] == "memory.RAS=22clk, memory.RCDRD=22clk"
    assert twice[1] == "memory.RAS=88clk, memory.RC=114clk"
