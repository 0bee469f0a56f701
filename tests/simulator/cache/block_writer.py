"""A process that stores blocks until it is killed, for test_block_store_kills.

    python block_writer.py FOLDER FIRST [STEP]

Block i holds what `content(i)` says. With STEP it kills itself at that step of its writing: before,
or halfway through, the system call of that number.
"""

import os
import signal
import sys

import numpy as np

from simulator.cache.block_store import BlockStore


def content(index):
    """Payload of block `index`: up to 3 MB, so that most kills fall inside a file."""
    rng = np.random.default_rng(index)
    rows = rng.standard_normal((int(rng.integers(1, 4000)), 96))
    return {"rows": rows, "note": f"block {index}".encode()}


def key_of(index):
    """Keys repeat, so that blocks are also written over older ones."""
    return f"key {index % 40}"


def _die_at(step):
    calls = {"write": os.write, "fsync": os.fsync, "replace": os.replace}
    count = 0

    def counted(name):
        def call(*arguments):
            nonlocal count
            count += 1
            if count == step:
                if name == "write":
                    descriptor, data = arguments
                    calls["write"](descriptor, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return calls[name](*arguments)

        return call

    for name in calls:
        setattr(os, name, counted(name))


def main(folder, first, step=None):
    store = BlockStore(folder)
    if step is not None:
        _die_at(int(step))
    index = int(first)
    while True:
        store.put(key_of(index), content(index))
        print(index, flush=True)
        index += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
