"""How much work something is, whatever else the machine does."""

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """Calls that it makes, of Python and of compiled functions, once what it caches is there."""
    work()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
