"""How unevenly tokens pick experts, and what the busiest rank has of them.

`zipf`: the n-th most picked expert gets a share that falls as n^-exponent. `shares`: a CSV of
`layer,expert,share`. `recorder`: the dump of an engine's expert recorder, a JSON of
`{"logical_count": [[...]]}` (layers x experts; a leading axis of steps is summed).

Experts are dealt to ranks in their order for files, at random (mean over draws) for the law.
Replicas go to the most picked experts first, each copy taking an equal part (EPLB).

Assumes: the busiest rank of a layer decides, and layers follow one another: the factor is the mean
    over layers of the largest load over the mean load of a rank.
"""

from __future__ import annotations

import csv
import heapq
import json
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import KeyFaultError, StrictModel

Floats = NDArray[np.float64]
_DRAWS = 64
_CLOSE = 1e-3
# Source: ROCm/ATOM pull 1210: balancing V4-Pro's experts over 8 ranks gave 34 % more prompts a
# second, so that the busiest had at least 1.34 times the mean; this exponent gives 1.33.
DEFAULT_ZIPF = 0.65


class ExpertLoad(StrictModel):
    """One of a law, a file of shares, or a recorder's dump; `replicas`: copies beyond one each."""

    zipf: Annotated[float, Field(ge=0, le=4)] | None = None
    shares: str | None = None
    recorder: str | None = None
    replicas: Annotated[int, Field(ge=0, le=65536)] = 0

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = [n for n in ("zipf", "shares", "recorder") if getattr(self, n) is not None]
        if len(given) != 1:
            raise KeyFaultError(
                ("zipf",),
                f"give one of zipf, shares and recorder, not {' and '.join(given) or 'none'}",
            )
        return self

    def factor(self, experts: int, ranks: int) -> float:
        """Load of the busiest rank over the mean, at least 1."""
        if ranks == 1:
            return 1.0
        if (experts + self.replicas) % ranks:
            raise InputError(
                f"{experts} experts and {self.replicas} replicas do not divide over {ranks} ranks "
                f"({(experts + self.replicas) % ranks} left over); try replicas "
                f"{self.replicas + ranks - (experts + self.replicas) % ranks}"
            )
        if self.zipf is not None:
            return zipf_factor(experts, ranks, self.zipf, self.replicas)
        layers = _read_shares(Path(self.shares or ""), experts) if self.shares else None
        if layers is None:
            layers = _read_recorder(Path(self.recorder or ""), experts)
        return float(np.mean([busiest(row, ranks, self.replicas) for row in layers]))


@lru_cache(maxsize=256)
def zipf_factor(experts: int, ranks: int, exponent: float, replicas: int = 0) -> float:
    """Mean over random placements of the busiest rank's load over the mean."""
    shares = np.arange(1, experts + 1) ** -exponent
    shares /= shares.sum()
    draw = np.random.default_rng(1)
    found = [busiest(draw.permutation(shares), ranks, replicas) for _ in range(_DRAWS)]
    return float(np.mean(found))


def busiest(shares: Floats, ranks: int, replicas: int = 0) -> float:
    """Largest load of a rank over the mean; with replicas slots are dealt to the emptiest rank."""
    if not replicas:
        return float(shares.reshape(ranks, -1).sum(axis=1).max() * ranks / shares.sum())
    copies = np.ones(len(shares), dtype=np.int64)
    heap = [(-share, i) for i, share in enumerate(shares)]
    heapq.heapify(heap)
    for _ in range(replicas):
        _, i = heapq.heappop(heap)
        copies[i] += 1
        heapq.heappush(heap, (-shares[i] / copies[i], i))
    slots = np.sort(np.repeat(shares / copies, copies))[::-1]
    loads, held, most = np.zeros(ranks), np.zeros(ranks, dtype=np.int64), len(slots) // ranks
    for slot in slots:
        open_ranks = np.flatnonzero(held < most)
        rank = open_ranks[np.argmin(loads[open_ranks])]
        loads[rank] += slot
        held[rank] += 1
    return float(loads.max() * ranks / loads.sum())


def _read_shares(path: Path, experts: int) -> list[Floats]:
    """Rows of layers; shares of a layer add up to 1."""
    layers: dict[int, Floats] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.DictReader(file), 2):
                try:
                    layer, expert = int(row["layer"]), int(row["expert"])
                    share = float(row["share"])
                except (KeyError, TypeError, ValueError):
                    raise FileFormatError(
                        f"{path}:{line}: expected columns layer, expert, share with numbers"
                    ) from None
                if not 0 <= expert < experts or not share >= 0:
                    raise FileFormatError(
                        f"{path}:{line}: expert {expert} with share {share:g}, expected an expert "
                        f"of 0 to {experts - 1} and a share of 0 or more"
                    )
                layers.setdefault(layer, np.zeros(experts))[expert] += share
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from None
    for layer, shares in layers.items():
        if abs(shares.sum() - 1) > _CLOSE:
            raise FileFormatError(
                f"{path}: shares of layer {layer} add up to {shares.sum():.6g}, expected 1 "
                f"({shares.sum() - 1:+.3g}); divide them by their sum"
            )
    if not layers:
        raise FileFormatError(f"{path}: has no row of layer, expert, share")
    return [layers[layer] for layer in sorted(layers)]


def _read_recorder(path: Path, experts: int) -> list[Floats]:
    """Counts by layer and expert of SGLang's recorder."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        counts = np.asarray(data["logical_count"], dtype=np.float64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path}: is no JSON with 'logical_count', layers x experts ({error})"
        ) from None
    if counts.ndim == 3:
        counts = counts.sum(axis=0)
    if counts.ndim != 2 or counts.shape[1] != experts or not (counts.sum(axis=1) > 0).any():
        raise FileFormatError(
            f"{path}: logical_count has shape {counts.shape}, expected layers x {experts} experts "
            "with counts"
        )
    return [row for row in counts if row.sum() > 0]
