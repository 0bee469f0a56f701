"""Reads what a user asks of C4 entries on the host into a checked question with its facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from simulator.basis.errors import InputError, UnsupportedError
from simulator.capacity.capacity_question import CapacityQuestion, ask_capacity
from simulator.cost.question import AskedStep, step_of_deployment
from simulator.engine.sizing_rules import BlockSizing, WindowSizing
from workloads.deepseek_v4.layer_kinds import layer_attention

MOVED_ROW = "kv_fp8"
MOVED_LAYER = layer_attention(4)
MOST_ENTRIES = 2**20
STEP_TOKENS = 256
"""Most tokens of a decode step that workspace is set aside for: SGLang's default of requests."""
BUFFER_OF_TOP_K = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadQuestion:
    """A decode deployment, its requests, its buffer, and how its picks move from step to step.

    A request takes in `prompt_tokens` and decodes `output_tokens`. `buffer_entries` a request and
    C4 layer. Of a query's picks, `overlap` are those of the query before; of the others, the share
    `returns` were left within the last `return_entries` entries left, the rest come from anywhere.
    `gather_share`: useful share of the host link's bandwidth, or None to derive it.
    `host_bytes`: host memory that C4 entries may take, or None for no limit.
    `host_ratio`: device entries are one in so many, of which buffers are taken (SGLang), or None
    for memory for the buffers alone. `offload_window_ratio`: window slots against full tokens with
    the offload, None: as without.
    """

    capacity: CapacityQuestion
    step: AskedStep
    prompt_tokens: int
    output_tokens: int
    buffer_entries: int
    overlap: float
    returns: float
    return_entries: int
    gather_share: float | None
    host_bytes: int | None
    offload_window_ratio: float | None
    host_ratio: int | None

    @property
    def top_k(self) -> int:
        """Entries that a query picks at most."""
        return self.capacity.config.index_topk

    @property
    def c4_layers(self) -> int:
        """Layers whose entries move."""
        return self.capacity.config.layers.count(MOVED_LAYER)

    @property
    def last_context(self) -> int:
        """Tokens of a request at its end, for which it is given room."""
        return self.prompt_tokens + self.output_tokens

    @property
    def mean_context(self) -> int:
        """Tokens of a request halfway through its output, at which a step is timed."""
        return self.prompt_tokens + self.output_tokens // 2

    def at(self, prompt_tokens: int, output_tokens: int) -> OffloadQuestion:
        """The same question for requests of other lengths."""
        return replace(self, prompt_tokens=prompt_tokens, output_tokens=output_tokens)


def ask_offload(
    *,
    prompt_tokens: int = 200_000,
    output_tokens: int = 20_000,
    buffer_entries: int | None = None,
    overlap: float = 0.95,
    returns: float = 0.0,
    return_entries: int | None = None,
    fidelity: str = "tile",
    gather_share: float | None = None,
    host_gigabytes: float | None = None,
    window_ratio: float | None = None,
    offload_window_ratio: float | None = None,
    host_ratio: int | None = None,
    **deployment: Any,
) -> OffloadQuestion:
    """Check and complete a question; every fault is one sentence.

    `deployment` as of `ask_deployment`.
    """
    for what, tokens in (("prompt", prompt_tokens), ("output", output_tokens)):
        if tokens < 1:
            raise InputError(
                f"{what} is {tokens:,} tokens, expected at least 1 ({1 - tokens} more)"
            )
    if fidelity == "cycle":
        raise InputError(
            "fidelity cycle simulates every memory access, and about a hundred steps are timed "
            "here; use --fidelity tile or roofline, and v4sim step for one step by cycle"
        )
    capacity = ask_capacity(
        **deployment,
        contexts=str(prompt_tokens + output_tokens),
        in_flight_tokens=STEP_TOKENS,
    )
    if window_ratio is not None:
        capacity = with_window_ratio(capacity, window_ratio)
    if offload_window_ratio is not None:
        with_window_ratio(capacity, offload_window_ratio)
    _check_engine(capacity)
    context = prompt_tokens + output_tokens
    own = capacity.deployment
    step = step_of_deployment(own, "decode", own.parallel.data, context, 1, fidelity)
    buffer = _buffer(buffer_entries, capacity.config.index_topk)
    return OffloadQuestion(
        capacity=capacity,
        step=step,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        buffer_entries=buffer,
        overlap=_share("overlap", overlap),
        returns=_share("returns", returns),
        return_entries=capacity.config.index_topk
        if return_entries is None
        else _entries("return-entries", return_entries, 1),
        gather_share=None if gather_share is None else _positive_share(gather_share),
        host_bytes=None if host_gigabytes is None else _gigabytes(host_gigabytes),
        offload_window_ratio=offload_window_ratio,
        host_ratio=None if host_ratio is None else _ratio(host_ratio),
    )


def with_window_ratio(question: CapacityQuestion, ratio: float) -> CapacityQuestion:
    """The question with another number of window slots a full token."""
    sizing = question.layout.sizing
    if not isinstance(sizing, WindowSizing) or sizing.window_ratio is None:
        raise InputError(
            f"a window ratio of {ratio:g} is given, but {question.engine} does not size its window "
            "by a ratio; leave it out or use --engine sglang-0.5"
        )
    if not 0 < ratio <= 1:
        raise InputError(
            f"window ratio is {ratio:g}, expected more than 0 and at most 1; the engine's own is "
            f"{sizing.window_ratio:g}"
        )
    layout = question.layout.model_copy(
        update={"sizing": sizing.model_copy(update={"window_ratio": ratio})}
    )
    return question.changed(layout=layout)


def _check_engine(question: CapacityQuestion) -> None:
    if MOVED_LAYER not in question.config.layers:
        raise UnsupportedError(
            f"{question.config.name} has no C4 layer among its "
            f"{question.config.num_hidden_layers}, so there is nothing to move to the host; "
            "nearest: v4-flash"
        )
    if isinstance(question.layout.sizing, BlockSizing):
        raise UnsupportedError(
            f"{question.engine} charges one block size to all pools and does not move C4 entries "
            "of V4 to the host (vLLM issue 53592); nearest: --engine sglang-0.5"
        )
    stored = question.layout.formats.row("kv", question.formats.kv)
    if stored != MOVED_ROW:
        raise UnsupportedError(
            f"{question.engine} stores cache rows as {stored}, but C4 entries are moved in rows of "
            f"{MOVED_ROW} (584 B) only (SGLang 0.5.23 HiSparse); nearest: --engine sglang-0.5"
        )


def _buffer(given: int | None, top_k: int) -> int:
    if given is None:
        return BUFFER_OF_TOP_K * top_k
    return _entries("buffer", given, top_k, f", the {top_k:,} picks of a query must be in it")


def _entries(what: str, value: int, least: int, why: str = "") -> int:
    if not least <= value <= MOST_ENTRIES:
        gap = f"{least - value:,} too few{why}" if value < least else "too many"
        raise InputError(
            f"{what} is {value:,} entries, expected {least:,} to {MOST_ENTRIES:,} ({gap})"
        )
    return value


def _share(what: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{what} is {value:g}, expected a share from 0 to 1, such as 0.95")
    return value


def _positive_share(value: float) -> float:
    if not 0 < value <= 1:
        raise InputError(
            f"gather-share is {value:g}, expected more than 0 and at most 1: the useful share of "
            "the host link's bandwidth"
        )
    return value


def _ratio(value: int) -> int:
    if not 1 <= value <= 1024:
        raise InputError(
            f"host-ratio is {value:,}, expected 1 to 1,024 host entries an entry on the device"
        )
    return value


def _gigabytes(value: float) -> int:
    if not (isfinite(value) and 1e-3 <= value <= 1e9):
        raise InputError(f"host-gb is {value:g}, expected 0.001 to 1e9 (GB of host memory)")
    return round(value * 1e9)


def read_lengths(text: str) -> tuple[int, ...]:
    """Lengths in tokens, separated by commas; none in an empty text, one given twice once."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if not (word.isascii() and word.isdigit()) or len(word) > 12:
            raise InputError(
                f"--contexts has {word!r}, expected whole numbers of tokens with commas between "
                "them, such as 8192,131072"
            )
        found.append(int(word))
    return tuple(dict.fromkeys(found))
