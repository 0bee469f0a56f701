"""SIGKILL at any point of writing: afterwards every block is whole or absent."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from simulator.cache.block_file import SUFFIX, decode_block
from simulator.cache.block_store import FILE_NAME, BlockStore
from tests.simulator.cache import block_writer

STEPS = 12
"""System calls of two blocks of one piece: write x 4, fsync, rename, fsync of the folder, log."""


def _run(folder, first, step=None):
    command = [sys.executable, "-m", block_writer.__name__, str(folder), str(first)]
    command += [] if step is None else [str(step)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )


def _check(folder, acknowledged):
    """`acknowledged` are the indices whose `put` has returned; the next one may be there too."""
    for path in Path(folder).glob(f"*{SUFFIX}"):
        decode_block(path.read_bytes(), path.name)
    store = BlockStore(folder)
    assert store.damaged == {}
    assert not list(Path(folder).glob(".*.tmp")), "partial files of the killed writer"
    last = {block_writer.key_of(i): i for i in acknowledged}
    following = max(acknowledged, default=-1) + 1
    assert set(last) <= set(store.keys()) <= {*last, block_writer.key_of(following)}
    keys = store.keys()
    for key in keys:
        found = store.get(key)
        index = int(found["note"].decode().removeprefix("block "))
        assert index in (last.get(key), following), "neither the last block nor the one after"
        np.testing.assert_array_equal(found["rows"], block_writer.content(index)["rows"])
    files = {record.file: record.nbytes for record in store.rebuild().values()}
    assert files == {p.name: p.stat().st_size for p in Path(folder).glob(f"*{SUFFIX}")}
    listed = (Path(folder) / FILE_NAME).read_text().splitlines()
    assert len(listed) == 1 + len(files)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_killed_at_every_step(tmp_path, step):
    acknowledged = [40, 41]
    store = BlockStore(tmp_path)
    for index in acknowledged:
        store.put(block_writer.key_of(index), block_writer.content(index))
    writer = _run(tmp_path, 42, step)
    acknowledged += [int(line) for line in writer.stdout]
    assert writer.wait() == -9
    _check(tmp_path, acknowledged)


def test_killed_at_random_times(tmp_path):
    # Kills inside a write are certain in the test above; here they fall where they fall.
    rng, acknowledged = random.Random(5), []
    for _ in range(8):
        writer = _run(tmp_path, len(acknowledged))
        acknowledged.append(int(writer.stdout.readline()))
        time.sleep(rng.uniform(0.0, 0.15))
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout]
        assert writer.wait() == -9
        # The block after the last acknowledged one may have been finished: write it again.
        _check(tmp_path, acknowledged)
    assert len(acknowledged) >= 8
