"""What the simulated machine saw of a step's kernels: occupancy, stalls, cache, memory's queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from reports.quantity import number_text, share_text
from reports.text_table import TextColumn
from simulator.basis.units import format_time_ps
from simulator.cost.machine_view import STATES, WORKING, MachineView, mean_view
from simulator.cost.result import KernelRecord, StepResult

STATE_TEXTS = {
    "launch": "launch gap",
    "no block": "no block",
    "prologue": "prologue",
    "matrix": "matrix units",
    "vector": "vector units",
    "wait": "dependent steps",
    "pipe busy": "busy units",
    "cache": "cache",
    "memory": "memory",
    "links": "links",
    "epilogue": "epilogue",
    "power": "power limit",
}
MEANING = (
    "Occupied: share of the places for blocks that held one. Stalls: what blocks spend most of the "
    "time on beside matrix and vector work, as shares of the kernel's time. Queued: requests "
    "between a core and memory's answer at once. Balance: mean memory channel over the fullest. "
    "Extrapolated: share of the work that went on as the simulated part did. Launches of one name "
    "are means over their time."
)
_DASH = "–"
_QUEUED = "queued_chunks"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLine:
    """Launches of one name: their time, and what the machine saw of them (None: nothing)."""

    name: str
    launches: int
    duration_ps: int
    view: MachineView | None

    @property
    def stalls(self) -> tuple[tuple[str, float], ...]:
        """The two states that most of the time goes to beside work, with their shares."""
        if self.view is None:
            return ()
        states = self.view.states_ps
        whole = sum(states.values()) or 1
        ranked = sorted((name for name in states if name not in WORKING), key=lambda n: -states[n])
        return tuple((name, states[name] / whole) for name in ranked[:2] if states[name])


def machine_lines(result: StepResult) -> tuple[MachineLine, ...]:
    """A line a kernel's name, the longest first; none where no cycle rung was asked for."""
    if result.question.fidelity != "cycle":
        return ()
    groups: dict[str, list[KernelRecord]] = {}
    for kernel in result.kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    lines = [_line(name, members) for name, members in groups.items()]
    return tuple(sorted(lines, key=lambda line: (-line.duration_ps, line.name)))


def _line(name: str, members: Sequence[KernelRecord]) -> MachineLine:
    """Launches together; where tiles price some of them, no machine saw the kernel as a whole."""
    views = [kernel.machine for kernel in members]
    durations = [kernel.duration_ps for kernel in members]
    known = [view for view in views if view is not None]
    view = None
    if len(known) == len(views):
        states = {
            state: total
            for state in STATES
            if (total := sum(own.states_ps.get(state, 0) for own in known))
        }
        view = replace(mean_view(known, durations), states_ps=states)
    return MachineLine(name=name, launches=len(members), duration_ps=sum(durations), view=view)


def without_machine(lines: Sequence[MachineLine]) -> str:
    """A sentence on the lines with a dash; empty where there are none."""
    names = [line.name for line in lines if line.view is None]
    if not names:
        return ""
    if len(names) == len(lines):
        return (
            "No machine ran: no kernel of this engine on this chip is one of a calibrated family, "
            "whose programs are known; the tile model prices them all, with memory's rate from the "
            "burst-level model."
        )
    return (
        f"A dash: no calibrated kernel family has {', '.join(names)} on this engine and chip, so "
        "no program of theirs is known to run on the machine; the tile model prices them, with "
        "memory's rate from the burst-level model."
    )


def machine_columns(lines: Sequence[MachineLine]) -> list[TextColumn]:
    """Columns for a terminal, by what can be left out first."""

    def column(heading: str, cells: list[str], rank: int, left: bool = False) -> TextColumn:
        return TextColumn(heading=heading, cells=cells, rank=rank, left=left)

    rows = [_cells(line) for line in lines]
    return [
        column("kernel", [line.name for line in lines], 0, left=True),
        column("time", [format_time_ps(line.duration_ps) for line in lines], 0),
        column("occupied", [row["occupancy"] for row in rows], 0),
        column("stalls", [row["stalls"] for row in rows], 0, left=True),
        column("LLC\nhits", [row["llc_hit_rate"] for row in rows], 1),
        column("row\nhits", [row["row_hit_rate"] for row in rows], 2),
        column("queued", [row[_QUEUED] for row in rows], 3),
        column("balance", [row["channel_balance"] for row in rows], 4),
        column("extra-\npolated", [row["extrapolated"] for row in rows], 5),
    ]


def _cells(line: MachineLine) -> dict[str, str]:
    view = line.view
    names = ("occupancy", "llc_hit_rate", "row_hit_rate", "channel_balance", "extrapolated")
    if view is None:
        return dict.fromkeys((*names, _QUEUED, "stalls"), _DASH)
    cells = {name: share_text(getattr(view, name), 1, digits=0) for name in names}
    stalls = [
        f"{STATE_TEXTS[state]} {share_text(part, 1, digits=0)}" for state, part in line.stalls
    ]
    cells["stalls"] = ", ".join(stalls) or _DASH
    if not view.queued_chunks:  # nothing went to memory, whose rates say nothing then
        return {**cells, **dict.fromkeys(("row_hit_rate", "channel_balance"), _DASH), _QUEUED: "0"}
    return {**cells, _QUEUED: number_text(view.queued_chunks)}


def view_json(view: MachineView | None) -> dict[str, Any] | None:
    """What a machine saw as plain JSON values; None where there was none."""
    if view is None:
        return None
    return {
        "occupancy_share": view.occupancy,
        "llc_hit_share": view.llc_hit_rate,
        "dram_row_hit_share": view.row_hit_rate,
        "queued_chunks": view.queued_chunks,
        "channel_balance_share": view.channel_balance,
        "extrapolated_share": view.extrapolated,
        "states_ps": _keys(view.states_ps),
    }


def machine_json(result: StepResult) -> list[dict[str, Any]] | None:
    """The table as plain JSON values; None where no cycle rung was asked for."""
    if result.question.fidelity != "cycle":
        return None
    return [
        {
            "name": line.name,
            "launches": line.launches,
            "duration_ps": line.duration_ps,
            "stall_shares": _keys(dict(line.stalls)),
            "machine": view_json(line.view),
        }
        for line in machine_lines(result)
    ]


def _keys(states: Mapping[str, Any]) -> dict[str, Any]:
    """States as keys of JSON."""
    return {state.replace(" ", "_"): value for state, value in states.items()}


_HEADINGS = {
    "occupancy": "occupied",
    "stalls": "largest stalls",
    "llc_hit_rate": "LLC hits",
    "row_hit_rate": "DRAM row hits",
    _QUEUED: "queued requests",
    "channel_balance": "channel balance",
    "extrapolated": "extrapolated",
}


def machine_section(place: str, result: StepResult) -> str:
    """The table as HTML with what its columns mean; empty where no cycle rung was asked for."""
    lines = machine_lines(result)
    if not lines:
        return ""
    title = f'<h3 id="{place}">What the machine saw</h3>'
    if not any(line.view for line in lines):
        return f'{title}<p class="note">{escape(without_machine(lines))}</p>'
    heads = "".join(
        f"<th>{escape(text)}</th>" for text in ("kernel", "launches", "time", *_HEADINGS.values())
    )
    rows = "".join(_html_row(line) for line in lines)
    notes = [MEANING, without_machine(lines)]
    return (
        title
        + "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)
        + '<p class="hint">The table scrolls sideways →</p>'
        f'<div class="scroll" tabindex="0"><table class="grid"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _html_row(line: MachineLine) -> str:
    cells = _cells(line)
    texts = [f"{line.launches:,}", format_time_ps(line.duration_ps)]
    texts += [cells[name] for name in _HEADINGS]
    return (
        f"<tr><th>{escape(line.name)}</th>"
        + "".join(f"<td>{escape(text)}</td>" for text in texts)
        + "</tr>"
    )
