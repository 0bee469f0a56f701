"""What benchmark tools send, and how they count: the `client` of a scenario's traffic.

`sglang-bench` is sglang.bench_serving with `--dataset-name random`, `vllm-bench` is vllm bench
serve, `aiperf` its synthetic prompts. All three keep a semaphore of `concurrency` requests, so that
the next one is sent when one has ended, and their TTFT begins when a request is sent: what waits
for the semaphore is in no latency.
Source: sglang 0.5.23 and vllm 0.33.0 wheels; aiperf documentation (CLI options).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel

Whole = Annotated[int, Field(gt=0, le=2**40)]
Positive = Annotated[float, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Lengths = NDArray[np.int64]


class _Client(StrictModel):
    """Nominal input, how many prompts, and how they are let in: all at once where neither a
    concurrency nor a rate is given."""

    input_tokens: Whole = 1024
    prompts: Whole = 1000
    concurrency: Whole | None = None
    rate_per_s: Positive | None = None

    @model_validator(mode="after")
    def _check_loop(self) -> Self:
        if self.rate_per_s is not None and self.concurrency is not None:
            raise KeyFaultError(
                ("rate_per_s",),
                "give either rate_per_s (open loop) or concurrency (closed loop), not both",
            )
        return self


class SglangBench(_Client):
    """Lengths are uniform whole numbers from max(1, int(L x range_ratio)) to L, drawn by numpy's
    legacy generator: inputs first, then outputs. A ratio of 0, the default, halves the tokens.

    Assumes: the warm-up, a copy of the first prompt, leaves nothing in the cache.
    """

    kind: Literal["sglang-bench"]
    output_tokens: Whole = 1024
    range_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: Seed = 1

    def lengths(self) -> tuple[Lengths, Lengths]:
        """Input and output tokens of every prompt."""
        draw = np.random.RandomState(self.seed)
        found = [
            draw.randint(max(1, int(most * self.range_ratio)), most + 1, size=self.prompts)
            for most in (self.input_tokens, self.output_tokens)
        ]
        return found[0].astype(np.int64), found[1].astype(np.int64)


class VllmBench(_Client):
    """Lengths are uniform whole numbers from floor(L (1 - r)) to ceil(L (1 + r)), r < 1.

    A ratio of 0, the default, gives exactly L. Arrivals at a rate are gamma with `burstiness`
    (1: Poisson).
    """

    kind: Literal["vllm-bench"]
    output_tokens: Whole = 128
    range_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    seed: Seed = 0
    burstiness: Positive = 1.0

    def lengths(self) -> tuple[Lengths, Lengths]:
        """Input and output tokens of every prompt."""
        draw = np.random.default_rng(self.seed)
        found = [
            draw.integers(
                max(1, int(np.floor(most * (1 - self.range_ratio)))),
                int(np.ceil(most * (1 + self.range_ratio))) + 1,
                size=self.prompts,
            )
            for most in (self.input_tokens, self.output_tokens)
        ]
        return found[0].astype(np.int64), found[1].astype(np.int64)


class Aiperf(_Client):
    """Lengths are normal around the mean with a standard deviation, cut to at least one token.

    Assumes: aiperf's own generator is not reproduced draw by draw, only its distribution is.
    """

    kind: Literal["aiperf"]
    input_tokens: Whole = 550
    output_tokens: Whole = 128
    input_stddev: Annotated[float, Field(ge=0)] = 0.0
    output_stddev: Annotated[float, Field(ge=0)] = 0.0
    seed: Seed = 0

    def lengths(self) -> tuple[Lengths, Lengths]:
        """Input and output tokens of every prompt."""
        draw = np.random.default_rng(self.seed)
        pairs = (
            (self.input_tokens, self.input_stddev),
            (self.output_tokens, self.output_stddev),
        )
        inputs, outputs = (
            np.maximum(1, np.rint(draw.normal(mean, deviation, self.prompts))).astype(np.int64)
            for mean, deviation in pairs
        )
        return inputs, outputs


Client = Annotated[SglangBench | VllmBench | Aiperf, Field(discriminator="kind")]
CLIENTS: dict[str, type[SglangBench] | type[VllmBench] | type[Aiperf]] = {
    "sglang-bench": SglangBench,
    "vllm-bench": VllmBench,
    "aiperf": Aiperf,
}
