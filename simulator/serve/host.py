"""What the host adds to a step of a replica: the engine's `host:` section on a node's processor."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from simulator.engine.serving_section import HostSection

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTime:
    """Host work in ns, the node's factor in it; all zero where there is no host.

    `launch_ns`: of a step with prompts, launched kernel by kernel.

    Assumes: the host runs at most a step ahead, so that a step takes the longer of its kernels and
        of the host's work for the next one; all ranks have hosts of equal speed.
    """

    overlaps: bool = True
    step_ns: float = 0.0
    request_ns: float = 0.0
    gap_ns: float = 0.0
    launch_ns: float = 0.0
    prompt_ns: float = 0.0
    prompt_request_ns: float = 0.0
    client_fixed_ns: float = 0.0
    client_token_ns: float = 0.0

    def decode_ns(self, kernels_ns: Floats, requests: int) -> Floats:
        """Decode steps whose kernels take so long, for the requests of the fullest rank."""
        work = self.step_ns + self.request_ns * requests
        if not self.overlaps:
            return kernels_ns + (work + self.gap_ns)
        return np.maximum(kernels_ns, work) + self.gap_ns

    def prompt_step_ns(self, kernels_ns: float, prompts: int, requests: int) -> float:
        """A step with prompts, launched as its kernels run."""
        prepared = self.prompt_ns + self.prompt_request_ns * prompts
        work = self.request_ns * requests
        return max(kernels_ns, self.launch_ns + work) + prepared

    def scaled(self, factor: float) -> HostTime:
        """A host that takes `factor` as long for everything."""
        times = {
            f.name: factor * getattr(self, f.name) for f in fields(self) if f.name[-3:] == "_ns"
        }
        return replace(self, **times)

    def client_ns(self, prompt_tokens: int) -> float:
        """From a client's request to the queue of the scheduler."""
        return self.client_fixed_ns + self.client_token_ns * prompt_tokens


NO_HOST = HostTime()


def host_time(
    section: HostSection | None, factor: float, launches: int, *, drafted: bool, ranks: int
) -> HostTime:
    """Host work of an engine on a node; `launches`: kernels of a step with prompts."""
    if section is None:
        return NO_HOST
    ns = 1000 * factor
    cycle = section.draft_cycle_us if drafted else 0.0
    meet = section.ranks_us if ranks > 1 else 0.0
    return HostTime(
        overlaps=section.overlaps,
        step_ns=ns * max(section.step_us, cycle),
        request_ns=ns * section.request_us,
        gap_ns=ns * ((section.draft_gap_us if drafted else section.gap_us) + meet),
        launch_ns=0.0 if section.prompts_in_graphs else ns * section.eager_kernel_us * launches,
        prompt_ns=ns * (section.prompt_us + meet),
        prompt_request_ns=ns * section.prompt_request_us,
        client_fixed_ns=ns * section.request_fixed_us,
        client_token_ns=ns * section.request_token_us,
    )
