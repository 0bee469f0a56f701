"""How an engine forms batches and what its host does between steps: parts of a profile."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError
from simulator.engine.cited import Cited

Whole = Annotated[int, Field(gt=0, le=2**20)]
Micros = Annotated[float, Field(ge=0, le=1e7)]
# (up to and including, in steps of): sizes of one kind follow each other.
Ladder = Annotated[tuple[tuple[Whole, Whole], ...], Field(min_length=1)]


class GraphSizes(Cited):
    """Batch sizes, in requests, for which decode steps are captured: a batch is padded to the next.

    `plain` without, `drafted` with speculation: each a list of [up to, in steps of].
    """

    plain: Ladder
    drafted: Ladder

    @model_validator(mode="after")
    def _check_rising(self) -> Self:
        for name in ("plain", "drafted"):
            ends = [most for most, _ in getattr(self, name)]
            if ends != sorted(set(ends)):
                raise KeyFaultError((name,), f"{name} must list rising sizes, not {ends}")
        return self

    def padded(self, requests: int, drafted: bool) -> int:
        """Size of the graph that a batch runs in; above the largest, as it is."""
        sizes = _sizes(self.drafted if drafted else self.plain)
        place = bisect_left(sizes, requests)
        return sizes[place] if place < len(sizes) else requests


@lru_cache(maxsize=16)
def _sizes(ladder: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    found: list[int] = []
    for most, step in ladder:
        first = (found[-1] if found else 0) + step
        found += range(first // step * step, most + 1, step)
    return tuple(sorted(set(found)))


class Batching(Cited):
    """How data-parallel ranks step together, and what decode batches are padded to.

    `beside_prompts`: what ranks without a prompt do while another computes one: they decode in the
    same step (`decode`), or wait where drafts are verified (`wait_with_drafts`).
    `delayer_passes`: decode steps for which prompts wait until all ranks have one, where prompts
    are gathered (`scheduler.gathers_prompts`).
    """

    graph_sizes: GraphSizes | None = None
    beside_prompts: Literal["decode", "wait_with_drafts"]
    delayer_passes: Annotated[int, Field(ge=0, le=1000)] = 30


class HostSection(Cited):
    """Host time of an engine on an x86 host; a node's host factor multiplies all of it.

    A decode step is replayed from graphs while the host prepares the next one: it takes the longer
    of the two, and `gap_us` between steps (`draft_gap_us` with drafts: what the seams leave the
    chip idle). The host's work is `step_us`, `request_us` for each
    request and, with drafts, `draft_cycle_us` (draft, verify and extend are graphs of their own,
    with eager seams between them). Without `overlaps` it is added.

    Steps with prompts are launched kernel by kernel: they take at least `eager_kernel_us` for each
    kernel of the profile's list, and `prompt_us` before (and `prompt_request_us` a prompt).
    `prompts_in_graphs`: prompts are captured too, so that this does not count.

    `request_fixed_us` and `request_token_us`: HTTP, tokenizer and hand-over of a request by its
    prompt, before it is queued: in the first token of the client, not of the server.
    `ranks_us`: the exchange of batch sizes between data ranks, each step.
    """

    overlaps: bool = True
    step_us: Micros = 0.0
    request_us: Micros = 0.0
    draft_cycle_us: Micros = 0.0
    gap_us: Micros = 0.0
    draft_gap_us: Micros = 0.0
    prompts_in_graphs: bool = False
    eager_kernel_us: Micros = 0.0
    prompt_us: Micros = 0.0
    prompt_request_us: Micros = 0.0
    request_fixed_us: Micros = 0.0
    request_token_us: Micros = 0.0
    ranks_us: Micros = 0.0
