"""What a search has simulated, a line an outcome, so that a stopped one goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from simulator.basis.errors import InputError
from simulator.plan.candidates import Candidate
from simulator.plan.outcome import Outcome, Target
from workloads.traffic.trace import Trace


class Journal:
    """Outcomes by what decides them; `path` None keeps them in memory only.

    A line that was cut off by a stop is left out, and what it held simulated again.
    """

    def __init__(self, path: Path | None, trace: Trace) -> None:
        self.path = path
        self.kept = 0
        self._traffic = _digest(trace)
        self._known: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def find(self, candidate: Candidate, replicas: int) -> Outcome | None:
        """What is known of a plan."""
        row = self._known.get(self._key(candidate, replicas))
        if row is None:
            return None
        self.kept += 1
        targets = tuple(Target(**target) for target in row["targets"])
        return Outcome(candidate=candidate, replicas=replicas, **{**row, "targets": targets})

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        row = asdict(outcome)
        del row["candidate"], row["replicas"]
        key = self._key(outcome.candidate, outcome.replicas)
        self._known[key] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "outcome": row}) + "\n")

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")
        for number, line in enumerate(text.splitlines(), 1):
            try:
                row = json.loads(line)
                self._known[row["key"]] = row["outcome"]
            except (ValueError, KeyError, TypeError):
                if number == 1:
                    raise InputError(
                        f"{path}:1: not a journal of a plan; give another file, or none"
                    ) from None

    def _key(self, candidate: Candidate, replicas: int) -> str:
        text = candidate.with_replicas(replicas).model_dump_json()
        whole = f"{version('v4sim')} {self._traffic} {text}"
        return hashlib.sha256(whole.encode()).hexdigest()[:24]


def _digest(trace: Trace) -> str:
    digest = hashlib.sha256()
    for column in (
        trace.arrival_ns,
        trace.delay_ns,
        trace.input_tokens,
        trace.output_tokens,
        trace.run_first,
        trace.run_count,
    ):
        digest.update(column.tobytes())
    return digest.hexdigest()
