"""Entry of the `v4sim` script: Ctrl-C ends it with 130 and one line from the first import on.

Imports nothing of the product before the interrupt has its handler. One that Python would swallow
(in a callback of its collector) or that a library turns into an error of its own ends the run, too.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = "interrupted; nothing partial was written"
CODE = 130


def main() -> int:
    """Run the command line; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        from simulator.cli.main import main as command

        return command()  # one that was started with interrupts ignored keeps ignoring them
    signal.signal(signal.SIGINT, _stop)
    from simulator.cli.main import main as command

    sys.unraisablehook = _swallowed
    try:
        signal.signal(signal.SIGINT, _hear)
        return command()
    except KeyboardInterrupt:
        _stop()
    finally:
        # What is done is said: an interrupt while the interpreter ends changes nothing.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Whether an interrupt came, whatever a library made of it."""
    return _came


_came = False


def _hear(number: int, frame: FrameType | None) -> None:
    """As Python's own handler, and noted."""
    global _came
    _came = True
    raise KeyboardInterrupt


def _swallowed(unraisable: UnraisableHookArgs) -> None:
    """An interrupt that Python would print and go on from."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _stop()
    sys.__unraisablehook__(unraisable)


def _stop(number: int = 0, frame: FrameType | None = None) -> NoReturn:
    """Say that the run was interrupted and end it, whatever runs."""
    os.write(2, f"error: {INTERRUPTED}\n".encode())
    os._exit(CODE)


if __name__ == "__main__":
    sys.exit(main())
