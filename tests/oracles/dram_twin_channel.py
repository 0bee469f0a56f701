"""One channel of the plain-Python twin: queues, buses, the two command slots, refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.dram import words as w
from tests.oracles.dram_twin_state import LONG_AGO, Bank, PseudoChannel, Request

if TYPE_CHECKING:
    from tests.oracles.dram_twin import Twin

_MULTIPLIER = 0x9E3779B97F4A7C15
_WRAP = (1 << 64) - 1


class TwinChannel:
    """One controller with its queues, buses and banks."""

    def __init__(self, twin: Twin, number: int) -> None:
        self.twin = twin
        self.number = number
        organisation = twin.organisation
        self.pcs = [
            PseudoChannel([Bank() for _ in range(organisation.banks_a_pc)])
            for _ in range(organisation.pseudo_channels.whole)
        ]
        if twin.spec.refresh == "per-bank":
            for place, pc in enumerate(self.pcs):
                pc.due = twin.ticks[w.T_REFI_PB] * (place + 1) // len(self.pcs)
        self.fifo: list[tuple[int, int]] = []
        self.queues: tuple[list[Request], list[Request]] = ([], [])
        self.active: list[Request] = []
        self.returning: list[tuple[int, int]] = []
        self.draining = 1  # at rest no read waits
        self.column_free = self.row_free = 0
        self.refresh_due = twin.ticks[w.T_REFI]
        self.order = 0

    def advance(self, tick: int) -> None:
        """One tick: arrivals, returns, refresh due, mode, column slot, row slot."""
        self.tick = tick
        self.t = self.twin.ticks
        self._accept()
        while self.returning and self.returning[0][0] <= tick:
            self.twin.finish_burst(self.returning.pop(0)[1])
        self._make_due()
        self._set_mode()
        if tick >= self.column_free and self._odd_enough():
            self._column_slot()
            self._set_mode()
        self._choose_banks()
        if tick >= self.row_free:
            self._row_slot()

    def _odd_enough(self) -> bool:
        return not self.t[w.T_ODD] or self.tick % 2 == 1

    def _log(self, kind: int, pc: int, bank: int, row: int) -> None:
        self.twin.trace.append((self.tick, self.number, kind, pc, bank, row))

    def _accept(self) -> None:
        for _ in range(4):
            if not self.fifo:
                return
            chunk, burst = self.fifo[0]
            write = int(self.twin.chunks.writes[chunk])
            limit = self.twin.spec.write_entries if write else self.twin.spec.read_entries
            if len(self.queues[write]) >= limit:
                return
            self.fifo.pop(0)
            self.queues[write].append(self._request(chunk, burst, write))
            if write:
                self.twin.finish_burst(chunk)

    def _request(self, chunk: int, burst: int, write: int) -> Request:
        place = dict.fromkeys(range(5), 0)
        for radix, kind in self.twin.mapping.digits:
            burst, place[kind] = divmod(burst, radix)
        key = burst * _MULTIPLIER & _WRAP
        groups = self.twin.organisation.bank_groups.whole
        banks = self.twin.organisation.banks_a_group.whole
        group = (place[w.DIGIT_GROUP] ^ ((key >> 33) % groups)) % groups
        bank = (place[w.DIGIT_BANK] ^ ((key >> 45) % banks)) % banks
        sid = place[w.DIGIT_SID]
        self.order += 1
        return Request(
            place[w.DIGIT_PC], sid, group, (sid * groups + group) * banks + bank, burst, write,
            chunk, self.tick, self.order,
        )  # fmt: skip

    def _set_mode(self) -> None:
        reads, writes = map(len, self.queues)
        entries = self.twin.spec.write_entries
        if not self.draining:
            if writes > self.twin.spec.drain_above * entries or reads == 0:
                self.draining = 1
        elif writes < self.twin.spec.drain_below * entries and reads > 0:
            self.draining = 0

    def _bank(self, request: Request) -> Bank:
        return self.pcs[request.pc].banks[request.bank]

    def _is_hit(self, request: Request) -> bool:
        return self._bank(request).row == request.row

    # Column slot ---------------------------------------------------------------------------------

    def _column_ready(self, request: Request) -> bool:
        pc, bank, t, tick = self.pcs[request.pc], self._bank(request), self.t, self.tick
        group = (request.sid, request.group)
        if tick < bank.activated + t[w.T_RCDWR if request.write else w.T_RCDRD]:
            return False
        for place, last in pc.reads.items():
            if request.write:
                wait = t[w.T_RTW]
            elif place == group:
                wait = t[w.T_CCDL]
            else:
                wait = t[w.T_CCDS] if place[0] == request.sid else t[w.T_CCDR]
            if tick < last + wait:
                return False
        for place, last in pc.writes.items():
            if request.write:
                wait = t[w.T_CCDL] if place == group else t[w.T_CCDS]
            else:
                wait = t[w.T_WTRL] if place == group else t[w.T_WTRS]
            if tick < last + wait:
                return False
        return True

    def _column_slot(self) -> None:
        ready = [r for r in self.active if self._column_ready(r)]
        if ready:
            request = min(ready, key=lambda r: r.order)
            self.active.remove(request)
            self._bank(request).active = None
        else:
            if any(pc.refresh_pending for pc in self.pcs):
                return
            queue = self.queues[self.draining]
            ready = [r for r in queue if self._is_hit(r) and self._column_ready(r)]
            if not ready:
                return
            request = min(ready, key=lambda r: r.order)
            queue.remove(request)
        pc, bank = self.pcs[request.pc], self._bank(request)
        if request.write:
            pc.writes[request.sid, request.group] = bank.written = self.tick
        else:
            pc.reads[request.sid, request.group] = bank.read = self.tick
            self.returning.append((self.tick + self.t[w.T_LATENCY], request.chunk))
        self.column_free = self.tick + self.t[w.T_COLUMN_BUS]
        self._log(w.WRITE if request.write else w.READ, request.pc, request.bank, request.row)

    # Row slot ------------------------------------------------------------------------------------

    def _may_precharge(self, pc: PseudoChannel, bank: Bank) -> bool:
        t, tick = self.t, self.tick
        return (
            bank.active is None
            and tick >= bank.activated + t[w.T_RAS]
            and tick >= bank.read + t[w.T_RTP]
            and tick >= bank.written + t[w.T_WTP]
            and tick >= pc.precharged + t[w.T_PPD]
        )

    def _may_activate(self, pc: PseudoChannel, request: Request) -> bool:
        t, tick, bank = self.t, self.tick, self._bank(request)
        recent = pc.activates[-4:]
        return (
            self._odd_enough()
            and pc.chosen != request.bank
            and tick >= bank.precharged + t[w.T_RP]
            and tick >= bank.activated + t[w.T_RC]
            and tick >= pc.refreshed + t[w.T_RFC]
            and tick >= bank.refreshed + t.get(w.T_RFC_PB, 0)
            and tick >= pc.bank_refreshed + t.get(w.T_RREFD_ACT, 0)
            and all(tick >= last + t[w.T_RRDS] for last, _ in recent)
            and all(
                tick >= last + t[w.T_RRDL]
                for last, group in pc.activates[-16:]
                if group == (request.sid, request.group)
            )
            and (len(recent) < 4 or tick >= recent[0][0] + t[w.T_FAW])
        )

    def _row_slot(self) -> None:
        for number, pc in enumerate(self.pcs):
            if pc.refresh_pending:
                self._refresh_all(number, pc)
                return
        if self._refresh_chosen():
            return
        queue = self.queues[self.draining]
        ready = [r for r in queue if self._row_command_ready(r, queue)]
        if not ready:
            return
        request = min(ready, key=lambda r: r.order)
        bank = self._bank(request)
        if bank.row >= 0:
            self._precharge(request.pc, request.bank)
            return
        queue.remove(request)
        self.active.append(request)
        bank.active = request
        bank.row = request.row
        bank.activated = self.tick
        pc = self.pcs[request.pc]
        pc.activates = [*pc.activates[-15:], (self.tick, (request.sid, request.group))]
        self.row_free = self.tick + self.t[w.T_ACT_BUS]
        self._log(w.ACTIVATE, request.pc, request.bank, request.row)

    def _row_command_ready(self, request: Request, queue: list[Request]) -> bool:
        pc, bank = self.pcs[request.pc], self._bank(request)
        if bank.row < 0:
            return self._may_activate(pc, request)
        if bank.row == request.row or not self._may_precharge(pc, bank):
            return False
        return not any(
            other.arrived <= request.arrived and self._bank(other) is bank and self._is_hit(other)
            for other in queue
        )

    def _precharge(self, pc_number: int, number: int) -> None:
        pc = self.pcs[pc_number]
        self._log(w.PRECHARGE, pc_number, number, pc.banks[number].row)
        pc.banks[number].row = -1
        pc.banks[number].precharged = pc.precharged = self.tick
        self.row_free = self.tick + self.t[w.T_PRE_BUS]

    # Refresh -------------------------------------------------------------------------------------

    def _make_due(self) -> None:
        if self.tick >= self.refresh_due:
            self.refresh_due += self.t[w.T_REFI]
            for pc in self.pcs:
                pc.refresh_pending = True
        for pc in self.pcs:
            if self.tick >= pc.due:
                pc.owed += 1
                pc.due += self.t[w.T_REFI_PB]

    def _refresh_all(self, number: int, pc: PseudoChannel) -> None:
        t, tick = self.t, self.tick
        is_open = [bank for bank in pc.banks if bank.row >= 0]
        if is_open:
            if any(r.pc == number for r in self.active):
                return
            if not all(self._may_precharge(pc, bank) for bank in is_open):
                return
            for bank in is_open:
                bank.row = -1
                bank.precharged = tick
            pc.precharged = tick
            self._log(w.PRECHARGE_ALL, number, -1, -1)
        else:
            if tick < pc.precharged + t[w.T_RP_REF] or not self._odd_enough():
                return
            pc.refresh_pending = False
            pc.refreshed = tick
            self._log(w.REFRESH, number, -1, -1)
        self.row_free = tick + t[w.T_PRE_BUS]

    def _choose_banks(self) -> None:
        for pc in self.pcs:
            if pc.owed > 0 and pc.chosen < 0:
                pc.chosen = pc.next_bank
                pc.next_bank = (pc.next_bank + 1) % len(pc.banks)

    def _refresh_chosen(self) -> bool:
        t, tick = self.t, self.tick
        for number, pc in enumerate(self.pcs):
            if pc.chosen < 0:
                continue
            bank = pc.banks[pc.chosen]
            if bank.row >= 0:
                if self._may_precharge(pc, bank):
                    self._precharge(number, pc.chosen)
                    return True
                continue
            last_activate = pc.activates[-1][0] if pc.activates else LONG_AGO
            if (
                self._odd_enough()
                and tick >= bank.precharged + t[w.T_RP_REF]
                and tick >= bank.activated + t[w.T_RC]
                and tick >= bank.refreshed + t[w.T_RFC_PB]
                and tick >= pc.bank_refreshed + t[w.T_RREFD]
                and tick >= last_activate + t[w.T_ACT_REF_PB]
            ):
                self._refresh_bank(number, pc, bank)
                return True
        return False

    def _refresh_bank(self, number: int, pc: PseudoChannel, bank: Bank) -> None:
        self._log(w.REFRESH_PB, number, pc.chosen, -1)
        bank.refreshed = pc.bank_refreshed = self.tick
        pc.owed -= 1
        pc.chosen = -1
        self.row_free = self.tick + self.t[w.T_PRE_BUS]
