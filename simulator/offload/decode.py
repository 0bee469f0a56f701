"""Decode steps with and without the offload: their time, and tokens a second."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.cost.step_timer import StepTimer
from simulator.offload.buffered_geometry import MOVED
from simulator.offload.host_gather import HostGather, host_gather
from simulator.offload.misses import Misses
from simulator.offload.question import OffloadQuestion
from simulator.offload.room import whole_geometry
from workloads.step_shape import StepShape

LRU_BYTES = 16
KERNELS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePoint:
    """A decode step of so many requests on all chips, and what the offload adds to it.

    Times of the busiest chip. `copy_s` and `test_s` are of all C4 layers, 0 without the offload.
    `misses`: of one query, a layer and request. `link_share` and `backup_share`: of the host link
    over the step, reads for misses and writes of new entries.
    """

    requests: int
    compute_s: float
    copy_s: float = 0.0
    test_s: float = 0.0
    misses: float = 0.0
    miss_bytes: float = 0.0
    backup_bytes: float = 0.0
    backup_s: float = 0.0
    link_share: float = 0.0

    @property
    def step_s(self) -> float:
        """Duration of the step; the backup stretches it where the link cannot keep up."""
        return max(self.compute_s + self.copy_s + self.test_s, self.backup_s)

    @property
    def backup_share(self) -> float:
        """Share of the step that the link writes new entries."""
        return self.backup_s / self.step_s

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all requests."""
        return self.requests / self.step_s


class DecodeTimer:
    """Times steps of one deployment; `misses` says how often a pick is not in the buffer.

    Assumes: the steps of a layer follow one another: top-k, hit test and reordering, copy of the
        misses, attention. The window's part of attention does not run meanwhile, since one call
        takes both sources. So all of the copy's time adds to the step.
    Assumes: hit test with reordering and copy are a kernel each in every C4 layer; the first reads
        and writes 16 B of every buffered entry (id and time of use, guessed).
    Assumes: all chips have the mean number of misses.
    Assumes: new entries are written back while later layers compute, in the other direction of the
        link, which does not slow the reads.
    """

    def __init__(self, question: OffloadQuestion, misses: Misses) -> None:
        self.question = question
        self.misses = misses
        asked = question.step
        self._timer = StepTimer(asked)
        row = whole_geometry(question).pool(MOVED).row_bytes
        self.gather: HostGather = host_gather(asked.node, row, question.gather_share)

    def plain(self, requests: int, context_tokens: int) -> DecodePoint:
        """A step with all entries on the device."""
        shape = StepShape.uniform(requests, 1, context_tokens - 1)
        return DecodePoint(requests=requests, compute_s=self._timer.total_ps(shape) * 1e-12)

    def offloaded(
        self,
        requests: int,
        context_tokens: int,
        *,
        buffer_entries: int | None = None,
        misses_of: Misses | None = None,
    ) -> DecodePoint:
        """A step with C4 entries on the host; another buffer or other misses may be tried."""
        question, chip = self.question, self.question.step.chip
        buffer = question.buffer_entries if buffer_entries is None else buffer_entries
        layers, row = question.c4_layers, self.gather.row_bytes
        on_chip = ceil_div(requests, question.capacity.parallel.data)
        rule = self.misses if misses_of is None else misses_of
        misses = rule.a_query(context_tokens // 4, question.top_k, buffer)
        traffic_s = 2 * on_chip * buffer * LRU_BYTES / chip.hbm_bandwidth_bytes_per_s
        base = self.plain(requests, context_tokens)
        miss_bytes = layers * on_chip * misses * row
        backup_bytes = layers * on_chip * row / 4
        copy_s = layers * self.gather.seconds(on_chip * misses)
        test_s = layers * (KERNELS * chip.launch_gap_s + traffic_s)
        return DecodePoint(
            requests=requests,
            compute_s=base.compute_s,
            copy_s=copy_s,
            test_s=test_s,
            misses=misses,
            miss_bytes=miss_bytes,
            backup_bytes=backup_bytes,
            backup_s=backup_bytes / self.gather.bytes_per_s,
            link_share=miss_bytes / self.gather.bytes_per_s / (base.compute_s + copy_s + test_s),
        )
