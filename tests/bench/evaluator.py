"""Evaluator: tokens a second on the model of the golden file, beside the dense reference."""

from __future__ import annotations

import numpy as np

from simulator.evaluate.dense_reference import forward
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from tests.bench.line import Line, median_seconds, seconds_of
from workloads.deepseek_v4.config import model_from_mapping

REQUESTS, PROMPT, DECODED, RUNS = 8, 256, 16, 3


def lines() -> list[Line]:
    """Prefill and decode of several requests, and the dense reference on one."""
    golden = GoldenFile.load(shipped_golden_file())
    config = model_from_mapping(golden.config)
    table = RequestTable(REQUESTS, PROMPT + DECODED)
    evaluator = Evaluator(config, golden.weights, table)
    rows = [table.admit() for _ in range(REQUESTS)]
    ids = np.random.default_rng(0).integers(0, config.vocab_size, PROMPT + DECODED)
    prefill = seconds_of(lambda: evaluator.step([(row, ids[:PROMPT]) for row in rows]))

    def decode() -> None:
        for at in range(PROMPT, PROMPT + DECODED):
            evaluator.step([(row, ids[at : at + 1]) for row in rows])

    decoding = seconds_of(decode)
    dense = median_seconds(lambda: forward(golden.config, golden.weights, ids[:PROMPT]), RUNS)
    return [
        _rate(f"prefill of {REQUESTS} x {PROMPT} tokens", REQUESTS * PROMPT / prefill),
        _rate(f"decode of {REQUESTS} requests", REQUESTS * DECODED / decoding),
        _rate(f"dense reference, one prefill of {PROMPT} tokens", PROMPT / dense),
        Line(
            what="evaluator, paged prefill over dense reference",
            value=(REQUESTS * PROMPT / prefill) / (PROMPT / dense),
            unit="x",
        ),
    ]


def _rate(what: str, value: float) -> Line:
    return Line(what=f"evaluator, golden model: {what}", value=value, unit="tokens/s")
