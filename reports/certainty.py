"""How sure a time is: the interval beside it, and what is behind the interval."""

from __future__ import annotations

from reports.quantity import share_text
from simulator.basis.units import format_time_ps
from simulator.cost.result import StepResult

NOT_CALIBRATED = "not calibrated"


def interval_text(low_ps: int, high_ps: int) -> str:
    """`9.8 to 11.4 ms`: a unit that both ends share is said once."""
    low, high = format_time_ps(low_ps), format_time_ps(high_ps)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def time_text(result: StepResult) -> str:
    """The step's time with its interval, the unit said once: `10.5 ms (9.8 to 11.4)`."""
    time, interval = format_time_ps(result.total_ps), interval_text(result.low_ps, result.high_ps)
    unit = " " + time.partition(" ")[2]
    if interval.count(" ") == 3 and interval.endswith(unit):
        interval = interval.removesuffix(unit)
    doubt = f", {NOT_CALIBRATED}" if not _calibrated_ps(result) else ""
    return f"{time} ({interval}{doubt})"


def certainty_sentence(result: StepResult) -> str:
    """What the interval means and rests on, and which launches no measurement stands behind."""
    calibrated_ps, all_ps = _calibrated_ps(result), sum(k.duration_ps for k in result.kernels)
    meaning = "In brackets: where 8 of 10 steps on silicon are expected"
    words = result.standing.words
    rests_on = f"{meaning}, {words}" if words else meaning
    if not result.kernels or calibrated_ps == all_ps:
        return f"{rests_on}."
    if not calibrated_ps and not result.standing.measured_cores:
        return f"{rests_on}: a wide guess."
    if not calibrated_ps:
        return (
            f"{meaning}; no kernel of this engine is calibrated, so the interval is a wide guess."
        )
    names = dict.fromkeys(k.name for k in result.kernels if not k.calibrated)
    return (
        f"{rests_on}. {share_text(all_ps - calibrated_ps, all_ps)} of the launches' time is "
        f"{NOT_CALIBRATED} and has wide intervals: {', '.join(names)}."
    )


def _calibrated_ps(result: StepResult) -> int:
    return sum(kernel.duration_ps for kernel in result.kernels if kernel.calibrated)
