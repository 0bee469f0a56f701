"""Holds the dense reference and the paged evaluator against a golden file, check by check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.evaluate.dense_reference import forward
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v4.config import model_from_mapping
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_name, model_state
from workloads.op import Array

LOGITS_TOLERANCE = 1e-9
ACTIVATION_TOLERANCE = 1e-6

# Golden activation -> value of the graph, within a layer.
_VALUES = {
    "attn_in": "attn/norm",
    "attn_out": "attn/wo_b",
    "moe_out": "moe/sum",
    "streams_out": "moe_hc/expand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison: the largest difference, and what it may be.

    Logits compare absolutely; activations relative to the largest stored magnitude.
    """

    runner: str
    quantity: str
    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Within the tolerance; a NaN is not."""
        return self.difference <= self.tolerance


def shipped_golden_file() -> Path:
    """The golden file that ships with the package."""
    return Path(str(resources.files("simulator.evaluate.data") / "tiny_7.npz"))


def verify_file(path: str | Path, window_page_tokens: int | None = None) -> Iterator[Check]:
    """All checks of one file, as they are computed.

    With `window_page_tokens` windows lie in pages, which a step writes before it attends.
    """
    golden = GoldenFile.load(path)
    dense = forward(golden.config, golden.weights, golden.input_ids)
    yield _logits_check("dense reference", dense.logits, golden.logits)
    for name, stored in golden.activations.items():
        yield _activation_check("dense reference", name, dense.activations[name], stored)
    for runner, chunks in _runs(golden):
        logits, values = _run(golden, chunks, window_page_tokens)
        expected = golden.logits if len(chunks) == 1 else golden.logits_chunked
        yield _logits_check(runner, logits, golden.logits if expected is None else expected)
        for name, stored in golden.activations.items():
            yield _activation_check(runner, name, values[_graph_value(name)], stored)


def _runs(golden: GoldenFile) -> Iterator[tuple[str, Sequence[int]]]:
    yield "paged evaluator, one shot", (len(golden.input_ids),)
    if len(golden.chunks) > 1:
        yield f"paged evaluator, {len(golden.chunks)} chunks", golden.chunks


def _run(
    golden: GoldenFile, chunks: Sequence[int], window_page_tokens: int | None = None
) -> tuple[Array, dict[str, Array]]:
    """(logits of every row, wanted values), joined over the chunks."""
    config = model_from_mapping(golden.config)
    pools = pools_of(model_state(config, Precision()))
    page = page_multiple(pools)
    table = RequestTable(1, len(golden.input_ids), page_tokens=page, pools=pools)
    evaluator = Evaluator(
        config,
        golden.weights,
        table,
        all_logits=True,
        window_page_tokens=window_page_tokens,
    )
    row = table.admit()
    wanted = [_graph_value(name) for name in golden.activations]
    outputs, start = [], 0
    for count in chunks:
        ids = golden.input_ids[start : start + count]
        outputs.append(evaluator.step([(row, ids)], keep=wanted))
        start += count
    values = {name: np.concatenate([out.values[name] for out in outputs]) for name in wanted}
    return np.concatenate([out.logits for out in outputs]), values


def _graph_value(activation: str) -> str:
    layer, _, what = activation.partition(".")
    return f"{layer_name(int(layer.removeprefix('layer')))}/{_VALUES[what]}"


def _logits_check(runner: str, ours: Array, golden: Array) -> Check:
    difference = float(np.abs(ours - golden).max())
    return Check(
        runner=runner, quantity="logits", difference=difference, tolerance=LOGITS_TOLERANCE
    )


def _activation_check(runner: str, name: str, ours: Array, stored: Array) -> Check:
    scale = float(np.abs(stored).max()) or 1.0
    difference = float(np.abs(ours - stored.astype(np.float64)).max()) / scale
    return Check(
        runner=runner, quantity=name, difference=difference, tolerance=ACTIVATION_TOLERANCE
    )
