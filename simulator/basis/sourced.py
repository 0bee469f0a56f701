"""A number from outside, with its unit, where it comes from and how far to trust it.

In YAML: `{value: 4.8, unit: TB/s, kind: published, source: "..."}`, with an optional `note`.
A schema declares the dimension by the field's type: `bandwidth: BytesPerSecond`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from simulator.basis.errors import InputError
from simulator.basis.units import find_unit, to_si, unit_names
from simulator.basis.yaml_loader import KeyFaultError, StrictModel

# Least and most in SI units by dimension, far beyond what is built.
_RANGE = (1e-15, 1e24)
_RANGES = {
    "B": (1, 1e18),
    "B/s": (1, 1e18),
    "s": (1e-15, 1e6),
    "Hz": (1, 1e13),
    "1": (1e-12, 1e12),
    "clk": (1, 1e9),
}
Kind = Literal["published", "measured", "derived", "guessed"]


class Sourced(StrictModel):
    """A positive number with unit and origin.

    `published`: a datasheet or paper says so. `measured`: somebody ran it on the hardware.
    `derived`: follows from other numbers, `source` says how. `guessed`: `note` says why.
    """

    value: int | float
    unit: str
    kind: Kind
    source: str | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            find_unit(self.unit)
        except InputError as error:
            raise KeyFaultError(("unit",), error.message) from None
        if self.value <= 0:
            raise KeyFaultError(("value",), f"value is {self.value}, expected more than 0")
        self._check_range()
        if self.kind == "guessed":
            if not (self.note or "").strip():
                raise KeyFaultError(("kind",), "a guessed number needs a 'note' with the reason")
        elif not (self.source or "").strip():
            what = "the derivation" if self.kind == "derived" else "where it was read"
            raise KeyFaultError(("kind",), f"a {self.kind} number needs a 'source' with {what}")
        return self

    def _check_range(self) -> None:
        """Beyond any machine a number is a slip, and sums with it lose all others."""
        least, most = _RANGES.get(self.dimension, _RANGE)
        si = to_si(self.value, self.unit)
        if not least <= si <= most:
            given = f"{self.value} {self.unit}".removesuffix(" 1")
            given = given if len(given) <= 60 else given[:57] + "..."
            what = f"{least:g} to {most:g} {self.dimension}".removesuffix(" 1")
            raise KeyFaultError(("value",), f"value is {given}, expected {what}")

    @property
    def dimension(self) -> str:
        """SI unit that `si` is given in: `B`, `B/s`, `FLOP/s`, `Hz`, `s`, ..."""
        return find_unit(self.unit).dimension

    @cached_property
    def si(self) -> int | float:
        """Value in SI units; an int where it is whole."""
        return to_si(self.value, self.unit)

    @property
    def whole(self) -> int:
        """Value in SI units where only a whole number makes sense (counts, bytes)."""
        if not isinstance(self.si, int):
            raise InputError(
                f"{self.value} {self.unit} is {self.si} {self.dimension}, expected a whole number"
            )
        return self.si

    def describe(self) -> str:
        """One line for reports: value, unit, kind and where it is from."""
        origin = self.source or self.note
        return f"{self.value} {self.unit} ({self.kind}: {origin})"


def of_dimension(*dimensions: str, whole: tuple[str, ...] = ()) -> AfterValidator:
    """Validator that a `Sourced` has one of these dimensions, for `Annotated[Sourced, ...]`.

    Of those in `whole` only whole numbers of the SI unit make sense.
    """

    def check(number: Sourced) -> Sourced:
        if number.dimension not in dimensions:
            known = [name for dimension in dimensions for name in unit_names(dimension)]
            raise KeyFaultError(
                ("unit",),
                f"unit {number.unit!r} measures {number.dimension}, expected a unit of "
                f"{' or '.join(dimensions)}: {', '.join(known)}",
            )
        if number.dimension in whole and not isinstance(number.si, int):
            given = f"{number.value} {number.unit}".removesuffix(" 1")
            what = f"a whole number of {number.dimension}".removesuffix(" of 1")
            raise KeyFaultError(("value",), f"value is {given}, expected {what}")
        return number

    return AfterValidator(check)


Bytes = Annotated[Sourced, of_dimension("B", whole=("B",))]
BytesPerSecond = Annotated[Sourced, of_dimension("B/s")]
BitsPerSecond = Annotated[Sourced, of_dimension("b/s")]
Bits = Annotated[Sourced, of_dimension("bit", whole=("bit",))]
FlopsPerSecond = Annotated[Sourced, of_dimension("FLOP/s")]
Hertz = Annotated[Sourced, of_dimension("Hz")]
Seconds = Annotated[Sourced, of_dimension("s")]
Watts = Annotated[Sourced, of_dimension("W")]
Count = Annotated[Sourced, of_dimension("1", whole=("1",))]
Ratio = Annotated[Sourced, of_dimension("1")]
BytesPerClock = Annotated[Sourced, of_dimension("B/clk")]
FlopsPerClock = Annotated[Sourced, of_dimension("FLOP/clk")]
Clocks = Annotated[Sourced, of_dimension("clk", whole=("clk",))]
ClocksOrSeconds = Annotated[Sourced, of_dimension("clk", "s", whole=("clk",))]
IoPerSecond = Annotated[Sourced, of_dimension("IO/s")]
Dollars = Annotated[Sourced, of_dimension("USD")]
DollarsPerHour = Annotated[Sourced, of_dimension("USD/h")]
DollarsPerGigabyte = Annotated[Sourced, of_dimension("USD/GB")]
