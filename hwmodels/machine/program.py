"""A kernel program: what a machine runs for one kernel, in its own terms and without a model's.

A kernel is a chain of launches. A launch is a grid of blocks, dealt to cores in order; a block is a
prologue, a loop of equal stages whose loads run ahead of their work, and an epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError

Counts = NDArray[np.int64]
# Stages that may be in flight in one block: the length of the machine's rings.
MOST_STAGES = 16
ALL_ROWS = 1 << 40  # more than any region has


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Bytes in memory, of which `warm` is the share that the cache holds at the start.

    Runs of `run_bytes` lie at places of their own (0: the region is one run). `kept` is the share
    of lines that are still cached when they are touched again.
    """

    nbytes: int
    run_bytes: int = 0
    warm: float = 0.0
    kept: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Bytes that each stage of a block loads, or stores.

    Block b touches row (b // `divide`) % `modulo` of the region, rows `row_bytes` apart from byte
    `first` on, and in it
    one stage's bytes after the other; `pieces` of them lie `pitch` bytes apart, as those of a tile
    of a matrix do, and go on stage by stage.
    """

    region: int
    nbytes: int
    row_bytes: int
    divide: int = 1
    modulo: int = ALL_ROWS
    stores: bool = False
    pieces: int = 1
    pitch: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Core clocks of a part of a block, one after the other: matrix, vector, then a plain wait.

    Matrix and vector units are shared by the blocks of a core. `send_bytes` go over the chip's
    links, which all blocks share.
    """

    matrix: float = 0.0
    vector: float = 0.0
    wait: float = 0.0
    send_bytes: int = 0


NOTHING = Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A kind of block, and what it needs of a core.

    `held_fill` and `held_issue` are clocks of the matrix unit's fill and dependent instructions
    that the times of prologue and stages hold already, from the chip where they were fitted.
    `stage_bytes` of shared memory belong to a stage in flight, `fixed_bytes` to the block;
    `in_flight` bounds the stages whose loads run ahead, `flight_bytes` (0: none) their bytes.
    """

    stage: Work
    prologue: Work = NOTHING
    epilogue: Work = NOTHING
    accesses: tuple[Access, ...] = ()
    first_accesses: tuple[Access, ...] = ()
    last_accesses: tuple[Access, ...] = ()
    stage_bytes: int = 0
    fixed_bytes: int = 0
    registers_bytes: int = 0
    threads: int = 128
    in_flight: int = 4
    flight_bytes: int = 0
    held_fill: float = 0.0
    held_issue: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A grid: kind, loop length and, where the kernel deals blocks itself, core of every block.

    It starts `gap_s` after the launch of its stream before it has ended; `end_s` passes after its
    last block. Launches of other streams run beside it, and the first of the program first takes
    what room a core has.
    """

    kinds: tuple[Block, ...]
    kind: Counts
    stages: Counts
    core: Counts | None = None
    place: Counts | None = None
    gap_s: float = 0.0
    end_s: float = 0.0
    stream: int = 0
    # Whether cores without a block are idle, as those that a collective leaves alone are not.
    fills_chip: bool = True

    def __post_init__(self) -> None:
        if not len(self.kind) == len(self.stages) > 0:
            raise InputError(
                f"a launch has {len(self.kind)} kinds of blocks and {len(self.stages)} loop "
                "lengths, expected one each a block, and at least one block"
            )

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return len(self.kind)

    @property
    def coordinates(self) -> Counts:
        """What an access takes for a block's number."""
        return np.arange(self.blocks) if self.place is None else self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProgram:
    """Regions that the launches of a kernel share, and the launches, of a stream in order."""

    regions: tuple[Region, ...]
    launches: tuple[Launch, ...]
    name: str = "kernel"
    # Energy at the full clock: where it takes more than the package's limit, the clock falls.
    energy_j: float = 0.0

    def __post_init__(self) -> None:
        for number, region in enumerate(self.regions):
            if region.nbytes < 1:
                raise InputError(f"region {number} has {region.nbytes} bytes, expected at least 1")
        for kind in (kind for launch in self.launches for kind in launch.kinds):
            for access in (*kind.first_accesses, *kind.accesses, *kind.last_accesses):
                if not 0 <= access.region < len(self.regions):
                    raise InputError(
                        f"an access is of region {access.region}, but the program has "
                        f"{len(self.regions)}: give it one of 0 to {len(self.regions) - 1}"
                    )

    @property
    def blocks(self) -> int:
        """Blocks of all launches."""
        return sum(launch.blocks for launch in self.launches)


def spread_order(count: int) -> Counts:
    """Numbers below `count` in an order of which every beginning is spread over all of them."""
    golden = (5**0.5 - 1) / 2
    return np.argsort(np.arange(count) * golden % 1.0, kind="stable")


def equal_blocks(block: Block, count: int, stages: int, **more: object) -> Launch:
    """A grid of equal blocks."""
    return Launch(
        kinds=(block,),
        kind=np.zeros(count, np.int64),
        stages=np.full(count, stages, np.int64),
        **more,  # type: ignore[arg-type]
    )
