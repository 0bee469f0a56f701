"""Entry of the `v4sim` script: Ctrl-C ends it with 130 and one line from the first import on.

Imports nothing of the product before the interrupt has its handler. One that Python would swallow
(in a callback of its collector) or that a library turns into an error of its own ends the run, too.
"""

from __future__ import annotations

import signal
import sys

from simulator.cli.interrupts import hear, stop, swallowed


def main() -> int:
    """Run the command line; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        from simulator.cli.main import main as command

        return command()  # one that was started with interrupts ignored keeps ignoring them
    signal.signal(signal.SIGINT, stop)
    from simulator.cli.main import main as command

    sys.unraisablehook = swallowed
    try:
        signal.signal(signal.SIGINT, hear)
        return command()
    except KeyboardInterrupt:
        stop()
    finally:
        # What is done is said: an interrupt while the interpreter ends changes nothing.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
