"""What an hour of a chip costs: dated prices by name, each with its origin.

`find_price("h200")` is the price that the chip's file names as its default, `find_price("h200",
"tco-neocloud")` another one; a path takes the default of a file of the user's. Prices move;
the date belongs to the number.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from hwmodels.chip import ChipSpec
from hwmodels.node import load_node
from simulator.basis.data_files import find_data_file, is_path, list_data_names
from simulator.basis.errors import InputError, unknown_name
from simulator.basis.sourced import DollarsPerHour
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_PRICES = Path(__file__).parent / "prices"


class ChipPrice(StrictModel):
    """One price. Where a source gives a range, `usd_per_hour` is its lower end, `up_to` its upper.

    `date`: YYYY, YYYY-MM or YYYY-MM-DD, as the source is dated.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    about: str
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]
    usd_per_hour: DollarsPerHour
    up_to: DollarsPerHour | None = None

    def describe(self, chip: str) -> str:
        """One line: chip, name, date, origin."""
        top = f" to {self.up_to.value}" if self.up_to else ""
        return (
            f"{self.usd_per_hour.value}{top} USD/h a {chip}, {self.name} ({self.about}), "
            f"{self.date}: {self.usd_per_hour.source}"
        )


class ChipPrices(StrictModel):
    """Prices of one chip, and the name of the one that is taken where none is asked for."""

    chip: str
    default: str
    prices: tuple[ChipPrice, ...]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [price.name for price in self.prices]
        for name in names:
            if names.count(name) > 1:
                raise KeyFaultError(("prices",), f"two prices are called {name!r}")
        if self.default not in names:
            raise KeyFaultError(("default",), unknown_name("price", self.default, names))
        return self


def list_priced_chips() -> list[str]:
    """Chips whose prices ship here."""
    return list_data_names(_PRICES)


@lru_cache(maxsize=32)
def prices_of(chip: str) -> ChipPrices:
    """All prices of a chip; InputError where none ships here."""
    path = _PRICES / f"{chip.lower()}.yaml"
    if not path.is_file():
        raise InputError(
            f"no price of a {chip} is known here, only of {', '.join(list_priced_chips())}; give "
            "usd_per_chip_hour, date and source under prices"
        )
    return load_yaml(path, ChipPrices)


def find_price(chip: str, name_or_path: str | None = None) -> ChipPrice:
    """A price of a chip by name, its default, or the default one of a file of the same form.

    An unknown name says which there are.
    """
    if name_or_path is not None and is_path(name_or_path):
        found = load_yaml(find_data_file("price", name_or_path, _PRICES), ChipPrices)
        wanted = found.default
    else:
        found = prices_of(chip)
        wanted = name_or_path or found.default
    for price in found.prices:
        if price.name == wanted:
            return price
    raise InputError(unknown_name(f"price of {chip}", wanted, [p.name for p in found.prices]))


def priced_as(chip: ChipSpec) -> str:
    """Chip whose prices hold: a file of the user's is priced as the chip of the node it sits in."""
    usual = load_node(chip.node).chip
    return usual if usual in list_priced_chips() else chip.name
