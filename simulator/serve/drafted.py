"""A decode step with drafts, as an engine runs it: draft passes, verification, host seams."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simulator.cost.question import AskedStep
from simulator.cost.step_timer import StepTimer
from simulator.serve.deployment import timed_with_drafts
from simulator.serve.host import host_time
from workloads.step_shape import StepShape

# Shares of drafts that are accepted for which tokens a second are told.
ACCEPTANCES = (0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedCycle:
    """One cycle of all requests. `seams_ns`: what the host adds to the kernels, gaps included.

    `plain_ns`: a decode step without drafts under the same host.
    """

    drafts: int
    requests: int
    verify_ns: float
    draft_ns: float
    seams_ns: float
    plain_ns: float

    @property
    def total_ns(self) -> float:
        """The cycle."""
        return self.verify_ns + self.draft_ns + self.seams_ns

    def tokens(self, acceptance: float) -> float:
        """Tokens that a cycle yields a request where each draft is accepted with a probability.

        Assumes: drafts are accepted independently, up to the first that is not.
        """
        return sum(acceptance**n for n in range(self.drafts + 1))

    def gain(self, acceptance: float) -> float:
        """Tokens a second against those without drafts."""
        return self.tokens(acceptance) * self.plain_ns / self.total_ns

    @property
    def sentence(self) -> str:
        """The cycle in words."""
        per_s = 1e9 / self.total_ns
        rates = ", ".join(
            f"{self.tokens(a) * per_s:,.4g} tokens/s a request (x {self.gain(a):.2f}) at {a:.0%}"
            for a in ACCEPTANCES
        )
        return (
            f"With {self.drafts} drafts a cycle takes {self.total_ns / 1e6:.4g} ms: "
            f"{self.drafts + 1} tokens a request are verified in {self.verify_ns / 1e6:.4g} ms, "
            f"drafted in {self.draft_ns / 1e6:.4g} ms, and the host adds "
            f"{self.seams_ns / 1e6:.4g} ms; a step without drafts takes "
            f"{self.plain_ns / 1e6:.4g} ms with its host. By drafts accepted: {rates}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, units in the names."""
        return asdict(self) | {"total_ns": self.total_ns}


def drafted_cycle(asked: AskedStep) -> DraftedCycle:
    """Time a decode question with its drafts, as serving does, under the engine's host."""
    question, drafts = asked.question, asked.question.draft_tokens
    timer = StepTimer(asked)
    whole_ps, _ = timed_with_drafts(asked, timer, drafts)
    shape = StepShape.uniform(question.batch, drafts + 1, question.context - drafts - 1)
    verify, kernels = timer.total_ps(shape) / 1000, whole_ps(shape) / 1000
    section, factor = asked.deployment.profile.host, asked.node.host_factor
    data = question.layout.data
    each = -(-question.batch // data)
    with_drafts, plain = (
        host_time(section, factor, 0, drafted=drafted, ranks=data) for drafted in (True, False)
    )
    total = float(with_drafts.decode_ns(np.array([kernels]), each)[0])
    alone = timer.total_ps(StepShape.uniform(question.batch, 1, question.context - 1)) / 1000
    return DraftedCycle(
        drafts=drafts,
        requests=question.batch,
        verify_ns=verify,
        draft_ns=kernels - verify,
        seams_ns=total - kernels,
        plain_ns=float(plain.decode_ns(np.array([alone]), each)[0]),
    )
