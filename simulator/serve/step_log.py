"""Steps of a replica, run-length coded: equal steps in a row are one record."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

COLUMNS = ("start_ns", "steps", "duration_ns", "decoding", "prompt_tokens", "prompts")


@dataclass(slots=True)
class StepLog:
    """Columns of records. `duration_ns`: of all steps of a record together."""

    start_ns: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    duration_ns: list[int] = field(default_factory=list)
    decoding: list[int] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)

    def add(
        self,
        start_ns: int,
        steps: int,
        duration_ns: int,
        decoding: int,
        prompt_tokens: int = 0,
        prompts: int = 0,
    ) -> None:
        """One record; pure decode steps of equal batches that follow each other become one."""
        if (
            not prompts
            and self.start_ns
            and not self.prompts[-1]
            and self.decoding[-1] == decoding
            and self.start_ns[-1] + self.duration_ns[-1] == start_ns
        ):
            self.steps[-1] += steps
            self.duration_ns[-1] += duration_ns
            return
        self.start_ns.append(start_ns)
        self.steps.append(steps)
        self.duration_ns.append(duration_ns)
        self.decoding.append(decoding)
        self.prompt_tokens.append(prompt_tokens)
        self.prompts.append(prompts)

    def columns(self) -> dict[str, np.ndarray]:
        """Records as int64 arrays."""
        return {name: np.array(getattr(self, name), dtype=np.int64) for name in COLUMNS}
