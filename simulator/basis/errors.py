"""Errors that a user sees: one sentence each, with an exit code and fields that pickle.

A message says what was given, what is allowed, the gap in numbers and what to try.
Every error class of this project derives from `V4SimError`; `assert` is for our own bugs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class V4SimError(Exception):
    """Root of every error that the command line prints without a traceback."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InputError(V4SimError):
    """Something the user gave cannot be used as it is."""


class FileFormatError(InputError):
    """A file's content is wrong; the message starts with `file:line:` where a line is known."""


class UnsupportedError(InputError):
    """A valid request that the model, engine or hardware cannot serve; says what comes nearest."""


class UndividedError(InputError):
    """A parallel degree that does not divide the model; other layouts of the question may."""


class DoesNotFitError(InputError):
    """A demand in bytes that exceeds a capacity.

    `short_bytes` is the gap; the message names the largest terms and what would fit.
    """

    def __init__(self, message: str, *, demand_bytes: int, capacity_bytes: int) -> None:
        super().__init__(message)
        self.demand_bytes = demand_bytes
        self.capacity_bytes = capacity_bytes

    @property
    def short_bytes(self) -> int:
        """Bytes by which the demand exceeds the capacity."""
        return self.demand_bytes - self.capacity_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_does_not_fit, (self.message, self.demand_bytes, self.capacity_bytes))


def _rebuild_does_not_fit(message: str, demand_bytes: int, capacity_bytes: int) -> DoesNotFitError:
    return DoesNotFitError(message, demand_bytes=demand_bytes, capacity_bytes=capacity_bytes)


def nearest_name(given: str, allowed: Iterable[str]) -> str | None:
    """Allowed name closest to a misspelt one, or None when none is close."""
    names = list(allowed)
    lowered = {name.lower(): name for name in names}
    match = difflib.get_close_matches(given.lower(), list(lowered), n=1, cutoff=0.5)
    return lowered[match[0]] if match else None


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> str:
    """Sentence for an unknown name: what was given, the nearest valid one, all allowed ones."""
    names = list(allowed)
    near = nearest_name(given, names)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown {what} {given!r}: {hint}known are {', '.join(names)}"
