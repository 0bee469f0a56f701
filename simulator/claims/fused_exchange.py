"""Published times of the fused expert exchange beside ours, and the same layer without fusing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from simulator.basis.yaml_loader import StrictModel, load_yaml
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.engine.exchange import FUSED_KERNEL

_PATH = Path(__file__).parent / "fused_exchange.yaml"
_SEPARATE = ("dispatch", "experts", "combine")
Whole = Annotated[int, Field(gt=0)]


class PublishedLayer(StrictModel):
    """One layer: `tokens` of each of `ranks`, all of which hold experts."""

    model: str
    chip: str
    ranks: Whole
    tokens: Whole
    experts: Literal["fp4", "fp8"]
    us: Annotated[float, Field(gt=0)]
    source: str


class _Rows(StrictModel):
    sources: dict[str, str]
    rows: tuple[PublishedLayer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer:
    """A published layer; ours fused, and as three kernels one after the other."""

    row: PublishedLayer
    ours_us: float
    separate_us: float

    @property
    def difference(self) -> float:
        """Ours against the published time."""
        return self.ours_us / self.row.us - 1


def fused_layers(path: Path = _PATH) -> list[FusedLayer]:
    """Every published layer beside ours."""
    return [compared(row) for row in load_yaml(path, _Rows).rows]


def compared(row: PublishedLayer) -> FusedLayer:
    """One layer."""
    fused = layer_us(row.model, row.chip, row.ranks, row.tokens, row.experts, "fused")
    separate = layer_us(row.model, row.chip, row.ranks, row.tokens, row.experts, "deepep")
    return FusedLayer(row=row, ours_us=fused, separate_us=separate)


def layer_us(model: str, chip: str, ranks: int, tokens: int, experts: str, exchange: str) -> float:
    """Microseconds of the experts and the exchange around them in one layer, all ranks alike."""
    step = cost_step(
        ask(
            model=model,
            chip=chip,
            count=ranks,
            dp=ranks,
            phase="prefill",
            batch=ranks,
            context=tokens,
            expert_dtype=experts,
            exchange=exchange,
        )
    )
    names = {FUSED_KERNEL} if exchange == "fused" else set(_SEPARATE)
    layers = len({r.scope for r in step.kernels if r.name in names})
    return sum((r.end_ps - r.start_ps) for r in step.kernels if r.name in names) / layers / 1e6


def median_off(found: Sequence[FusedLayer]) -> float:
    """Median of the differences, without sign."""
    return float(np.median([abs(one.difference) for one in found]))
