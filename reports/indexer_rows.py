"""A study of the indexer as JSON: flat rows, units in the names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from simulator.indexer.accuracy import AccuracyPoint
from simulator.indexer.cost import CostPoint
from simulator.indexer.study import IndexerStudy


def study_to_json(study: IndexerStudy) -> dict[str, Any]:
    """Everything that was asked and found."""
    question = study.question
    return {
        "model": study.model,
        "top_k": study.top_k,
        "index_heads": study.heads,
        "index_dim": study.dim,
        "chips_in_step": question.count,
        "batch": question.batch,
        "seed": question.seed,
        "queries": study.queries,
        "synthetic": study.synthetic,
        "distributions": study.cases,
        "costs": [cost_row(point) for point in study.costs],
        "accuracy": [accuracy_row(point) for point in study.accuracy],
        "published": [asdict(effect) for effect in study.effects],
        "assumptions": list(study.assumptions),
    }


def cost_row(point: CostPoint) -> dict[str, Any]:
    """One precision on a chip at a context; bytes and times of one chip."""
    return {
        "chip": point.chip,
        "context_tokens": point.context,
        "precision": point.precision,
        "math": point.math,
        "requests_of_chip": point.requests,
        "key_bytes": point.key_bytes,
        "query_bytes": point.query_bytes,
        "scan_layers": point.scan_layers,
        "layer_scan_bytes": point.scan_bytes,
        "layer_scan_ps": point.scan_ps,
        "layer_scan_bytes_per_s": point.scan_bytes_per_s,
        "layer_scan_peak_fraction": point.scan_bytes_per_s / point.peak_bytes_per_s,
        "bound": point.bound,
        "step_ps": point.step_ps,
        "scan_step_fraction": point.scan_share,
        "cache_bytes_per_token": point.cache_bytes_per_token,
        "capacity_tokens_of_chip": point.capacity_tokens,
        "misfit": point.misfit,
    }


def accuracy_row(point: AccuracyPoint) -> dict[str, Any]:
    """One variant on a distribution at a context, means over the queries."""
    return {
        "distribution": point.distribution,
        "entries": point.entries,
        "precision": point.variant.precision,
        "hadamard": point.variant.hadamard,
        "bf16_scores": point.variant.bf16_scores,
        "recall": point.recall,
        "worst_query_recall": point.worst_recall,
        "planted_recall": point.planted_recall,
        "score_error_in_standard_deviations": point.score_error,
        "output_relative_change": point.output_change,
        "missed_attention_fraction": point.missed_attention,
    }
