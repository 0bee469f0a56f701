"""What the machine's simulation saw of a kernel, beside its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hwmodels.machine.words import STATE_NAMES

# What blocks spend the time on, in the order in which reports list it. `power`: what the clock
# that the power limit holds down adds.
STATES = (*STATE_NAMES, "power")
STATE_PLACES = {state: place for place, state in enumerate(STATES)}
# In these a block's own units work; in all others it stands still or has not begun.
WORKING = ("matrix", "vector")
# State of what a kernel loses to others beside it, by the pipe that they share.
_STATE_OF_PIPE = {
    "matrix": "matrix",
    "vector": "vector",
    "special": "vector",
    "memory": "memory",
    "llc": "cache",
    "link": "links",
}
_SHARES = (
    *("occupancy", "llc_hit_rate", "row_hit_rate", "queued_chunks", "channel_balance"),
    "extrapolated",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """What the machine's simulation saw of a kernel.

    `occupancy`: share of the places for blocks that held one; `queued_chunks`: requests in memory
    at once, of the part that was simulated; `channel_balance`: mean channel over the fullest;
    `extrapolated`: share of the work that went on as a simulated part did. `states_ps` divides the
    kernel's time by what its blocks spend it on, in whole picoseconds that add up to it.
    """

    occupancy: float
    llc_hit_rate: float
    row_hit_rate: float
    queued_chunks: float
    channel_balance: float
    extrapolated: float
    states_ps: Mapping[str, int] = field(default_factory=dict)

    def longer(self, state: str, more_ps: int) -> MachineView:
        """The view of a kernel that spends more picoseconds (or fewer, below 0) in a state."""
        states = {**self.states_ps, state: self.states_ps.get(state, 0) + more_ps}
        ordered = {name: states[name] for name in STATES if states.get(name)}
        return replace(self, states_ps=ordered)

    def beside(self, pipe: str, lost_ps: int) -> MachineView:
        """The view of a kernel that loses picoseconds to others on the pipe that they share."""
        return self.longer(_STATE_OF_PIPE[pipe], lost_ps)


def mean_view(views: Sequence[MachineView], weights: Sequence[float]) -> MachineView:
    """Weighted mean of shares and queues; states are those of the first.

    Without any weight all count alike.
    """
    whole = sum(weights)
    own = [weight / whole for weight in weights] if whole else [1 / len(views)] * len(views)
    means = {
        name: sum(w * getattr(view, name) for w, view in zip(own, views, strict=True))
        for name in _SHARES
    }
    return replace(views[0], **means)
