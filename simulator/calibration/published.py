"""Kernel times that others published, beside what the families predict for the same calls.

`published.yaml` carries the rows with their sources. A row names the call that is held against it,
or the reason why no family covers it; nothing here was ever fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from hwmodels.chip import find_chip
from simulator.basis.errors import V4SimError
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml
from simulator.engine.kernel_section import CoreRule
from simulator.kernels.constants_file import constants_for
from simulator.kernels.gemm import Bf16Gemm, Fp8DeepGemm
from simulator.kernels.gemm_time import gemm_parts
from simulator.kernels.interval import interval_of
from simulator.kernels.link_traffic import gathered, ring_reduced
from simulator.kernels.nccl import ring_parts
from simulator.kernels.parts import Floats
from simulator.kernels.regime import Situation
from simulator.kernels.sparse_core import dealt, two_lists

PATH = Path(__file__).parent / "published.yaml"
GEMMS = {"gemm_bf16": Bf16Gemm(), "gemm_fp8_deepgemm": Fp8DeepGemm()}
RATES = {"TFLOPS": 1e12, "GB/s busbw": 1e9}
TIMES = {"us": 1e-6}
# A value of V4's rows, and those of them in FP8 (FlashMLA README, MODEL1 layout).
VALUES, SCALED_VALUES = 512, 448
_HEADS_64 = CoreRule(form="dealt", head_tile={"hopper": 64})


class GemmCall(StrictModel):
    """C[m, n] = A[m, k] B[k, n] for each of `groups`, activations quantised before.

    `kernel_only`: the published time is the profiler's, without the gap before a kernel.

    Assumes: weights are cold, and groups lie side by side along n.
    """

    family: Literal["gemm_bf16", "gemm_fp8_deepgemm"]
    chip: str
    m: int
    n: int
    k: int
    groups: int = 1
    kernel_only: bool = False

    @property
    def work(self) -> float:
        """FLOPs; a multiply-add is two."""
        return 2.0 * self.m * self.n * self.k * self.groups

    def seconds(self) -> float:
        """Predicted time."""
        chip = find_chip(self.chip)
        kernel = GEMMS[self.family].kernel
        constants = constants_for(self.family, chip).values
        columns = self.n * self.groups
        parts = gemm_parts(self.m, columns, self.k, kernel.dtype, chip, constants, kernel=kernel)
        return float(parts.total[0]) - (chip.launch_gap_s if self.kernel_only else 0.0)


class CoreCall(StrictModel):
    """Sparse attention of `queries` over `keys` each, 64 heads a tile, in BF16 or from FP8 keys."""

    family: Literal["sparse_core_flashmla"] = "sparse_core_flashmla"
    chip: str
    phase: Literal["decode", "prefill"]
    queries: int
    heads: int
    keys: int

    @property
    def work(self) -> float:
        """FLOPs of scores and of the sum over values, both 512 wide."""
        return 2.0 * 2.0 * self.queries * self.heads * self.keys * VALUES

    def seconds(self) -> float:
        """Predicted time; a request a query in decode, one request in prefill.

        Assumes: keys and queries are in cache; a key is a row of 448 FP8 and 64 BF16 values.
        """
        chip = find_chip(self.chip)
        pairs = self.queries * self.keys
        decode = self.phase == "decode"
        sizes = {
            "requests": self.queries if decode else 1,
            "new": 1 if decode else self.queries,
            "past": 1 << 30,
            "heads": self.heads,
            "window": self.keys,
            "ratio": 0,
            "top_k": 0,
            "pairs": pairs,
            "macs": 2.0 * pairs * self.heads * VALUES,
            "vector_ops": 4.0 * pairs * self.heads,
            "special_ops": pairs * self.heads,
            "key_bytes": 0,
            "scaled_values": SCALED_VALUES,
            "cache_bytes": 0,
            "operand_bytes": 0,
            "run_bytes": 1 << 20,
        }
        calls = {name: _one(value) for name, value in sizes.items()}
        constants = constants_for(self.family, chip).values
        form = dealt if decode else two_lists
        return float(form(calls, chip, constants, _HEADS_64, "bf16").total[0])


class CollectiveCall(StrictModel):
    """A collective over the GPUs of one node; `bytes` as benchmarks count a message."""

    family: Literal["nccl_ring"]
    chip: str
    operation: Literal["all_gather", "all_reduce"]
    ranks: int
    bytes: int

    @property
    def work(self) -> float:
        """Bytes that bus bandwidth counts: what a ring sends, whatever the algorithm is."""
        ring = ring_reduced if self.operation == "all_reduce" else gathered
        return float(ring(_one(self.bytes), _one(self.ranks)).sent[0])

    def seconds(self) -> float:
        """Predicted time."""
        chip = find_chip(self.chip)
        reduces = np.array([self.operation == "all_reduce"])
        size, ranks = _one(self.bytes), _one(self.ranks)
        constants = constants_for(self.family, chip).values
        return float(ring_parts(size, ranks, reduces, reduces, chip, constants).total[0])


Call = GemmCall | CoreCall | CollectiveCall


class PublishedRow(StrictModel):
    """One published figure and the call of ours, or the key of the reason why there is none."""

    kernel: str
    shape: str = ""
    dtype: str = ""
    hardware: str
    value: int | float
    unit: str
    source: str
    note: str = ""
    remark: str = ""
    gemm: GemmCall | None = None
    core: tuple[CoreCall, ...] | None = None
    collective: CollectiveCall | None = None
    not_covered: str | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls held against the figure; several where families run the same kernel."""
        single = (self.gemm, self.collective)
        return (*(call for call in single if call is not None), *(self.core or ()))

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [self.gemm, self.core, self.collective, self.not_covered]
        if sum(each is not None for each in given) != 1:
            raise KeyFaultError(
                ("kernel",),
                f"row {self.kernel!r} needs exactly one of gemm, core, collective, not_covered",
            )
        if self.value <= 0:
            raise KeyFaultError(("value",), f"value is {self.value}, expected more than 0")
        for call in self.calls:
            _check_chip(call.chip)
            known = (*RATES, *TIMES)
            if self.unit not in known:
                raise KeyFaultError(
                    ("unit",), f"unit {self.unit!r} is not predicted, expected {' or '.join(known)}"
                )
        return self


def _check_chip(name: str) -> None:
    try:
        find_chip(name)
    except V4SimError as error:
        raise KeyFaultError(("hardware",), error.message) from None


class PublishedSource(StrictModel):
    """Where figures were read, and whether the text itself or an excerpt was seen."""

    what: str
    seen: Literal["read", "excerpt"]


class PublishedFile(StrictModel):
    """All published rows; every source and reason that a row names is listed, and used."""

    sources: dict[str, PublishedSource]
    reasons: dict[str, str]
    rows: tuple[PublishedRow, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        _same_names("sources", self.sources, {row.source for row in self.rows})
        _same_names("reasons", self.reasons, {r.not_covered for r in self.rows if r.not_covered})
        return self


def _same_names(key: str, listed: Mapping[str, object], used: set[str]) -> None:
    wrong = sorted(used ^ set(listed))
    if wrong:
        what = "not listed" if wrong[0] in used else "used by no row"
        raise KeyFaultError((key,), f"{key}: {wrong[0]!r} is {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published figure and ours in its unit; `low` to `high` is our interval."""

    row: PublishedRow
    call: Call
    predicted: float
    low: float
    high: float

    @property
    def time_difference(self) -> float:
        """Predicted time over the published one, less one: above 0 we are slower."""
        longer = self.predicted / self.row.value
        return (longer if self.row.unit in TIMES else 1 / longer) - 1

    @property
    def holds(self) -> bool:
        """Whether our interval holds the published figure."""
        return self.low <= self.row.value <= self.high


def read_published(path: Path = PATH) -> PublishedFile:
    """The rows with their sources, checked."""
    return load_yaml(path, PublishedFile)


def compared(row: PublishedRow) -> tuple[Comparison, ...]:
    """A row beside our predictions; empty where no family covers it."""
    return tuple(_compared(row, call) for call in row.calls)


def _compared(row: PublishedRow, call: Call) -> Comparison:
    seconds = call.seconds()
    stored = constants_for(call.family, find_chip(call.chip))
    interval = interval_of(stored, Situation(seconds=seconds), seconds, alone=True)
    low, high = interval.low, interval.high
    if row.unit in TIMES:
        predicted = seconds / TIMES[row.unit]
    else:
        predicted = call.work / seconds / RATES[row.unit]
        low, high = 1 / high, 1 / low
    return Comparison(
        row=row, call=call, predicted=predicted, low=predicted * low, high=predicted * high
    )


def _one(value: float) -> Floats:
    return np.array([value], dtype=np.float64)
