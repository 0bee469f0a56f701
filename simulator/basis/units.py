"""Units as text: exact factors to SI, checked dimensions, and numbers for messages.

Decimal and binary prefixes are different units (`GB` is 10^9 bytes, `GiB` is 2^30), bits are not
bytes, and case counts. Conversion is exact: a decimal such as 4.8 is taken as written, and the
result is an int where it is whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from simulator.basis.errors import InputError, nearest_name

_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_SMALL = {"": 0, "m": -3, "u": -6, "n": -9, "p": -12}


@dataclass(frozen=True)
class Unit:
    """One unit: its symbol, the SI unit of its dimension, and the exact factor between them."""

    symbol: str
    dimension: str
    factor: Fraction


def _decimal(base: str, prefixes: dict[str, int], dimension: str = "") -> list[Unit]:
    return [
        Unit(prefix + base, dimension or base, Fraction(10) ** power)
        for prefix, power in prefixes.items()
    ]


def _binary(base: str) -> list[Unit]:
    return [Unit(prefix + base, base, Fraction(2**power)) for prefix, power in _BINARY.items()]


def _plain(dimension: str, **factors: int) -> list[Unit]:
    return [Unit(symbol, dimension, Fraction(factor)) for symbol, factor in factors.items()]


_UNITS: dict[str, Unit] = {
    unit.symbol: unit
    for unit in [
        *_decimal("B", _DECIMAL),
        *_binary("B"),
        *_decimal("B/s", _DECIMAL),
        *_binary("B/s"),
        *_decimal("b/s", _DECIMAL),
        *_plain("bit", bit=1),
        *_decimal("FLOP", _DECIMAL),
        *_decimal("FLOP/s", _DECIMAL),
        # An integer multiply-add is two operations, as a floating one is: one dimension for both.
        *_decimal("OP/s", _DECIMAL, "FLOP/s"),
        *_decimal("Hz", _DECIMAL),
        *_decimal("s", _SMALL),
        *_plain("s", min=60, h=3600),
        *_decimal("W", {"": 0, "m": -3, "k": 3, "M": 6}),
        *_decimal("J", {**_SMALL, "k": 3, "M": 6}),
        *_decimal("J/FLOP", _SMALL),
        *_plain("1", **{"1": 1}),
        *_plain("token", token=1),
        *_plain("B/clk", **{"B/clk": 1}),
        *_plain("FLOP/clk", **{"FLOP/clk": 1, "OP/clk": 1}),
        *_plain("clk", clk=1, cycles=1),
        *_plain("IO/s", **{"IO/s": 1, "kIO/s": 1000, "MIO/s": 1_000_000}),
        *_plain("USD", USD=1),
        *_plain("USD/h", **{"USD/h": 1}),
        *_plain("USD/GB", **{"USD/GB": 1}),
        Unit("USD/TB", "USD/GB", Fraction(1, 1000)),
        *_plain("USD/kWh", **{"USD/kWh": 1}),
    ]
}


def unit_names(dimension: str) -> list[str]:
    """Symbols of every unit of a dimension, such as `B/s`."""
    return [unit.symbol for unit in _UNITS.values() if unit.dimension == dimension]


def find_unit(symbol: str) -> Unit:
    """Unit of a symbol; an unknown one is an InputError with the nearest known symbol."""
    if symbol in _UNITS:
        return _UNITS[symbol]
    slashed = symbol.replace("ps", "/s").replace("OPS", "OP/s")  # GBps, TFLOPS
    near = slashed if slashed in _UNITS else nearest_name(symbol, _UNITS)
    hint = f"; did you mean {near!r}?" if near else ""
    raise InputError(f"unknown unit {symbol!r}{hint}")


def to_si(value: int | float, symbol: str, dimension: str | None = None) -> int | float:
    """Value in the SI unit of its dimension: an int where whole, else the nearest float.

    A decimal float counts as the decimal that it prints as, so 4.8 TB/s is 4_800_000_000_000.
    """
    exact = exact_si(value, symbol, dimension)
    return exact.numerator if exact.denominator == 1 else float(exact)


def to_picoseconds(value: int | float, symbol: str) -> int:
    """Whole picoseconds of a time; a fraction of one is refused, not rounded."""
    exact = exact_si(value, symbol, "s") * 10**12
    if exact.denominator != 1:
        raise InputError(
            f"{value} {symbol} is {float(exact)} ps, expected a whole number of picoseconds"
        )
    return exact.numerator


def exact_si(value: int | float, symbol: str, dimension: str | None = None) -> Fraction:
    """Value in the SI unit of its dimension, exactly as written."""
    unit = find_unit(symbol)
    if dimension is not None and unit.dimension != dimension:
        raise InputError(
            f"unit {symbol!r} measures {unit.dimension}, expected a unit of {dimension}: "
            f"{', '.join(unit_names(dimension))}"
        )
    return Fraction(repr(value)) * unit.factor


def format_bytes(count: int | float, *, exact: bool = False) -> str:
    """Bytes in the binary unit that reads best, to 4 digits; `exact` adds the full count."""
    text = _scaled(count, [(2**power, f"{prefix}B") for prefix, power in _BINARY.items()], "B")
    return f"{text} ({count:,} B)" if exact and abs(count) >= 1024 else text


def format_time_ps(time_ps: int | float) -> str:
    """Picoseconds in the unit that reads best, to 4 digits."""
    steps = [(10**3, "ns"), (10**6, "us"), (10**9, "ms"), (10**12, "s")]
    return _scaled(time_ps, steps, "ps")


def format_rate(per_second: int | float, base: str = "B/s") -> str:
    """Rate in decimal units of `base` (`B/s`, `FLOP/s`, `Hz`), to 4 digits."""
    steps = [(10**power, prefix + base) for prefix, power in _DECIMAL.items() if power]
    return _scaled(per_second, steps, base)


def _scaled(value: int | float, steps: list[tuple[int, str]], base: str) -> str:
    size, symbol = 1, base
    for step, name in steps:
        # Half a digit below a step would print as 1000 or 1024 of the smaller unit.
        if abs(value) >= step * 0.99995:
            size, symbol = step, name
    number = value / size
    whole = len(str(int(abs(number))))
    text = f"{number:.{max(0, 4 - whole)}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {symbol}"
