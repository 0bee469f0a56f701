"""Discrete choices of a run: top-k ids and expert ids, recorded or taken over from another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workloads.op import Array

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A row where the run's own choice differs from the one it was given.

    `gap` is how far the best id it would have added lies above the worst it was made to keep, in
    its own scores.
    """

    path: str
    kind: str
    row: int
    dropped: tuple[int, ...]
    added: tuple[int, ...]
    gap: float


@dataclass(slots=True)
class ChoiceRecord:
    """Records the choices of a run; `given` choices replace the run's own, and flips are listed.

    Keys are (node path, kind); a key holds one array a step.
    """

    given: Mapping[Key, Sequence[Array]] | None = None
    taken: dict[Key, list[Array]] = field(default_factory=dict)
    flips: list[Flip] = field(default_factory=list)

    def choose(self, path: str, kind: str, own: Array, scores: Sequence[Array]) -> Array:
        """Ids [rows, n] to use; -1 fills unused places."""
        used = own
        earlier = self.taken.setdefault((path, kind), [])
        if self.given is not None:
            used = self.given[path, kind][len(earlier)]
            self._compare(path, kind, own, used, scores)
        earlier.append(used)
        return used

    def _compare(
        self, path: str, kind: str, own: Array, used: Array, scores: Sequence[Array]
    ) -> None:
        differing = np.flatnonzero((np.sort(own, axis=1) != np.sort(used, axis=1)).any(axis=1))
        for row in differing:
            added = tuple(int(i) for i in np.setdiff1d(own[row], used[row]))
            dropped = tuple(int(i) for i in np.setdiff1d(used[row], own[row]))
            row_scores = scores[int(row)]
            gap = float(max(row_scores[list(added)]) - min(row_scores[list(dropped)]))
            self.flips.append(
                Flip(path=path, kind=kind, row=int(row), dropped=dropped, added=added, gap=gap)
            )
