"""Results of a run by request, in columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.serve.live_request import UNSET, LiveRequest

Ints = NDArray[np.int64]
COLUMNS = (
    "sent_ns",
    "arrival_ns",
    "admitted_ns",
    "first_token_ns",
    "finish_ns",
    "input_tokens",
    "output_tokens",
    "hit_tokens",
    "prefilled_tokens",
    "recomputed_tokens",
    "preemptions",
    "replica",
)


class RequestLog:
    """One row a request of the trace; -1 where a time is not known (refused, or not finished)."""

    def __init__(self, requests: int) -> None:
        self._columns = {name: np.full(requests, UNSET, dtype=np.int64) for name in COLUMNS}

    def __len__(self) -> int:
        return len(self._columns["arrival_ns"])

    def write(self, request: LiveRequest, replica: int) -> None:
        """Everything that is known of a request; hits are those of its input, once."""
        row, columns = request.index, self._columns
        for name in COLUMNS[:-1]:
            columns[name][row] = getattr(request, name)
        columns["hit_tokens"][row] = request.prefix_tokens
        columns["replica"][row] = replica

    def column(self, name: str) -> Ints:
        """A column, one value a request."""
        return self._columns[name]

    def columns(self) -> dict[str, Ints]:
        """All columns by name."""
        return dict(self._columns)

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Requests whose last token is out."""
        return self.column("finish_ns") != UNSET

    def ttft_ns(self) -> Ints:
        """Time to first token of finished requests, from their arrival at the server."""
        done = self.finished
        return self.column("first_token_ns")[done] - self.column("arrival_ns")[done]

    def sent_ns(self) -> Ints:
        """When clients sent the finished requests: their arrival where nothing lies between."""
        sent, arrival = self.column("sent_ns"), self.column("arrival_ns")
        return np.where(sent == UNSET, arrival, sent)[self.finished]

    def client_ttft_ns(self) -> Ints:
        """Time to first token of finished requests, from the moment that the client sent them."""
        return self.column("first_token_ns")[self.finished] - self.sent_ns()

    def tpot_ns(self) -> NDArray[np.float64]:
        """Mean time of a further token of finished requests with two tokens and more."""
        done = self.finished & (self.column("output_tokens") > 1)
        span = self.column("finish_ns")[done] - self.column("first_token_ns")[done]
        return span / (self.column("output_tokens")[done] - 1)

    def latency_ns(self) -> Ints:
        """Arrival to last token of finished requests."""
        done = self.finished
        return self.column("finish_ns")[done] - self.column("arrival_ns")[done]

    def queueing_ns(self) -> Ints:
        """Arrival to admission of finished requests."""
        done = self.finished
        return self.column("admitted_ns")[done] - self.column("arrival_ns")[done]
