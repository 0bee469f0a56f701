"""Cross-validated predictions of the carried rows, the groups they are judged in, and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from simulator.calibration.dispatch import RowSet, dispatched
from simulator.calibration.tables_in_folder import read_folder
from simulator.calibration.validation import Row, Statistics, cross_validated_rows, statistics_of
from simulator.kernels.registry import FAMILIES

SILICON = Path(__file__).parent / "silicon"
# From so many rows on, a family's intervals must hold this share of rows left out of the fit.
ENOUGH_ROWS = 200
LEAST_HELD, MOST_HELD = 0.75, 0.85

# Families that are judged on rows of their own (`test_silicon_amd`).
OF_AITER = frozenset(name for name in FAMILIES if name.endswith("_aiter"))

RowsByFamily = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Families judged together, and the largest median and p90 of absolute errors asked of them."""

    name: str
    families: tuple[str, ...]
    median: float
    p90: float

    def rows(self, by_family: RowsByFamily) -> list[Row]:
        """The group's rows."""
        return [row for family in self.families for row in by_family[family]]

    def meets(self, found: Statistics) -> bool:
        """Whether errors are within the target."""
        return found.median_abs_error <= self.median and found.p90_abs_error <= self.p90


def _named(start: str) -> tuple[str, ...]:
    return tuple(name for name in FAMILIES if name.startswith(start) and name not in OF_AITER)


def _group(name: str, families: tuple[str, ...], median: float, p90: float) -> Group:
    return Group(name=name, families=families, median=median, p90=p90)


_OPEN_MODULES = ("attention_module_sglang", "attention_module_vllm")
_QUANTISED = (*_named("gemm_fp8"), *_named("gemm_nvfp4"))
GROUPS = (
    _group("whole modules, SGLang and vLLM", _OPEN_MODULES, 0.045, 0.12),
    _group("whole modules, TensorRT-LLM", ("attention_module_trtllm",), 0.08, 0.20),
    _group("sparse attention core", ("sparse_core_flashmla",), 0.05, 0.13),
    _group("top-k v2", ("top_k_v2",), 0.05, 0.13),
    _group("index logits, SGLang", ("index_logits_sglang",), 0.05, 0.13),
    _group("index logits, vLLM", ("index_logits_vllm",), 0.07, 0.17),
    _group("top-k v1", ("top_k_v1",), 0.08, 0.22),
    _group("GEMM, BF16", ("gemm_bf16",), 0.07, 0.22),
    _group("GEMM, quantised", _QUANTISED, 0.09, 0.25),
    _group("MoE", _named("moe_"), 0.08, 0.25),
    _group("hyper-connections (mHC)", _named("mhc_"), 0.06, 0.15),
    _group("NCCL", _named("nccl_"), 0.07, 0.20),
    _group("graph all-reduce", _named("graph_all_reduce_"), 0.07, 0.20),
)


@cache
def silicon_rows() -> RowSet:
    """The carried rows with the family of each."""
    return dispatched(read_folder(SILICON).measured)


def cross_validated(families: Sequence[str]) -> dict[str, list[Row]]:
    """Rows of families that are fitted together, each predicted by a fit to the other folds."""
    rows = silicon_rows().chosen(lambda row: row.family in families)
    found = cross_validated_rows(families, rows)
    return {family: [row for row in found if row.family == family] for family in families}


def group_statistics(by_family: RowsByFamily) -> dict[Group, Statistics]:
    """Errors by group, in the order of the groups."""
    return {group: statistics_of(group.rows(by_family)) for group in GROUPS}
