"""A costed step as JSON: stable keys, units in names, exact integers, every launch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.answer import answer_sentence, tokens_per_s
from reports.breakdown import GroupTotal, StepBreakdown
from reports.certainty import certainty_sentence
from reports.glossary import names_of
from reports.kernel_list import kernel_list_json
from reports.machine_table import machine_json, view_json
from simulator.basis.atomic import write_text
from simulator.cost.energy import step_energy
from simulator.cost.result import KernelRecord, MemoryUse, ProofLine, StepQuestion, StepResult

if TYPE_CHECKING:
    from hwmodels.chip import ChipSpec
    from simulator.count.count import StepCount
    from simulator.count.tally import Tally


def counts_json(counts: StepCount) -> dict[str, Any]:
    """What the graph asks for before any engine fuses or machine runs it, on one chip.

    Sums of the step, by operation, by layer and by kind of layer. Weighted FLOP are FP8-equivalent,
    as published efficiency ratios weigh them.
    """
    return {
        "step": _tally_json(counts.total),
        "operations": {name: _tally_json(t) for name, t in counts.by_operation().items()},
        "layers": {name: _tally_json(t) for name, t in counts.by_layer().items()},
        "layer_kinds": {name: _tally_json(t) for name, t in counts.by_kind().items()},
    }


def _tally_json(tally: Tally) -> dict[str, Any]:
    return asdict(tally) | {
        "total_flops": tally.total_flops,
        "weighted_flops_fp8_equivalent": tally.weighted_flops,
    }


SCHEMA = "v4sim.step/1"


def answer_to_json(result: StepResult, chip: ChipSpec) -> dict[str, Any]:
    """A step and its energy, as the command and the Python answer write them."""
    return step_to_json(result) | {"energy": step_energy(result, chip).to_json()}


def step_to_json(result: StepResult, breakdown: StepBreakdown | None = None) -> dict[str, Any]:
    """The step as plain JSON values. `schema` changes when the meaning of a key does."""
    breakdown = breakdown or StepBreakdown(result)
    total = breakdown.total
    return {
        "schema": SCHEMA,
        "answer": answer_sentence(result, breakdown),
        "question": question_json(result.question),
        "total_ps": result.total_ps,
        "low_ps": result.low_ps,
        "high_ps": result.high_ps,
        "calibrated": result.calibrated,
        "certainty": certainty_sentence(result),
        "standing": asdict(result.standing),
        "tokens": result.tokens,
        "tokens_per_s": tokens_per_s(result),
        "tokens_per_s_per_request": tokens_per_s(result) / result.question.batch,
        "bound": total.bound,
        "totals": _group_json("step", total),
        "operations": [_group_json("operation", group) for group in breakdown.by_operation],
        "layer_kinds": [_group_json("kind", group) for group in breakdown.by_layer_kind],
        "memory": _memory_json(result.memory),
        "period": None if result.period is None else asdict(result.period),
        "peaks": {
            "name": result.peaks.name,
            "matrix_flops_per_s": dict(result.peaks.matrix_flops_per_s),
            "vector_ops_per_s": result.peaks.vector_ops_per_s,
            "dram_bytes_per_s": result.peaks.dram_bytes_per_s,
            "link_bytes_per_s": result.peaks.link_bytes_per_s,
        },
        "counts": None if result.counts is None else counts_json(result.counts),
        "names": names_of(result),
        "assumptions": list(result.assumptions),
        "priced_as": list(result.priced_as),
        "notes": list(result.notes),
        "kernel_list": kernel_list_json(result),
        "machine": machine_json(result),
        "kernels": [
            _kernel_json(kernel, critical_ps)
            for kernel, critical_ps in zip(result.kernels, breakdown.critical_ps, strict=True)
        ],
    }


def question_json(question: StepQuestion) -> dict[str, Any]:
    """What was asked, every field by name."""
    return {
        "model": question.model,
        "chip": question.chip,
        "chips": question.count,
        "layout": asdict(question.layout),
        "phase": question.phase,
        "batch_requests": question.batch,
        "context_tokens": question.context,
        "new_tokens": question.new_tokens,
        "fidelity": question.fidelity,
        "engine": question.engine,
        "index_dtype": question.index_dtype,
        "expert_dtype": question.expert_dtype,
        "kv_dtype": question.kv_dtype,
        **({"page_tokens": question.page_tokens} if question.page_tokens else {}),
        **({"draft_tokens": question.draft_tokens} if question.draft_tokens else {}),
    }


def proof_json(proof: ProofLine) -> dict[str, Any]:
    """Outcome of the golden file."""
    return {**asdict(proof), "holds": proof.holds}


def write_json(path: Path | str, data: dict[str, Any]) -> None:
    """Write whole or not at all. One line a key, and one an element of a top-level list."""
    write_text(path, json_text(data))


def json_text(data: dict[str, Any]) -> str:
    """The same text, with a line's end."""
    return "".join(_lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    # The C encoder is compact only; `indent` would take the slow one for thousands of launches.
    yield "{"
    for index, (key, value) in enumerate(data.items()):
        yield f"{',' if index else ''}\n{json.dumps(key)}: "
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item, allow_nan=False) for item in value)
            yield f"[\n  {items}\n]"
        else:
            yield json.dumps(value, allow_nan=False)
    yield "\n}\n"


def _group_json(key: str, group: GroupTotal) -> dict[str, Any]:
    return {
        key: group.key,
        "launches": group.launches,
        "critical_ps": group.critical_ps,
        "duration_ps": group.duration_ps,
        "bound": group.bound,
        "critical_ps_by_bound": dict(group.critical_ps_by_bound),
        "duration_ps_by_bound": dict(group.duration_ps_by_bound),
        "critical_ps_by_cause": dict(group.critical_ps_by_cause),
        "low_ps": group.low_ps,
        "high_ps": group.high_ps,
        "flops": dict(group.flops),
        **group.amounts,
    }


def _memory_json(memory: MemoryUse) -> dict[str, Any]:
    return {
        "weight_bytes": memory.weight_bytes,
        "state_bytes_by_pool": dict(memory.state_bytes_by_pool),
        "state_bytes": memory.state_bytes,
        "workspace_bytes": memory.workspace_bytes,
        "used_bytes": memory.used_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "free_bytes": memory.capacity_bytes - memory.used_bytes,
    }


def _kernel_json(kernel: KernelRecord, critical_ps: int) -> dict[str, Any]:
    data = {name: getattr(kernel, name) for name in KernelRecord.__dataclass_fields__}
    stretches = data.pop("stretches")
    return {
        **data,
        "nodes": list(kernel.nodes),
        "flops": dict(kernel.flops),
        "busy_ps": dict(kernel.busy_ps),
        "causes_ps": dict(kernel.causes_ps),
        "machine": view_json(kernel.machine),
        "bound": kernel.bound,
        "duration_ps": kernel.duration_ps,
        "critical_ps": critical_ps,
        "stretches": [
            {"start_ps": start, "end_ps": end, "work_share": share}
            for start, end, share in stretches
        ],
    }
