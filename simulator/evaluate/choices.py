"""Discrete choices of a run: top-k ids and expert ids, recorded or taken over from another run.

A file of choices is an npz: `model` is the model's name, `requests` [rows] the request of every
row, `top-k/PATH` [rows, k] and `experts/PATH` [rows, slots] the choices by path of the node.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from simulator.basis.atomic import write_bytes
from simulator.basis.errors import FileFormatError, InputError
from workloads.deepseek_v4.config import ModelConfig
from workloads.op import Array
from workloads.run_stats import RecordedChoices

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


def write_choices(
    path: str | Path, model: str, record: ChoiceRecord, requests: Sequence[Array]
) -> None:
    """Write what a run chose; `requests` holds, for each of its steps, the request of every row.

    With an evaluator: `write_choices(path, config.name, record, [np.arange(batch)] * steps)` after
    decode steps of `record`.
    """
    arrays: dict[str, Array] = {
        f"{kind}/{path}": np.concatenate(taken) for (path, kind), taken in record.taken.items()
    }
    whole = io.BytesIO()
    np.savez_compressed(whole, model=np.array(model), requests=np.concatenate(requests), **arrays)  # type: ignore[arg-type]
    write_bytes(path, whole.getvalue())


def load_choices(path: str | Path, config: ModelConfig, context: int) -> RecordedChoices:
    """Choices for a step of a model whose requests have `context` tokens after it."""
    return _ChoicesFile(Path(path), config).choices(context)


class _ChoicesFile:
    """Arrays of a file; every fault is one sentence that names it."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        self.path, self.config = path, config
        if not path.is_file():
            raise InputError(
                f"--choices: there is no file of choices {path}; write one with "
                "simulator.evaluate.choices.write_choices"
            )
        self.data = path.read_bytes()
        self.arrays = self._read()

    def choices(self, context: int) -> RecordedChoices:
        """What the file holds, checked."""
        model = str(self._needed("model"))
        if model != self.config.name:
            self._fail(
                "model",
                f"{model!r}, but the step is one of {self.config.name!r}; record choices of that",
            )
        requests = self._needed("requests")
        if requests.ndim != 1 or requests.dtype.kind not in "iu" or not len(requests):
            self._fail("requests", f"{_shape(requests)}, expected whole numbers [rows]")
        picks, experts = self._of("top-k", len(requests)), self._of("experts", len(requests))
        if not picks and not experts:
            self._fail("arrays", "none of choices, expected keys top-k/PATH or experts/PATH")
        self._check_picks(picks, context)
        for key, ids in experts.items():
            self._check_ids(key, ids, 0, self.config.n_routed_experts, "experts")
        digest = hashlib.sha256(self.data).hexdigest()[:16]
        return RecordedChoices(digest=digest, picks=picks, experts=experts, requests=requests)

    def _of(self, kind: str, rows: int) -> dict[str, Array]:
        """Arrays of one kind by path."""
        config = self.config
        columns = config.index_topk if kind == "top-k" else config.num_experts_per_tok
        found = {}
        for key, array in self.arrays.items():
            if key.startswith(f"{kind}/"):
                if array.shape != (rows, columns) or array.dtype.kind not in "iu":
                    self._fail(key, f"{_shape(array)}, expected whole numbers [{rows}, {columns}]")
                found[key.removeprefix(f"{kind}/")] = array.astype(np.int64)
        return found

    def _check_picks(self, picks: Mapping[str, Array], context: int) -> None:
        """Ids lie among the entries of the step, and are as many as a query of it picks."""
        ratios = {one.ratio for one in self.config.layers if one.indexed}
        if picks and len(ratios) != 1:
            self._fail(
                "top-k", f"picks, but {self.config.name} has {len(ratios)} ratios of picked entries"
            )
        for key, ids in picks.items():
            visible = context // min(ratios)
            wanted = min(visible, self.config.index_topk)
            what = f"entries of a request of {context:,} tokens"
            self._check_ids(f"top-k/{key}", ids, -1, visible, what)
            most = int((ids >= 0).sum(axis=1).max())
            if most != wanted:
                self._fail(
                    f"top-k/{key}",
                    f"{most:,} picks a query, but those of {context:,} tokens pick {wanted:,}; "
                    "record choices at the step's context",
                )

    def _check_ids(self, key: str, ids: Array, low: int, count: int, what: str) -> None:
        if ids.min() < low or ids.max() >= count:
            self._fail(
                key, f"ids of {ids.min():,} to {ids.max():,}, but there are {count:,} {what}"
            )

    def _needed(self, key: str) -> Array:
        if key not in self.arrays:
            self._fail(key, f"missing; the file has {len(self.arrays)} other keys")
        return self.arrays[key]

    def _read(self) -> dict[str, Array]:
        try:
            with np.load(io.BytesIO(self.data), allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (OSError, ValueError, AttributeError, EOFError, KeyError, zipfile.BadZipFile):
            self._fail("file", "not an .npz archive of arrays")

    def _fail(self, what: str, problem: str) -> NoReturn:
        raise FileFormatError(f"{self.path}: {what}: {problem}")


def _shape(array: Array) -> str:
    return f"{array.dtype} {list(array.shape)}"
