"""Which bits of an address choose column, pseudo-channel, bank group, bank and stack id.

A mapping is a list of digits, least significant first, such as `c2,g,p,c,b,s`: `c` a column of the
row (with a number: that many bursts of it only), `p` pseudo-channel, `g` bank group, `b` bank, `s`
stack id. The row is what remains; bank group and bank are XORed with a hash of the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hwmodels.dram.preset import Organisation
from simulator.basis.errors import InputError

DEFAULT_MAPPING = "c2,g,p,c,b,s"
_CODES = {"c": 0, "p": 1, "g": 2, "b": 3, "s": 4}  # as words.DIGIT_*
_NAMES = {"p": "pseudo-channels", "g": "bank groups", "b": "banks a group", "s": "stack ids"}


@dataclass(frozen=True)
class Mapping:
    """Digits of a burst's index inside its channel: (radix, what it chooses), lowest first."""

    text: str
    digits: tuple[tuple[int, int], ...]

    def table(self) -> np.ndarray:
        """Radix, kind and shift of each digit; shift -1 where the radix is no power of two."""
        shifts = [r.bit_length() - 1 if r & (r - 1) == 0 else -1 for r, _ in self.digits]
        rows = [(radix, kind, s) for (radix, kind), s in zip(self.digits, shifts, strict=True)]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)


def parse_mapping(text: str, organisation: Organisation) -> Mapping:
    """Mapping of a text for an organisation; one that does not cover the address is refused."""
    sizes = {
        "p": organisation.pseudo_channels.whole,
        "g": organisation.bank_groups.whole,
        "b": organisation.banks_a_group.whole,
        "s": organisation.stack_ids.whole,
    }
    columns_left = organisation.bursts_a_row.whole
    digits: list[tuple[int, int]] = []
    seen: set[str] = set()
    for word in text.replace(" ", "").split(","):
        match = re.fullmatch(r"([cpgbs])(\d*)", word)
        if match is None or (match[2] and match[1] != "c"):
            raise InputError(
                f"mapping {text!r}: {word!r} is no digit, expected c, c<number>, p, g, b or s"
            )
        letter = match[1]
        if letter == "c":
            radix = int(match[2]) if match[2] else columns_left
            if radix < 1 or columns_left % radix:
                raise InputError(
                    f"mapping {text!r}: {word!r} does not divide the {columns_left} bursts of a "
                    "row that are left"
                )
            columns_left //= radix
        else:
            if letter in seen:
                raise InputError(f"mapping {text!r}: {letter!r} stands in it twice")
            radix = sizes[letter]
        seen.add(letter)
        if radix > 1:
            digits.append((radix, _CODES[letter]))
    _check_cover(text, sizes, seen, columns_left)
    return Mapping(text, tuple(digits))


def _check_cover(text: str, sizes: dict[str, int], seen: set[str], columns_left: int) -> None:
    for letter, size in sizes.items():
        if size > 1 and letter not in seen:
            raise InputError(
                f"mapping {text!r} does not cover the address: no digit {letter!r} for the {size} "
                f"{_NAMES[letter]}"
            )
    if columns_left > 1:
        raise InputError(
            f"mapping {text!r} does not cover the address: its columns leave a factor of "
            f"{columns_left} of the bursts of a row"
        )
