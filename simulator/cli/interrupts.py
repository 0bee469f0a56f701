"""What an interrupt does: it is noted, told in one line, and ends the run.

Imports nothing of the product, so that it can be in place before anything else is imported.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = "interrupted; nothing partial was written"
CODE = 130


def was_interrupted() -> bool:
    """Whether an interrupt came, whatever a library made of it."""
    return _came


_came = False


def hear(number: int, frame: FrameType | None) -> None:
    """As Python's own handler, and noted."""
    global _came
    _came = True
    raise KeyboardInterrupt


def swallowed(unraisable: UnraisableHookArgs) -> None:
    """An interrupt that Python would print and go on from."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        stop()
    sys.__unraisablehook__(unraisable)


def stop(number: int = 0, frame: FrameType | None = None) -> NoReturn:
    """Say that the run was interrupted and end it, whatever runs."""
    os.write(2, f"error: {INTERRUPTED}\n".encode())
    os._exit(CODE)
