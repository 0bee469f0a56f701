"""Figures that come from running the paged evaluator on a small model with random weights."""

from __future__ import annotations

from functools import cache

import numpy as np

from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.pools import Access
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from workloads.deepseek_v4.config import ModelConfig, model_from_mapping

# The last token of a key count, and the length of the comparison: past an HCA entry of 128 tokens.
TOKENS = 261
COMPARED = 140


@cache
def _golden() -> tuple[GoldenFile, ModelConfig]:
    golden = GoldenFile.load(shipped_golden_file())
    return golden, model_from_mapping(golden.config)


def keys_read() -> list[float]:
    """Keys that the last decode step reads in a window, a CSA and an HCA layer, from its log."""
    golden, config = _golden()
    evaluator = Evaluator(config, golden.weights, RequestTable(1, 512))
    row = evaluator.table.admit()
    evaluator.step([(row, golden.input_ids[: TOKENS - 1])])
    log: list[Access] = []
    record = ChoiceRecord()
    evaluator.step([(row, golden.input_ids[TOKENS - 1 : TOKENS])], choices=record, log=log)
    reads: dict[str, int] = {}
    for access in log:
        if access.path.endswith("attn/core") and not access.write:
            reads[access.region] = len(access.slots)
    kinds = config.layer_kinds
    window, csa, hca = (kinds.index(kind) for kind in ("swa", "csa", "hca"))
    picked = int((record.taken[f"layer{csa:02d}/attn/indexer/top_k", "top-k"][0] >= 0).sum())
    # The query's own row is the one key that is not read from the ring.
    own = 1
    return [
        reads[f"layer{window:02d}/attn/window"] + own,
        reads[f"layer{csa:02d}/attn/window"] + own + picked,
        reads[f"layer{hca:02d}/attn/window"] + own + reads[f"layer{hca:02d}/attn/c128"],
    ]


def decode_against_prefill() -> list[float]:
    """Largest logit difference in float32 over the largest logit; ids of the prefill run."""
    golden, config = _golden()
    ids = golden.input_ids[:COMPARED]
    recorded = ChoiceRecord()
    prefill = _runner(golden, config)
    whole = prefill.step([(prefill.table.admit(), ids)], choices=recorded).logits
    decode = _runner(golden, config)
    row = decode.table.admit()
    worst = 0.0
    for position, token in enumerate(ids):
        one = {key: [taken[0][position : position + 1]] for key, taken in recorded.taken.items()}
        step = decode.step([(row, [int(token)])], choices=ChoiceRecord(given=one))
        worst = max(worst, float(np.abs(step.logits[0] - whole[position]).max()))
    return [worst / float(np.abs(whole).max())]


def _runner(golden: GoldenFile, config: ModelConfig) -> Evaluator:
    table = RequestTable(1, 512)
    return Evaluator(config, golden.weights, table, dtype=np.float32, all_logits=True)
