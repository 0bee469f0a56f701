"""What a search has simulated, a line an outcome, so that a stopped one goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulator.basis.errors import InputError
from simulator.plan.candidates import Candidate
from simulator.plan.load import Burst, Load
from simulator.plan.outcome import Outcome, Target
from simulator.sweep.inputs import canonical, digest_of, inputs_of


class Journal:
    """Outcomes by all that decides them, contents of files and the product's version included.

    `path` None keeps them in memory only.

    A line that was cut off by a stop is left out, and what it held simulated again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kept = 0
        self._known: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, candidate: Candidate, replicas: int) -> Outcome | None:
        """What is known of a plan."""
        row = self._known.get(self._key(candidate, replicas))
        if row is None:
            return None
        self.kept += 1
        made = {
            "targets": tuple(Target(**target) for target in row["targets"]),
            "load": _load(row["load"]),
        }
        return Outcome(candidate=candidate, replicas=replicas, **{**row, **made})

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        row = asdict(outcome)
        del row["candidate"], row["replicas"]
        key = self._key(outcome.candidate, outcome.replicas)
        self._known[key] = row
        if self.path is not None:
            _append(self.path, json.dumps({"key": key, "outcome": row}) + "\n")

    def _read(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}:1: not a journal of a plan; give another --out") from None
        if text and not text.endswith("\n"):
            _append(path, "\n")
        for number, line in enumerate(text.splitlines(), 1):
            try:
                row = json.loads(line)
                self._known[row["key"]] = row["outcome"]
            except (ValueError, KeyError, TypeError):
                if number == 1:
                    raise InputError(
                        f"{path}:1: not a journal of a plan; give another --out"
                    ) from None

    def _key(self, candidate: Candidate, replicas: int) -> str:
        return digest_of(canonical(inputs_of(candidate.with_replicas(replicas))))


def _load(row: dict[str, Any]) -> Load:
    burst = row["burst"]
    return Load(**{**row, "burst": None if burst is None else Burst(**burst)})


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror}") from None
