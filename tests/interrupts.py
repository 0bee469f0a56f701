"""Interrupts that reach the processes of tests."""

import signal


def hears_interrupts() -> None:
    """A process that a script starts in the background ignores them, and so would its own."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
