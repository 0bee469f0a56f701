"""From a preset to what the controller reads: constraints in ticks, sizes, layout of its memory.

A constraint runs from the end of one command to the end of the next, so the ticks from start to
start are constraint + length of the first - length of the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hwmodels.dram import words as w
from hwmodels.dram.preset import DramPreset, clocks
from simulator.basis.errors import InputError, UnsupportedError
from simulator.basis.sourced import Sourced

Refresh = Literal["none", "all-bank", "per-bank"]
REFRESHES: tuple[Refresh, ...] = ("none", "all-bank", "per-bank")


_LINE_WORDS = 8  # of a cache line of 64 bytes
_QUEUED_NS = 49.0
_WRITES_A_READ = 4


@dataclass(frozen=True)
class ControllerSpec:
    """Queues and policies of a channel's controller; `default_controller` gives a usual one."""

    read_entries: int = 64
    write_entries: int = 64
    drain_above: float = 0.8
    drain_below: float = 0.2
    refresh: Refresh = "per-bank"

    def __post_init__(self) -> None:
        for name in ("read_entries", "write_entries"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 0 < self.drain_below <= self.drain_above < 1:
            raise InputError(
                f"write drain between {self.drain_below} and {self.drain_above}, expected "
                "0 < drain_below <= drain_above < 1"
            )
        if self.refresh not in REFRESHES:
            raise InputError(f"unknown refresh {self.refresh!r}: known are {', '.join(REFRESHES)}")


def default_controller(
    preset: DramPreset, refresh: Refresh, queue_entries: int | None = None
) -> ControllerSpec:
    """A controller as a GPU would have it.

    Assumes: the read queue holds 49 ns of a channel's traffic, which is 64 bursts at 5.2 Gb/s and
    grows with the pin rate; what shipped GPUs hold is not published.
    Assumes: dirty lines wait in the last-level cache, so that a channel gathers four times as many
    writes as it queues reads before it turns its bus around.
    """
    burst_ns = preset.organisation.burst.whole / preset.channel_bytes_per_s * 1e9
    reads = queue_entries or math.ceil(_QUEUED_NS / burst_ns)
    return ControllerSpec(reads, reads * _WRITES_A_READ, refresh=refresh)


def tick_table(preset: DramPreset, spec: ControllerSpec) -> dict[int, int]:
    """Constraints in ticks, by the names of `words`."""
    timing = preset.timing
    a_clock = preset.command_ticks.a_clock.whole
    act = preset.command_ticks.activate.whole
    column = preset.command_ticks.column.whole
    pre = preset.command_ticks.precharge.whole

    def ticks(count: int | Sourced | None, first: int = 0, second: int = 0) -> int:
        number = 0 if count is None else count if isinstance(count, int) else clocks(count)
        return number * a_clock + first - second

    written = clocks(timing.CWL) + clocks(timing.BL)
    table = {
        w.T_RCDRD: ticks(timing.RCDRD, act, column),
        w.T_RCDWR: ticks(timing.RCDWR, act, column),
        w.T_RAS: ticks(timing.RAS, act, pre),
        w.T_RC: ticks(timing.RC),
        w.T_RP: ticks(timing.RP, pre, act),
        w.T_RP_REF: ticks(timing.RP),
        w.T_RTP: ticks(timing.RTP, column, pre),
        w.T_WTP: ticks(written + clocks(timing.WR), column, pre),
        w.T_CCDS: ticks(timing.CCDS),
        w.T_CCDL: ticks(timing.CCDL),
        w.T_CCDR: ticks(timing.CCDR or timing.CCDS),
        w.T_RRDS: ticks(timing.RRDS),
        w.T_RRDL: ticks(timing.RRDL),
        w.T_FAW: ticks(timing.FAW),
        w.T_WTRS: ticks(written + clocks(timing.WTRS)),
        w.T_WTRL: ticks(written + clocks(timing.WTRL)),
        w.T_RTW: ticks(timing.read_to_write),
        w.T_PPD: ticks(timing.PPD),
        w.T_LATENCY: ticks(clocks(timing.CL) + clocks(timing.BL)),
        w.T_BURST: ticks(timing.BL),
        w.T_REFI: w.FAR,
        w.T_RFC: ticks(timing.RFC, pre, act),
        w.T_ACT_REF_PB: ticks(timing.RRDS, act, pre),
        w.T_ODD: 1 if a_clock == 2 else 0,
        w.T_ACT_BUS: act,
        w.T_COLUMN_BUS: column,
        w.T_PRE_BUS: pre,
    }
    if spec.refresh == "all-bank":
        table[w.T_REFI] = ticks(timing.REFI)
    if spec.refresh == "per-bank":
        _check_per_bank(preset)
        table[w.T_REFI_PB] = ticks(timing.REFIpb)
        table[w.T_RFC_PB] = ticks(timing.RFCpb, pre, act)
        table[w.T_RREFD] = ticks(timing.RREFD)
        table[w.T_RREFD_ACT] = ticks(timing.RREFD, pre, act)
    return table


def _check_per_bank(preset: DramPreset) -> None:
    missing = [
        name for name in ("RFCpb", "REFIpb", "RREFD") if getattr(preset.timing, name) is None
    ]
    if missing:
        raise UnsupportedError(
            f"preset {preset.name!r} has no timing {', '.join(missing)} for per-bank refresh; "
            "give it or take refresh 'all-bank'"
        )


def controller_parameters(
    preset: DramPreset, spec: ControllerSpec, channels: int, interleave_bytes: int, hashed: bool
) -> np.ndarray:
    """Everything that the compiled loop needs to know beside the traffic."""
    organisation = preset.organisation
    burst = organisation.burst.whole
    if burst != 32:
        raise UnsupportedError(f"preset {preset.name!r} has bursts of {burst} bytes, expected 32")
    if channels < 1:
        raise InputError(f"channels is {channels}, expected at least 1")
    if interleave_bytes < burst or interleave_bytes % burst:
        raise InputError(
            f"the channel interleave is {interleave_bytes} bytes, expected a multiple of the burst "
            f"of {burst} bytes"
        )
    if hashed and channels & (channels - 1):
        raise UnsupportedError(
            f"{channels} channels with a hashed interleave, expected a power of two"
        )
    table = tick_table(preset, spec)
    table |= {
        w.O_CHANNELS: channels,
        w.O_PCS: organisation.pseudo_channels.whole,
        w.O_SIDS: organisation.stack_ids.whole,
        w.O_GROUPS: organisation.bank_groups.whole,
        w.O_BANKS: organisation.banks_a_group.whole,
        w.O_BANKS_A_PC: organisation.banks_a_pc,
        w.O_BURSTS_A_BLOCK: interleave_bytes // burst,
        w.O_HASHED: int(hashed),
        w.O_READ_QUEUE: spec.read_entries,
        w.O_WRITE_QUEUE: spec.write_entries,
        w.O_DRAIN_ABOVE: math.floor(spec.drain_above * spec.write_entries),
        w.O_DRAIN_BELOW: math.ceil(spec.drain_below * spec.write_entries),
        w.O_REFRESH: REFRESHES.index(spec.refresh),
    }
    parameters = np.zeros(w.PARAMETERS, dtype=np.int64)
    for word, value in {**table, **_layout(table)}.items():
        parameters[word] = value
    _add_bank_sets(parameters)
    return parameters


def _layout(table: dict[int, int]) -> dict[int, int]:
    """Where the parts of a channel's block begin."""
    pcs = table[w.O_PCS]
    banks = pcs * table[w.O_BANKS_A_PC]
    slots = table[w.O_READ_QUEUE] + table[w.O_WRITE_QUEUE] + banks
    pc_at = _whole_lines(w.HEADER_WORDS)
    lanes_at = pc_at + pcs * w.PC_WORDS
    bank_at = lanes_at + pcs * w.PC_LANES
    slot_at = bank_at + banks * w.BANK_WORDS
    return_at = slot_at + slots * w.SLOT_WORDS
    words = _whole_lines(return_at + w.RETURNS * w.RETURN_WORDS)
    return {
        w.L_PC: pc_at,
        w.L_LANES: lanes_at,
        w.L_BANK: bank_at,
        w.L_SLOT: slot_at,
        w.L_RETURN: return_at,
        w.L_WORDS: words,
    }


def _whole_lines(words: int) -> int:
    """Words of as many cache lines as hold this many."""
    return -(-words // _LINE_WORDS) * _LINE_WORDS


def _add_bank_sets(parameters: np.ndarray) -> None:
    """Tell for every bank which banks share its bank group, and which have another stack id."""
    number = np.arange(int(parameters[w.O_BANKS_A_PC]))
    groups = number // int(parameters[w.O_BANKS])
    sids = groups // int(parameters[w.O_GROUPS])
    same_group = (groups[:, None] == groups) @ (np.int64(1) << number)
    other_sids = (sids[:, None] != sids) @ (np.int64(1) << number)
    parameters[w.GROUP_BITS : w.GROUP_BITS + len(number)] = same_group
    parameters[w.OTHER_SIDS_BITS : w.OTHER_SIDS_BITS + len(number)] = other_sids


def controller_memory(parameters: np.ndarray) -> np.ndarray:
    """Memory of all channels at rest: banks closed, queues empty, refreshes not yet due."""
    words = int(parameters[w.L_WORDS])
    block = np.zeros(words, dtype=np.int64)
    block[[w.C_FIFO_HEAD, w.C_FIFO_TAIL, w.C_FIFO_WRITE]] = -1
    block[[w.C_COLUMN_AT, w.C_ROW_AT]] = w.FAR
    block[w.C_DRAINING] = 1  # no read waits
    per_bank = parameters[w.O_REFRESH] == w.REFRESH_PER_BANK
    block[w.C_REF_DUE] = parameters[w.T_REFI_PB if per_bank else w.T_REFI]
    for number in range(int(parameters[w.O_PCS])):
        pc = int(parameters[w.L_PC]) + number * w.PC_WORDS
        block[pc + w.P_FAW : pc + w.P_FAW + 4] = -w.FAR
        block[pc + w.K_HIT_READ : pc + w.K_PRE_WRITE + 1] = w.FAR
        block[pc + w.P_PB_BANK] = -1
        # The pseudo-channels take turns, so that their refreshes do not fall together.
        turn = parameters[w.T_REFI_PB] * (number + 1) // parameters[w.O_PCS]
        block[pc + w.P_PB_DUE] = turn if per_bank else w.FAR
        block[w.C_REF_DUE] = min(block[w.C_REF_DUE], block[pc + w.P_PB_DUE])
    banks = int(parameters[w.O_PCS] * parameters[w.O_BANKS_A_PC])
    view = block[int(parameters[w.L_BANK]) : int(parameters[w.L_SLOT])]
    view = view.reshape(banks, w.BANK_WORDS)
    view[:, [w.B_ROW, w.B_ACTIVE]] = -1
    view[:, w.B_LISTS : w.B_LISTS + 8] = -1
    view[:, [w.B_OPENED, w.B_CLOSED]] = -w.FAR
    addresses = _link(block, parameters)
    channels = int(parameters[w.O_CHANNELS])
    memory = _aligned(channels * words)
    blocks = memory.reshape(channels, words)
    blocks[:] = block
    blocks[:, addresses] += words * np.arange(channels)[:, None]
    return memory


def _aligned(words: int) -> np.ndarray:
    """Words that begin with a cache line, so that eight lanes never lie in two of them."""
    memory = np.empty(words + _LINE_WORDS, dtype=np.int64)
    skipped = -memory.ctypes.data // memory.itemsize % _LINE_WORDS
    return memory[skipped : skipped + words]


def _link(block: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Chain the free queue entries and end the empty lists of the first channel.

    Returns which words hold addresses, as those of other channels lie further on in the memory.
    """
    bank_at, slot_at, return_at = (int(parameters[i]) for i in (w.L_BANK, w.L_SLOT, w.L_RETURN))
    entries = np.arange(slot_at, return_at, w.SLOT_WORDS)
    block[w.C_FREE_SLOT] = slot_at
    block[entries + w.S_NEXT] = np.append(entries[1:], -1)
    # The first entry of an empty list is written where the list itself begins.
    banks = np.arange(bank_at, slot_at, w.BANK_WORDS)
    lists = banks[:, None] + np.arange(w.B_LISTS, w.B_LISTS + 2 * w.LIST_WRITE, 2)
    block[lists + 1] = lists
    return np.concatenate(([w.C_FREE_SLOT], entries[:-1] + w.S_NEXT, lists.ravel() + 1))
