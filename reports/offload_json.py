"""JSON of C4 entries on the host: every figure, units in names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reports.offload_text import offload_answer
from simulator.offload.comparison import Comparison
from simulator.offload.misses import StatedMisses
from simulator.offload.published import HISPARSE, WHY
from simulator.offload.study import OffloadStudy

SCHEMA = "v4sim.offload/1"


def offload_to_json(study: OffloadStudy, misses: str) -> dict[str, Any]:
    """Every figure; `misses` says where they are from."""
    question = study.question
    step = question.step.question
    return {
        "schema": SCHEMA,
        "question": {
            "model": question.capacity.config.name,
            "chip": step.chip,
            "count": step.count,
            "layout": asdict(step.layout),
            "engine": step.engine,
            "fidelity": step.fidelity,
            "index_dtype": step.index_dtype,
            "expert_dtype": step.expert_dtype,
            "prompt_tokens": question.prompt_tokens,
            "output_tokens": question.output_tokens,
            "buffer_entries": question.buffer_entries,
            "misses": misses,
            **asdict(
                StatedMisses(
                    overlap=question.overlap,
                    returns=question.returns,
                    return_entries=question.return_entries,
                )
            ),
            "gather_share": question.gather_share,
            "host_bytes": question.host_bytes,
            "host_ratio": question.host_ratio,
            "offload_window_ratio": question.offload_window_ratio,
        },
        "answer": offload_answer(study),
        "priced_as": list(study.priced_as),
        "ceiling": study.ceiling,
        "gather": asdict(study.gather) | {"useful_bytes_per_s": study.gather.useful_bytes_per_s},
        "asked": comparison_to_json(study.asked),
        "contexts": [comparison_to_json(one) for one in study.contexts],
        "grid": [asdict(point) for point in study.grid],
        "published": {
            "gain": HISPARSE.gain,
            "words": HISPARSE.words,
            "source": HISPARSE.source,
            "why": WHY,
            "cases": [
                {
                    "settings": case.settings,
                    "difference": case.difference,
                    **comparison_to_json(case.comparison),
                }
                for case in study.published
            ],
        },
        "reuse": [asdict(one) for one in study.reuse],
        "assumptions": list(study.assumptions),
    }


def comparison_to_json(one: Comparison) -> dict[str, Any]:
    """Every figure of a comparison, with those that follow from others."""
    points = {"plain": one.plain, "offloaded": one.offloaded, "same_batch": one.same_batch}
    return {
        "context_tokens": one.context_tokens,
        "gain": one.gain,
        "same_batch_gain": one.same_batch_gain,
        "even_misses": one.even_misses,
        "even_overlap": one.even_overlap,
        "even_requests": one.even_requests,
        "plain_room": asdict(one.plain_room),
        "offload_room": asdict(one.offload_room),
        **{
            name: None
            if point is None
            else asdict(point)
            | {
                "step_s": point.step_s,
                "tokens_per_s": point.tokens_per_s,
                "backup_share": point.backup_share,
            }
            for name, point in points.items()
        },
    }
