"""Measurements of Ascend machines as a table has them, each asked of the step that it was taken of.

A row is a decode step of V4 (a time per output token, or its throughput), an operator of one layer,
or something that is no time of a step: those say why they cannot be asked.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.basis.errors import FileFormatError, V4SimError
from simulator.cost.question import AskedStep, ask
from simulator.engine.kernel import Kernel
from simulator.kernels.constants_file import chip_standing
from simulator.kernels.interval import Share, interval_of_sum

COLUMNS = (
    "chip", "n_chips", "software", "model", "precision", "parallel", "phase", "batch", "context",
    "metric", "value", "unit", "note",
)  # fmt: skip
# Words of the table -> chips that ship; a package of 910C is two dies, each a rank of its own.
_CHIPS = {
    "Ascend 950DT": ("ascend-950dt", 1),
    "Ascend 950PR": ("ascend-950pr", 1),
    "Atlas A3 (910C; 1 chip = 2 dies)": ("ascend-a3-die", 2),
    "Atlas A3, one die": ("ascend-a3-die", 1),
    "Ascend 910B (A2)": ("ascend-910b3", 1),
    "Ascend 910B3": ("ascend-910b3", 1),
}
_MODELS = {"DeepSeek-V4-Flash": "v4-flash", "DeepSeek-V4-Pro": "v4-pro"}
# Kernels of the profile that make up an operator of the table, and the kind of layer they are of.
_OPERATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sparse_attn_swa": ("swa", ("core", "o_a", "o_b")),
    "sparse_attn_csa": ("csa", ("core", "o_a", "o_b")),
    "sparse_attn_hca": ("hca", ("core", "o_a", "o_b")),
    "compressor ratio 4": ("csa", ("compressor_gemm", "compressor")),
    "compressor ratio 128": ("hca", ("compressor_gemm", "compressor")),
    "indexer compressor": ("csa", ("indexer_compressor_gemm", "indexer_compressor")),
    "indexer + q_b": (
        "csa",
        (
            "indexer_compressor_gemm", "indexer_compressor", "indexer_weights", "indexer_q_b",
            "indexer_q_rope", "index_score",
        ),
    ),
    "wq_a + wq_b": (
        "hca",
        ("q_a", "kv_a", "q_norm", "kv_norm", "q_b", "q_rope", "kv_rope", "inverse_rope"),
    ),
    "hc_pre": ("hca", ("attn_hc_pre",)),
    "hc_post": ("hca", ("attn_hc_post",)),
    "hc_head": ("head", ("head_pre",)),
}  # fmt: skip
# Quantised products of a layer, which the operator's mean a call is taken over.
_QUANTISED = ("q_a", "kv_a", "q_b", "o_b", "indexer_q_b", "shared_up", "shared_down")
_ACTIVATIONS = ("expert_act", "shared_act")
LONGEST = 1_048_576
# Of kernels whose context is not stated since they do not see it.
OPERATOR_CONTEXT = 8192
_DRAFTS = re.compile(r"MTP(\d), ([0-9.]+) drafts? accepted")


@dataclass(frozen=True, slots=True)
class NpuRow:
    """One line of the table; `line` counts from 1 with the header."""

    line: int
    texts: Mapping[str, str]

    @property
    def value(self) -> float:
        """The measured number, in `unit`."""
        return float(self.texts["value"])

    @property
    def group(self) -> tuple[str, str, str]:
        """Rows that were taken of one setting: chip, model, precision."""
        return self.texts["chip"], self.texts["model"], self.texts["precision"]

    @property
    def kind(self) -> str:
        """What a row is judged as: `step` or `operator`."""
        return "operator" if self.texts["phase"] in ("kernel", "decode operator") else "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuPrediction:
    """A row with what is predicted, in the row's unit; or with the reason why nothing is."""

    row: NpuRow
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    engine: str = ""
    reason: str = ""

    @property
    def inside(self) -> bool | None:
        """Whether the interval holds the measured value; None where nothing was asked."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.row.value <= self.high

    @property
    def slower(self) -> float | None:
        """Predicted time over measured time; a rate is turned over."""
        if self.predicted is None:
            return None
        ratio = self.predicted / self.row.value
        return 1 / ratio if self.row.texts["unit"].startswith("tok/s") else ratio

    @property
    def error(self) -> float | None:
        """|predicted - measured| / measured, of times."""
        return None if self.slower is None else abs(self.slower - 1)


def read_npu_rows(path: Path) -> list[NpuRow]:
    """Rows of a table; a column that is missing or a value that is no number is an error."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise FileFormatError(f"{path}:1: column {missing[0]} is missing")
        rows = [NpuRow(number, dict(texts)) for number, texts in enumerate(reader, start=2)]
    for row in rows:
        _positive(path, row)
    return rows


def _positive(path: Path, row: NpuRow) -> None:
    text = row.texts["value"]
    try:
        good = math.isfinite(float(text)) and float(text) > 0
    except ValueError:
        good = False
    if not good:
        raise FileFormatError(
            f"{path}:{row.line}: value is {text!r}, expected a number greater than 0"
        )


def predict_npu_row(row: NpuRow) -> NpuPrediction:
    """What the row's chip, engine and layout are predicted to take, or why that is not asked."""
    reason = _not_asked(row)
    if reason:
        return NpuPrediction(row=row, reason=reason)
    try:
        return _operator(row) if row.kind == "operator" else _step(row)
    except V4SimError as error:
        return NpuPrediction(row=row, reason=str(error))


def is_asked(row: NpuRow) -> bool:
    """Whether a row says enough to be asked."""
    return not _not_asked(row)


def _not_asked(row: NpuRow) -> str:
    texts = row.texts
    metric, software = texts["metric"], texts["software"]
    if texts["chip"] not in _CHIPS and texts["phase"] not in ("serving", "prefill"):
        return f"the chip is not named: {texts['chip']}"
    if "upper" in metric or "bound" in metric:
        return "a limit, and no measurement"
    if "tokens per call" in metric:
        return "a size, and no time"
    if "pypto" in software or "Triton" in software:
        return f"no profile has the kernels of {software}"
    if row.kind == "operator":
        known = any(name in texts["model"] for name in (*_OPERATORS, "mHC", "QuantBatch", "Swiglu"))
        return "" if known else "no operator of a V4 layer that a profile has"
    if not any(texts["model"].startswith(name) for name in _MODELS):
        return f"no graph of {texts['model']} that an engine's kernels cover"
    if texts["phase"] == "prefill" or metric.startswith("TTFT"):
        return "a first token after a queue: its prompts, chunks and hits are not stated"
    if metric.startswith("TPOT") and texts["unit"] == "ms" and texts["phase"] == "serving":
        return _serving_reason(row)
    if texts["phase"] == "serving":
        return "a serving run: arrivals and drafts decide it, and no step of its own is stated"
    return ""


def _serving_reason(row: NpuRow) -> str:
    texts = row.texts
    if not texts["batch"]:
        return "the number of requests at once is not stated"
    if texts["metric"] != "TPOT":
        return (
            "time per token of a run that prompts interrupt: its drafts and chunks are not stated"
        )
    if texts["chip"] not in _CHIPS:
        return f"the chip is not named: {texts['chip']}"
    return ""


def _step(row: NpuRow) -> NpuPrediction:
    from simulator.cost.step import cost_step

    texts = row.texts
    asked, yielded = asked_step(row)
    result = cost_step(asked, must_fit=False)
    per_token = [ps * 1e-9 / yielded for ps in (result.total_ps, result.low_ps, result.high_ps)]
    if texts["unit"].startswith("tok/s"):
        chips = float(texts["n_chips"])
        rates = [float(texts["batch"]) * 1e3 / ms / chips for ms in per_token]
        return NpuPrediction(
            row=row, predicted=rates[0], low=rates[2], high=rates[1], engine=asked.question.engine
        )
    return NpuPrediction(
        row=row, predicted=per_token[0], low=per_token[1], high=per_token[2],
        engine=asked.question.engine,
    )  # fmt: skip


def asked_step(row: NpuRow) -> tuple[AskedStep, float]:
    """The step of a row, and the tokens that it yields a request."""
    texts = row.texts
    chip, ranks = _CHIPS[texts["chip"]]
    count = int(texts["n_chips"]) * ranks
    drafts = _DRAFTS.search(texts["note"])
    single = "DP" not in texts["parallel"]
    served = texts["phase"] == "serving"
    context = int(texts["context"]) + (int(texts["new_tokens"] or 0) // 2 if served else 0)
    asked = ask(
        model=_MODELS[texts["model"].split(" ")[0]],
        chip=chip,
        count=count,
        tp=count if single else 1,
        dp=1 if single else count,
        ep=None if single else count,
        batch=int(texts["batch"]),
        context=min(context, LONGEST),
        draft_tokens=int(drafts[1]) if drafts else 0,
        engine="vllm-ascend" if texts["software"].startswith("vllm") else None,
        **_formats(texts["precision"]),
    )
    return asked, 1 + float(drafts[2]) if drafts else 1.0


def _formats(precision: str) -> dict[str, Any]:
    """Formats of experts, cache rows and index keys as the table words them.

    Assumes: HiF8 has the bytes and the rate of FP8.
    """
    if "MXFP4" in precision:
        return {"expert_dtype": "fp4", "kv_dtype": "fp8", "index_dtype": "fp8"}
    if precision.startswith("W8A8"):
        return {"expert_dtype": "int8", "kv_dtype": "bf16", "index_dtype": "fp8"}
    return {}


def asked_operator(row: NpuRow) -> tuple[AskedStep, list[Kernel]]:
    """The step of which an operator of the table is a part, and its kernels of one layer.

    A batch of operators is that of one rank; tokens of a lone kernel are those of a batch.
    """
    from simulator.cost.step import rank_graph
    from simulator.engine.lowering import lower
    from workloads.run_stats import RunStats

    texts = row.texts
    alone = texts["n_chips"] == "1"
    ranks = 1 if alone else int(texts["n_chips"])
    asked = ask(
        model="v4-flash",
        chip=_CHIPS[texts["chip"]][0],
        count=ranks,
        tp=1,
        dp=ranks,
        ep=ranks if ranks > 1 else None,
        batch=int(texts["batch"]) * ranks,
        context=int(texts["context"] or OPERATOR_CONTEXT),
        **_formats("W8A8" if alone else texts["precision"]),
    )
    deployment = asked.deployment
    graph = rank_graph(asked.question, asked.config, deployment.formats.precision)
    return asked, list(_covered(row, list(lower(graph, deployment.profile, RunStats()))))


def _operator(row: NpuRow) -> NpuPrediction:
    from simulator.cost.engine_price import engine_price
    from simulator.cost.price import Target

    texts = row.texts
    asked, chosen = asked_operator(row)
    target = Target(asked.chip, asked.node, asked.deployment.profile)
    prices = [engine_price(kernel.demand, target) for kernel in chosen]
    if not prices:
        return NpuPrediction(row=row, reason="the profile launches no such kernel of its own")
    standing, shares = chip_standing(asked.chip), []
    for price in prices:
        seconds = price.alone_ps * 1e-12
        low, high = standing.reaches(seconds)
        shares.append(
            Share(
                price.priced_by,
                seconds,
                1 - price.low,
                price.high - 1,
                1 - math.exp(-low),
                math.exp(high) - 1,
            )
        )
    total = sum(share.seconds for share in shares)
    low_s, high_s = interval_of_sum(shares)
    calls = len(chosen) if "per call" in texts["metric"] else 1
    found = [seconds * 1e6 / calls for seconds in (total, low_s, high_s)]
    return NpuPrediction(
        row=row, predicted=found[0], low=found[1], high=found[2], engine=asked.question.engine
    )


def _covered(row: NpuRow, kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """Kernels of one layer that make up the row's operator, or those that its mean is over."""
    model = row.texts["model"]
    if "QuantBatch" in model or "Swiglu" in model:
        meant = _QUANTISED if "QuantBatch" in model else _ACTIVATIONS
        yield from (kernel for kernel in kernels if kernel.name in meant)
        return
    software = row.texts["software"]
    words = software if "mHC" in model else model
    found = next((own for name, own in _OPERATORS.items() if name in words), None)
    if found is None:
        return
    kind, names = found
    scopes = list(dict.fromkeys(k.scope for k in kernels if k.kind == kind))
    if scopes:
        yield from (k for k in kernels if k.scope == scopes[0] and k.name in names)
