"""What a step counts, as JSON: the demand of the graph before any engine fuses or machine runs it.

Counts are of one chip. Weighted FLOP are FP8-equivalent, as published efficiency ratios weigh them.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.count.count import StepCount
    from simulator.count.tally import Tally


def counts_json(counts: StepCount) -> dict[str, Any]:
    """Sums of the step, by operation, by layer and by kind of layer."""
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
