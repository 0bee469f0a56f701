"""Why a target binds, in figures: the worst burst against the rate of prefill, and how full steps
are that answers take part in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.serve.money import chip_time
from simulator.serve.run import ServingRun

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A stretch of arrivals after which most prompt tokens wait: `tokens` that no cache held came
    within `seconds`, `requests` of them, while prefill computes `prefill_tokens_per_s`.

    Assumes: prefill goes on at the mean rate of all steps that carry prompts, on all lanes at once.
    """

    tokens: int
    requests: int
    seconds: float
    prefill_tokens_per_s: float

    @property
    def waiting_s(self) -> float:
        """Seconds of prefill that are left when its last request has arrived."""
        return max(0.0, self.tokens / self.prefill_tokens_per_s - self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How full a run was. `burst` is None where no prompt token was computed.

    `decoding`: requests in the mean step with answers, weighted by time; `most_decoding` in any;
    `decode_step_ms` and `mixed_step_ms`: mean steps with answers alone, and with prompts as well
    (0 where there are none); `mixed_share`: of the time of steps with answers that also carry
    prompts; `prompt_share` and `answer_share`: of all chip time; `in_system`: requests in the mean.
    """

    burst: Burst | None
    decoding: float
    most_decoding: int
    decode_step_ms: float
    mixed_step_ms: float
    mixed_share: float
    prompt_share: float
    answer_share: float
    in_system: float


def load_of(run: ServingRun, span_s: float) -> Load:
    """Read it off the logs of a run."""
    steps = [log.columns() for log in run.steps]
    joined = {
        name: np.concatenate([c[name] for c in steps]).astype(np.float64)
        for name in ("steps", "duration_ns", "decoding", "prompt_tokens")
    }
    answers, prompts = joined["decoding"] > 0, joined["prompt_tokens"] > 0
    alone, mixed = answers & ~prompts, answers & prompts
    time_ns = joined["duration_ns"]
    share = chip_time(run, span_s)
    answered = float(time_ns[answers].sum())
    return Load(
        burst=_burst(run, float(joined["prompt_tokens"].sum()), float(time_ns[prompts].sum())),
        decoding=float(np.dot(joined["decoding"], time_ns)) / max(1.0, answered),
        most_decoding=int(joined["decoding"].max(initial=0)),
        decode_step_ms=_mean_step_ms(joined, alone),
        mixed_step_ms=_mean_step_ms(joined, mixed),
        mixed_share=float(time_ns[mixed].sum()) / max(1.0, answered),
        prompt_share=share.prompts,
        answer_share=share.answers,
        in_system=float(run.requests.latency_ns().sum()) / 1e9 / span_s,
    )


def _mean_step_ms(columns: dict[str, Floats], which: NDArray[np.bool_]) -> float:
    steps = float(columns["steps"][which].sum())
    return float(columns["duration_ns"][which].sum()) / steps / 1e6 if steps else 0.0


def _burst(run: ServingRun, tokens: float, busy_ns: float) -> Burst | None:
    """The worst burst of a run, at its own rate of prefill on all lanes that carried prompts."""
    lanes = sum(any(log.prompt_tokens) for log in run.steps)
    if not tokens or not busy_ns:
        return None
    log, done = run.requests, run.requests.finished
    arrival_s = log.column("arrival_ns")[done] / 1e9
    fresh = (log.column("input_tokens") - log.column("hit_tokens"))[done]
    return worst_burst(arrival_s, fresh.astype(np.float64), tokens / busy_ns * 1e9 * lanes)


def worst_burst(arrival_s: Floats, tokens: Floats, tokens_per_s: float) -> Burst:
    """The stretch of arrivals after which the longest queue of prompt tokens stands.

    With prefill at a steady rate, what waits after an arrival is the largest sum, over all earlier
    arrivals from which one may count, of tokens since then less what was computed meanwhile.
    """
    order = np.argsort(arrival_s, kind="stable")
    at, came = arrival_s[order], np.cumsum(tokens[order])
    before = came - tokens[order]
    # Waiting after j, counted from i: (came[j] - rate at[j]) - (before[i] - rate at[i]).
    start = before - tokens_per_s * at
    lowest = np.minimum.accumulate(start)
    last = int(np.argmax(came - tokens_per_s * at - lowest))
    first = int(np.argmin(start[: last + 1]))
    return Burst(
        tokens=int(came[last] - before[first]),
        requests=last - first + 1,
        seconds=float(at[last] - at[first]),
        prefill_tokens_per_s=tokens_per_s,
    )
