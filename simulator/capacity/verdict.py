"""A plain verdict on a capacity: fits, does not fit and by how much, or unsupported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError
from simulator.basis.whole import ceil_div
from simulator.capacity.capacity import Capacity, capacity_of
from simulator.capacity.capacity_question import USUAL_STEP_TOKENS, CapacityQuestion
from simulator.capacity.flips import Flip, flips
from simulator.capacity.rank_memory import cuts_weights
from simulator.engine.sizing_rules import WindowSizing
from workloads.parallel import ParallelLayout

LARGEST_STEP_UP = 32
USUAL_MEMORY_SHARE = 0.95  # the most that recipes of engines ask for (vLLM issue 51454)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change and what then fits; `option` is what to type, `effort` orders them by size.

    `more_chips`: it takes hardware, where the others are settings.
    """

    option: str
    about: str
    effort: int
    more_chips: bool
    chips: int
    requests: float
    is_enough: bool


def changes(capacity: Capacity) -> tuple[Change, ...]:
    """Single changes that raise the number of requests: settings first, the most helpful first.

    Of the numbers of chips only the fewest that fits (or that helps) is kept.
    """
    found = []
    for effort, (option, about, question) in enumerate(_variants(capacity.question)):
        try:
            if not cuts_weights(question):
                continue
            other = capacity_of(question)
        except InputError:
            continue  # the engine or the model does not take it
        if other.requests > capacity.requests * 1.001:
            found.append(
                Change(
                    option=option,
                    about=about,
                    effort=effort,
                    more_chips=question.chips > capacity.question.chips,
                    chips=question.chips,
                    requests=other.requests,
                    is_enough=other.is_enough,
                )
            )
    settings = sorted((c for c in found if not c.more_chips), key=lambda c: -c.requests)
    return (*settings, *_fewest_chips(found))


def _fewest_chips(found: list[Change]) -> list[Change]:
    """Of the changes that take more chips, the best one of the fewest that fits (or helps)."""
    chips = [c for c in found if c.more_chips]
    chips = [c for c in chips if c.is_enough] or chips
    fewest = min((c.chips for c in chips), default=0)
    return sorted((c for c in chips if c.chips == fewest), key=lambda c: -c.requests)[:1]


def smallest_change(capacity: Capacity, found: tuple[Change, ...]) -> Change | None:
    """The first change, in order of what it asks of a deployment, after which it fits."""
    enough = [change for change in found if change.is_enough]
    return min(enough, key=lambda change: change.effort, default=None)


def largest_context(capacity: Capacity) -> int:
    """Longest single context of which the requests asked for would fit; 0 if none does."""

    def holds(tokens: int) -> bool:
        part = replace(capacity.question.contexts[0], context_tokens=tokens, share=1.0)
        return capacity_of(replace(capacity.question, contexts=(part,))).is_enough

    low, high = 0, capacity.question.longest_context
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _variants(question: CapacityQuestion) -> Iterator[tuple[str, str, CapacityQuestion]]:
    """(option, what it means, question) from the least to the most that is asked for."""
    makers: tuple[Callable[[CapacityQuestion], Iterator[tuple[str, str, CapacityQuestion]]], ...]
    makers = (_formats, _settings, _layouts, _chips)
    for maker in makers:
        yield from maker(question)


def _formats(question: CapacityQuestion) -> Iterator[tuple[str, str, CapacityQuestion]]:
    formats = question.layout.formats
    for index in formats.index:
        if index != question.formats.index:
            yield (
                f"--index-dtype {index}",
                f"index keys in {index}",
                question.changed(index=index),
            )
    for kv in formats.kv:
        if kv != question.formats.kv:
            yield f"--kv-dtype {kv}", f"cache rows in {kv}", question.changed(kv=kv)
    if question.formats.expert != "fp4" == question.config.expert_dtype:
        yield (
            "--expert-dtype fp4",
            "experts as in the checkpoint, dequantised in the kernel",
            question.changed(expert="fp4"),
        )


def _settings(question: CapacityQuestion) -> Iterator[tuple[str, str, CapacityQuestion]]:
    given = question.in_flight_tokens
    for tokens in sorted({given // 2, given // 4, given // 8, USUAL_STEP_TOKENS}, reverse=True):
        if 256 <= tokens < given:
            yield (
                f"--in-flight-tokens {tokens}",
                "smaller steps: less is reserved for tokens in flight",
                replace(
                    question,
                    in_flight_tokens=tokens,
                    follows_engine=False,
                    workspace_tokens=question.workspace_tokens * tokens // given,
                ),
            )
    if question.deployment.memory_share < USUAL_MEMORY_SHARE:
        yield (
            f"--memory-share {USUAL_MEMORY_SHARE:g}",
            "less left to the runtime",
            question.changed(memory_share=USUAL_MEMORY_SHARE),
        )
    if question.draft_tokens:
        plain = replace(question, draft_tokens=0, mtp=False)
        yield "--draft-tokens 0", "no speculative decoding", plain
    sizing = question.layout.sizing
    if isinstance(sizing, WindowSizing):
        replicas = question.parallel.data
        for what, changed in _window_settings(sizing, question.wanted_requests or 1, replicas):
            layout = question.layout.model_copy(update={"sizing": changed})
            yield what, "another division of memory", question.changed(layout=layout)


def _window_settings(
    sizing: WindowSizing, wanted: int, replicas: int
) -> Iterator[tuple[str, WindowSizing]]:
    if sizing.window_ratio is not None:
        for factor in (0.5, 0.1, 2.0):
            ratio = sizing.window_ratio * factor
            if ratio <= 1:
                changed = sizing.model_copy(update={"window_ratio": ratio})
                yield f"window_ratio {ratio:g} in the profile", changed
    for factor in (2, 0.25):
        most = int(sizing.max_requests * factor)
        if most * replicas >= wanted:
            changed = sizing.model_copy(update={"max_requests": most})
            yield f"--max-requests {most}", changed


def _layouts(question: CapacityQuestion) -> Iterator[tuple[str, str, CapacityQuestion]]:
    ranks = question.parallel.ranks
    for tensor in range(1, ranks + 1):
        if ranks % tensor or tensor == question.parallel.tensor:
            continue
        data = ranks // tensor
        parallel = ParallelLayout(tensor, data, ranks if data > 1 else question.parallel.expert)
        yield (
            _typed(question, parallel) + " --cp 1" * (question.deployment.context_parallel > 1),
            "the same chips: each replica has cache of its own",
            question.changed(parallel=parallel, context_parallel=1),
        )
    if question.parallel.expert != ranks and ranks > 1:
        parallel = replace(question.parallel, expert=ranks)
        yield f"--ep {ranks}", "experts over all chips", question.changed(parallel=parallel)


def _typed(question: CapacityQuestion, parallel: ParallelLayout) -> str:
    """Options of a layout, complete beside whatever was typed before."""
    experts = f" --ep {parallel.expert}" * (max(parallel.expert, question.parallel.expert) > 1)
    return f"--tp {parallel.tensor} --dp {parallel.data}{experts}"


def _chips(question: CapacityQuestion) -> Iterator[tuple[str, str, CapacityQuestion]]:
    now = question.parallel
    factor = 2
    while factor <= LARGEST_STEP_UP:
        ranks = now.ranks * factor
        expert = ranks if now.expert == now.ranks > 1 or now.data > 1 else now.expert
        wide = ParallelLayout(now.tensor * factor, now.data, expert)
        more = ParallelLayout(now.tensor, now.data * factor, ranks)
        for parallel in (wide, more):
            yield (
                f"--count {ranks * question.stages} {_typed(question, parallel)}",
                "more chips",
                question.changed(parallel=parallel),
            )
        factor *= 2


FITS, DOES_NOT_FIT, UNSUPPORTED = 0, 3, 4
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`exit_code` 0 fits, 3 does not, 4 unsupported; `found` are the changes that help.

    `flips`: the inputs on which it hangs, the nearest first.
    """

    exit_code: int
    sentence: str
    found: tuple[Change, ...] = ()
    flips: tuple[Flip, ...] = ()


def judge(capacity: Capacity, *, hangs_on: bool = False) -> Verdict:
    """Verdict on an answer, with what would free most, and where it turns if that is asked for."""
    plain = _judged(capacity)
    return replace(plain, flips=flips(capacity)) if hangs_on else plain


def _judged(capacity: Capacity) -> Verdict:
    found = changes(capacity)
    if capacity.is_enough:
        return Verdict(exit_code=FITS, sentence=_fits(capacity), found=found)
    return Verdict(exit_code=DOES_NOT_FIT, sentence=_does_not_fit(capacity, found), found=found)


def mix_text(capacity: Capacity) -> str:
    """The contexts in words."""
    parts = capacity.question.contexts
    if len(parts) == 1:
        return f"of {parts[0].context_tokens:,} tokens"
    return "of " + ", ".join(f"{p.context_tokens:,} tokens ({p.share:.0%})" for p in parts)


def _fits(capacity: Capacity) -> str:
    wanted = capacity.question.wanted_requests
    asked = f"{wanted:,} wanted, " if wanted else ""
    return (
        f"fits: {asked}{capacity.requests:,.2f} requests {mix_text(capacity)} run at once"
        f"{_whole(capacity)}; {_binds(capacity)}"
    )


def _whole(capacity: Capacity) -> str:
    """What the sum over replicas hides: each of them runs whole requests."""
    replicas = capacity.question.parallel.data
    if replicas == 1 or not capacity.requests:
        return ""
    return (
        f" ({capacity.requests / replicas:,.2f} a replica: {capacity.whole_requests:,} whole ones)"
    )


def _binds(capacity: Capacity) -> str:
    name = capacity.binding.name
    return f"{name} {'bind' if name.endswith('s') else 'binds'}"


def short_bytes(capacity: Capacity) -> int:
    """Bytes of cache that one chip lacks for the requests asked for; 0 where bytes do not bind."""
    if capacity.budget_bytes < 0:
        return -capacity.budget_bytes
    each = ceil_div(capacity.wanted, capacity.question.parallel.data)
    pairs = zip(capacity.question.contexts, capacity.fits, strict=True)
    needed = sum(part.share * fit.request_bytes for part, fit in pairs) * each
    longest = max(fit.request_bytes for fit in capacity.fits)
    held = max(round(needed), longest) + capacity.fits[0].reserved_bytes
    return max(0, held - capacity.budget_bytes)


def _does_not_fit(capacity: Capacity, found: tuple[Change, ...]) -> str:
    short = short_bytes(capacity) / GIB
    question = capacity.question
    by_bytes = f", {short:,.2f} GiB a chip short" if short else ""
    if capacity.budget_bytes < 0:
        taken = "a chip's memory"
        if question.deployment.memory_share < 1:
            taken = (
                f"the {question.pool_bytes_allowed / GIB:,.2f} GiB of a chip that the engine takes"
            )
        head = f"weights and workspace alone exceed {taken} by {short:,.2f} GiB"
    elif capacity.too_long and len(capacity.fits) > 1:
        longest = max(capacity.too_long)
        head = (
            f"of the mix, a request of {longest:,} tokens does not fit even alone{by_bytes}; "
            f"{_binds(capacity)}"
        )
    else:
        head = (
            f"{capacity.wanted:,} request{'s' * (capacity.wanted > 1)} {mix_text(capacity)} "
            f"wanted, {capacity.requests:,.2f} run at once{_whole(capacity)}{by_bytes}; "
            f"{_binds(capacity)}"
        )
    return f"does not fit: {head}; {_way_out(capacity, found)}"


def _way_out(capacity: Capacity, found: tuple[Change, ...]) -> str:
    ways = []
    change = smallest_change(capacity, found)
    if change is not None:
        ways.append(f"{change.option} ({change.requests:,.2f} requests)")
    if capacity.whole_requests:
        ways.append(f"--requests {capacity.whole_requests}")
    elif capacity.budget_bytes > 0 and (longest := largest_context(capacity)):
        ways.append(f"--context {longest}")
    if not ways:
        return "no single change makes it fit"
    return "smallest change that fits: " + ", or ".join(ways)
