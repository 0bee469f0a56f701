"""Numbers as a reader wants them: four digits, a unit that fits, thousands separated.

Traffic counts in decimal units, so that bytes over bandwidth is time (GB over GB/s); sizes that
stay in memory count in binary ones (GiB). Rounding is for reading only: files hold exact integers.
"""

from __future__ import annotations

from simulator.basis.units import format_rate


def traffic_text(count: int | float) -> str:
    """Bytes that move, in decimal units."""
    return format_rate(count, "B") if count else "–"


def flops_text(count: int | float) -> str:
    """Floating-point operations, in decimal units."""
    return format_rate(count, "FLOP") if count else "–"


def rate_text(amount: int | float, duration_ps: int, base: str) -> str:
    """Amount over a time, in decimal units of `base`; a dash where nothing moves."""
    if not amount or not duration_ps:
        return "–"
    return format_rate(amount * 10**12 / duration_ps, base)


def share_text(part: int | float, whole: int | float, digits: int = 1) -> str:
    """Part of a whole in per cent; what is neither nothing nor all never reads as such."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    step = 10.0**-digits
    if 0 < percent < step / 2:
        return f"<{step:.{digits}f} %"
    if 100 - step / 2 <= percent < 100:
        return f">{100 - step:.{digits}f} %"
    return f"{percent:.{digits}f} %"


def number_text(value: float) -> str:
    """A plain number to three digits or all of its whole part, thousands separated."""
    if value < 1:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 3 - len(str(int(value))))}f}"


def scaled_text(count: int | float) -> str:
    """A count to four digits, in thousands (k), millions (M), billions (B) or trillions (T)."""
    return format_rate(count, "").replace("G", "B").strip()


def count_text(count: int, singular: str, plural: str | None = None) -> str:
    """A count with its noun: `1 request`, `1,280 requests`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
