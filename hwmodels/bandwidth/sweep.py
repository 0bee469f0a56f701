"""The questions that a sweep over a chip's memory asks, and their answers, run side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.measurement import FILLING_BYTES_A_CHANNEL, Measurement, measure
from hwmodels.dram.chip_memory import ChipController, ChipMemory

GRANULES = (32, 64, 128, 256, 512, 576, 584, 640, 656, 1024, 4096)
ALIGNMENTS = (32, 64, 128)
PADDINGS = (1, 64, 128, 576)
# Entries of a V4 cache: keys and values, in BF16; index keys in FP8 and FP4; V3.2's entry.
ENTRIES = {584: "FP8 key-value", 1024: "BF16 key-value", 132: "FP8 index", 68: "FP4 index",
           656: "V3.2 FP8 key-value"}  # fmt: skip
WRITE_FRACTIONS = (0.0, 0.1, 1 / 3, 0.5)
LOADS = (1, 2, 4, 8, 16, 32, 64)  # 64: as many bytes in the DRAM as fill it
_LOADED_GRANULES = (64, 584, 4096)
OTHER_CONTROLLERS: dict[str, ChipController] = {
    "as in the other tables": ChipController(),
    "queues of 49 ns": ChipController(queued_ns=49.0),
    "64 bytes in a row, then the next bank group": ChipController(mapping="c2,g,p,c,b,s"),
    "both": ChipController(mapping="c2,g,p,c,b,s", queued_ns=49.0),
    "4 KiB on a channel": ChipController(interleave_bytes=4096),
    "all-bank refresh": ChipController(refresh="all-bank"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One answer; `group` is the table that it belongs to, `label` its row where it needs one.

    `slot_bytes` is what an entry takes with its padding, in the group `padding`.
    """

    group: str
    label: str
    measurement: Measurement
    slot_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Question:
    group: str
    label: str
    access: Access
    slot_bytes: int = 0


def sweep(memory: ChipMemory, base: Access, jobs: int = 2) -> tuple[int, Iterator[SweepPoint]]:
    """(number of points, the points in the order of the tables); equal patterns run once.

    `base` gives channels, seed and controller of every point.
    """
    questions = _questions(memory, base)
    distinct = list(dict.fromkeys(question.access for question in questions))
    return len(distinct), _points(memory, questions, distinct, jobs)


def _points(
    memory: ChipMemory, questions: Sequence[_Question], distinct: Sequence[Access], jobs: int
) -> Iterator[SweepPoint]:
    known: dict[Access, Measurement] = {}
    answers = _measured(memory, distinct, jobs)
    for question in questions:
        while question.access not in known:
            answer = next(answers)
            known[answer.access] = answer
        yield SweepPoint(
            group=question.group,
            label=question.label,
            measurement=known[question.access],
            slot_bytes=question.slot_bytes,
        )


def _measured(memory: ChipMemory, accesses: Sequence[Access], jobs: int) -> Iterator[Measurement]:
    if jobs == 1:
        yield from (measure(memory, access) for access in accesses)
        return
    from joblib import Parallel, delayed

    runs = (delayed(measure)(memory, access) for access in accesses)
    yield from Parallel(n_jobs=jobs, return_as="generator", batch_size=4)(runs)


def _questions(memory: ChipMemory, base: Access) -> list[_Question]:
    return [
        *_by_granule(base),
        *_by_load(memory, base),
        *_by_padding(base),
        *_by_writes(base),
        *_by_controller(base),
    ]


def _by_granule(base: Access) -> Iterator[_Question]:
    for granule in GRANULES:
        stream = replace(base, kind="stream", granule_bytes=granule, align_bytes=None)
        yield _Question("granule", "stream", stream)
        gathers = {"own size": granule} | {f"{align} B": align for align in ALIGNMENTS}
        for label, align in gathers.items():
            access = replace(base, kind="gather", granule_bytes=granule, align_bytes=align)
            yield _Question("granule", label, access)


def _by_load(memory: ChipMemory, base: Access) -> Iterator[_Question]:
    for granule in _LOADED_GRANULES:
        for load in LOADS:
            inside = FILLING_BYTES_A_CHANNEL * memory.channels * load // LOADS[-1]
            waiting = memory.peak_bytes_per_s * memory.path_ns * 1e-9 * min(1.0, load / 16)
            outstanding = max(1, round((inside + waiting) / granule))
            access = replace(
                base, kind="gather", granule_bytes=granule, align_bytes=granule,
                outstanding=_two_digits(outstanding),
            )  # fmt: skip
            yield _Question("outstanding", f"{granule} B", access)


def _two_digits(number: int) -> int:
    """A round number of requests."""
    scale = 10 ** max(0, len(str(number)) - 2)
    return round(number / scale) * scale


def _by_padding(base: Access) -> Iterator[_Question]:
    for entry, name in ENTRIES.items():
        for multiple in PADDINGS:
            slot = -(-entry // multiple) * multiple
            access = replace(base, kind="gather", granule_bytes=entry, align_bytes=slot)
            label = "packed" if multiple == 1 else f"to {multiple} B"
            yield _Question("padding", f"{name} {label}", access, slot)


def _by_writes(base: Access) -> Iterator[_Question]:
    for kind, granule in (("stream", 4096), ("gather", 584)):
        for share in WRITE_FRACTIONS:
            access = replace(
                base, kind=kind, granule_bytes=granule, align_bytes=None, write_fraction=share
            )
            yield _Question("writes", f"{kind} {granule} B", access)


def _by_controller(base: Access) -> Iterator[_Question]:
    for name, controller in OTHER_CONTROLLERS.items():
        for kind, granule in (("stream", 4096), ("gather", 584), ("gather", 4096)):
            access = replace(
                base, kind=kind, granule_bytes=granule, align_bytes=None, controller=controller
            )
            yield _Question("controller", name, access)
