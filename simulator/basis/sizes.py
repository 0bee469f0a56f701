"""Numbers of tokens as people write them: `128K` and `1M` are 131,072 and 1,048,576."""

from __future__ import annotations

import re

from simulator.basis.errors import InputError

# What every help of such an option says.
SIZES = "(128K = 131,072, 1M = 1,048,576)"
KIBI, MEBI = 2**10, 2**20
_FACTORS = {"": 1, "k": KIBI, "m": MEBI}


def read_tokens(text: str | int, what: str = "tokens") -> int:
    """A length in tokens: digits, with `,` or `_` between them, or with K (1,024) or M (1,048,576).

    A size must be whole: `0.5K` is 512, `0.0001K` is refused. Raises InputError.
    """
    given = str(text).strip()
    found = re.fullmatch(r"([+-]?[\d,_]*\.?\d+)\s*([kKmM]?)", given)
    if found is None:
        raise InputError(
            f"{what} {given!r} is no number of tokens; give one such as 131072, 128K (K = 1,024) "
            "or 1M (M = 1,048,576)"
        )
    number, unit = re.sub("[,_]", "", found[1]), found[2].lower()
    tokens = float(number) * _FACTORS[unit] if "." in number else int(number) * _FACTORS[unit]
    if tokens != int(tokens):
        raise InputError(f"{what} {given!r} is {tokens:,.6g} tokens, not a whole number of them")
    return int(tokens)
