"""The published gain of HiSparse on V4, beside ours under the settings that may have been its."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.engine.sizing_rules import WindowSizing
from simulator.offload.comparison import Comparison, compare
from simulator.offload.decode import DecodeTimer
from simulator.offload.question import OffloadQuestion, with_window_ratio

MANY_REQUESTS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published gain and what is known of its run."""

    gain: float
    words: str
    model: str
    chip: str
    count: int
    prompt_tokens: int
    output_tokens: int
    source: str


HISPARSE = Published(
    gain=3.0,
    words="up to 3x",
    model="v4-flash",
    chip="b200",
    count=2,
    prompt_tokens=200_000,
    output_tokens=20_000,
    source="LMSYS blog 2026-04-25 (SGLang HiSparse, V4-Flash on 2 x B200, 200K in, 20K out)",
)

DEFAULT_RATIO, RUN_RATIO, ENOUGH_RATIO = 0.1, 0.001, 0.0025
"""Window slots a full token: SGLang's default; that of the published run; enough that full tokens
and not window slots bind at 220,000 tokens (512 slots a request need 0.0024)."""

WHY = (
    "The settings without HiSparse, the parallel layout, the buffer and the requests in flight are "
    "not published. SGLang's default of 0.1 window slots a full token binds most of the memory "
    "that the offload frees, so the published run set 0.001; there the window slots bind in turn. "
    "A gain near 3 needs few window slots with HiSparse and the default without it; with as few on "
    "both sides the gain is smaller, since the smaller pool alone helps."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCase:
    """Ours under one choice of what was not published."""

    settings: str
    comparison: Comparison

    @property
    def difference(self) -> float | None:
        """Ours against the published gain, as a share of it."""
        gain = self.comparison.gain
        return None if gain is None else gain / HISPARSE.gain - 1


def is_published(question: OffloadQuestion) -> bool:
    """Whether the question is that of the published run, as far as it is known."""
    step = question.step.question
    sizing = question.capacity.layout.sizing
    return (
        (step.model, step.chip, step.count) == (HISPARSE.model, HISPARSE.chip, HISPARSE.count)
        and (question.prompt_tokens, question.output_tokens)
        == (HISPARSE.prompt_tokens, HISPARSE.output_tokens)
        and isinstance(sizing, WindowSizing)
        and sizing.window_ratio is not None
    )


def published_cases(timer: DecodeTimer, question: OffloadQuestion) -> tuple[PublishedCase, ...]:
    """Ours under several settings, with the question's overlap, layout and precision."""
    default, run, enough = DEFAULT_RATIO, RUN_RATIO, ENOUGH_RATIO
    settings: tuple[tuple[str, _Settings], ...] = (
        (f"{default:g} on both sides (default)", _Settings(default)),
        (f"{run:g} (as published), {default:g} without", _Settings(default, run)),
        (
            "the same, host_to_device_ratio 10",
            _Settings(default, run, host_ratio=10),
        ),
        (f"{enough:g}, {default:g} without", _Settings(default, enough)),
        (
            f"the same, {MANY_REQUESTS} running requests",
            _Settings(default, enough, max_requests=MANY_REQUESTS),
        ),
        (f"{enough:g} on both sides", _Settings(enough)),
    )
    return tuple(
        PublishedCase(settings=words, comparison=compare(timer, _with(question, given)))
        for words, given in settings
    )


@dataclass(frozen=True, slots=True)
class _Settings:
    """Window slots a token, and with the offload if they differ; SGLang's other two sizes."""

    both: float
    offload: float | None = None
    host_ratio: int | None = None
    max_requests: int | None = None


def _with(question: OffloadQuestion, given: _Settings) -> OffloadQuestion:
    capacity = with_window_ratio(question.capacity, given.both)
    if given.max_requests is not None:
        sizing = capacity.layout.sizing.model_copy(update={"max_requests": given.max_requests})
        layout = capacity.layout.model_copy(update={"sizing": sizing})
        capacity = capacity.changed(layout=layout)
    return replace(
        question,
        capacity=capacity,
        offload_window_ratio=given.offload,
        host_ratio=given.host_ratio,
    )
