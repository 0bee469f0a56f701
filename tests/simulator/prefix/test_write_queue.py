"""Writes to a tier one after the other, by hand."""

import pytest

from simulator.prefix.tier import load_tiers
from simulator.prefix.write_queue import WriteQueue


def test_writes_wait_for_each_other():
    """10 GB at 10 GB/s and a latency of 100 us each: 1.0001 s; the second is asked for at 0.5 s."""
    queue = WriteQueue(load_tiers("node")[2])
    queue.add(10**10, 1, 0.0)
    queue.add(10**10, 1, 0.5)
    assert queue.busy_s == pytest.approx(2.0002)
    assert queue.behind_s == pytest.approx(2.0002 - 0.5)
    queue.add(10**10, 1, 100.0)
    assert queue.behind_s == pytest.approx(2.0002 - 0.5)
    assert queue.free_s == pytest.approx(101.0001)


def test_the_device_itself_writes_nothing():
    queue = WriteQueue(load_tiers("node")[0])
    queue.add(10**10, 1, 0.0)
    assert (queue.busy_s, queue.behind_s) == (0.0, 0.0)
