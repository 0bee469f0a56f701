"""Speeds of the product: `make bench`, or parts of it: `python -m tests.bench.run dram`.

Wall times are those of this machine and of whatever else it does; ratios say more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tests.bench import commands, dram, evaluator, prefix, serve
from tests.bench.line import Line

PARTS: dict[str, Callable[[], list[Line]]] = {
    "steps": commands.step_lines,
    "dram": dram.lines,
    "evaluator": evaluator.lines,
    "commands": commands.command_lines,
    "prefix": prefix.lines,
    "serve": serve.lines,
}


def main(names: list[str]) -> None:
    """Prints each part's lines as soon as they are measured."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"unknown part {unknown[0]!r}: known are {', '.join(PARTS)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in names or PARTS:
        lines = PARTS[name]()
        for line in lines:
            print(line, flush=True)
        if not lines:
            print(f"{name}: nothing to measure yet")


if __name__ == "__main__":
    main(sys.argv[1:])
