"""How many requests a decode deployment holds, with C4 entries on the device or on the host."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.capacity.capacity import stage_geometry
from simulator.capacity.fit import Fit
from simulator.capacity.rank_memory import activation_bytes, stages_of, weight_bytes
from simulator.capacity.request_pages import Load
from simulator.capacity.sizing import fit_requests
from simulator.engine.physical_layout import CacheGeometry
from simulator.offload.buffered_geometry import MOVED, buffered, buffers_in_pool, host_bytes
from simulator.offload.question import OffloadQuestion, with_window_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one chip's cache memory holds, and requests of the whole deployment.

    `bytes_per_token` and `request_bytes` are those of one chip's device; `request_host_bytes` of
    one chip's share of host memory, 0 without the offload. `requests` are whole and run at once on
    all replicas; `binds` says which limit stops there.
    """

    bytes_per_token: float
    request_bytes: int
    request_host_bytes: int
    requests: int
    binds: str
    fit: Fit

    def tokens(self, context_tokens: int) -> int:
        """Tokens of context of all requests."""
        return self.requests * context_tokens


def room(question: OffloadQuestion, offload: bool) -> Room:
    """Room for requests at the end of their output.

    Assumes: decoding alone, as on the decode side of disaggregated serving (HiSparse serves there
        only): no prompt is in flight, and no prefix is kept for later requests.
    Assumes: a request has room for its whole output from the start, so that none is preempted.
    Assumes: each rank of a tensor group keeps a host copy of its own, as it keeps device entries.
    """
    asked = question.capacity
    if offload and question.offload_window_ratio is not None:
        asked = with_window_ratio(asked, question.offload_window_ratio)
    taken = asked.workspace_taken(activation_bytes(asked))
    budget = asked.pool_bytes_allowed - weight_bytes(asked)[0] - taken
    geometry = whole_geometry(question)
    if offload:
        geometry = buffered(geometry, question.buffer_entries, question.host_ratio)
    geometry = CacheGeometry(layout=asked.layout, layers=geometry.layers, pools=geometry.pools)
    fit = fit_requests(geometry, max(0, budget), Load(context_tokens=question.last_context))
    on_host = host_bytes(whole_geometry(question), question.last_context) if offload else 0
    limits = [(int(fit.requests + 1e-9), fit.binding.name)]
    replicas, tensor = asked.parallel.data, asked.parallel.tensor
    if offload and question.host_bytes is not None:
        limits.append((question.host_bytes // (on_host * tensor) // replicas, "host memory"))
    if offload and question.host_ratio is not None:
        moved = whole_geometry(question).pool(MOVED)
        held = buffers_in_pool(moved, fit.tokens, question.host_ratio, question.buffer_entries)
        limits.append((held, "buffers"))
    requests, binds = min(limits, key=lambda limit: limit[0])
    return Room(
        bytes_per_token=fit.bytes_per_token,
        request_bytes=fit.request_bytes,
        request_host_bytes=on_host,
        requests=requests * replicas,
        binds=binds,
        fit=fit,
    )


def whole_geometry(question: OffloadQuestion) -> CacheGeometry:
    """The engine's pools with all entries on the device."""
    asked = question.capacity
    (stage,) = stages_of(asked.config.num_hidden_layers, 1)
    return stage_geometry(asked, stage)
