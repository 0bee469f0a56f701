"""Collects the `Assumes:` lines of docstrings, so that a report can state every approximation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

_LINE = re.compile(r"^\s*Assumes:\s*(.+)$")


def assumptions_of(objects: Iterable[object]) -> tuple[str, ...]:
    """Sentences that follow `Assumes:` in the docstrings of modules, classes and functions.

    A sentence runs on over following lines until one ends in a full stop, a blank line or another
    `Assumes:`. Each is named once, in the order of the objects.
    """
    found: dict[str, None] = {}
    for thing in objects:
        for sentence in _sentences(inspect.getdoc(thing) or ""):
            found[sentence] = None
    return tuple(found)


def _sentences(doc: str) -> Iterable[str]:
    current: list[str] = []
    for line in [*doc.splitlines(), ""]:
        start = _LINE.match(line)
        if current and (start or not line.strip()):
            yield " ".join(current)
            current = []
        if start or current:
            current.append(start.group(1).strip() if start else line.strip())
        if current and line.strip().endswith("."):
            yield " ".join(current)
            current = []
