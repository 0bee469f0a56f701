"""What the plain-Python twin of the DRAM controller remembers: requests and the last commands."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwmodels.dram import words as w

LONG_AGO = -(1 << 60)


@dataclass(eq=False)
class Request:
    """One burst that waits at a channel."""

    pc: int
    sid: int
    group: int
    bank: int  # number inside the pseudo-channel
    row: int
    write: int
    chunk: int
    arrived: int
    order: int


@dataclass(eq=False)
class Bank:
    """Open row and the ticks of the last commands to one bank."""

    row: int = -1
    active: Request | None = None
    activated: int = LONG_AGO
    read: int = LONG_AGO
    written: int = LONG_AGO
    precharged: int = LONG_AGO
    refreshed: int = LONG_AGO


@dataclass(eq=False)
class PseudoChannel:
    """Ticks of the last commands to a pseudo-channel, by stack id and bank group if it matters."""

    banks: list[Bank]
    reads: dict[tuple[int, int], int] = field(default_factory=dict)  # (sid, group): tick
    writes: dict[tuple[int, int], int] = field(default_factory=dict)
    activates: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    precharged: int = LONG_AGO
    refreshed: int = LONG_AGO
    bank_refreshed: int = LONG_AGO
    refresh_pending: bool = False
    owed: int = 0
    due: int = w.FAR
    next_bank: int = 0
    chosen: int = -1
