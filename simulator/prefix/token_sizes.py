"""Capacities in tokens as a user writes them: 300000, 300_000, 0.3M, 3e6, 1.5G."""

from __future__ import annotations

import math

from simulator.basis.errors import InputError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_LARGEST = 10**18


def parse_token_sizes(text: str, what: str = "capacity") -> list[int]:
    """Capacities of a list with commas, in the order given; one given twice counts once.

    `what` they are, for messages.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"no {what} given: write tokens, such as 0.3M,1M,10M")
    return list(dict.fromkeys(_tokens(word, what) for word in words))


def _tokens(word: str, what: str) -> int:
    unit = word[-1].lower() if word[-1].isalpha() else ""
    try:
        number = float(word.removesuffix(word[-1]) if unit else word)
    except ValueError:
        number = math.nan
    tokens = number * _UNITS.get(unit, math.nan)
    if not 1 <= tokens <= _LARGEST:
        raise InputError(
            f"{what} {word!r} is not a number of tokens from 1 to 10^18: write 300000, 0.3M "
            "(million) or 1.5G"
        )
    return round(tokens)
