"""The list of commands of a run, when one is asked for."""

from __future__ import annotations

from hwmodels.dram.compiled import inlined
from hwmodels.dram.words import L_WORDS, X_TRACED


@inlined
def record(trace, totals, tick, channel, parameters, command, pc, bank, row):  # type: ignore[no-untyped-def]
    """Note a command; an empty trace array notes nothing, a full one counts on."""
    if trace.shape[0] == 0:
        return
    at = totals[X_TRACED]
    totals[X_TRACED] = at + 1
    if at < trace.shape[0]:
        trace[at, 0] = tick
        trace[at, 1] = channel // parameters[L_WORDS]
        trace[at, 2] = command
        trace[at, 3] = pc
        trace[at, 4] = bank
        trace[at, 5] = row
