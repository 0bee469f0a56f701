"""Block ids of synthetic sessions: shared system prompts, contexts that grow, rewritten tails."""

from __future__ import annotations

from workloads.traffic.synth import SynthChain

Ranges = list[tuple[int, int]]


class IdSource:
    """Hands out fresh ids from `first` up."""

    def __init__(self, first: int) -> None:
        self.next = first

    def fresh(self, count: int) -> Ranges:
        """An inclusive range of `count` new ids; none for 0."""
        self.next += count
        return [(self.next - count, self.next - 1)] if count > 0 else []


def chain_ranges(
    chain: SynthChain, system: Ranges, source: IdSource, block_tokens: int
) -> list[Ranges]:
    """Ids of every request of a chain: `floor(input / block)` of them, as inclusive ranges.

    `system`: ids of the system prompt's whole blocks, which every context begins with.
    """
    held = list(system)
    blocks = kept = sum(last - first + 1 for first, last in system)
    requests = []
    for tokens, rewritten in zip(chain.input_tokens.tolist(), chain.rewrites.tolist(), strict=True):
        if rewritten and blocks > kept:
            first, last = held.pop()
            if last > first:
                held.append((first, last - 1))
            blocks -= 1
        wanted = tokens // block_tokens
        held = _joined(held, source.fresh(wanted - blocks))
        blocks = wanted
        requests.append(held)
        held = list(held)
    return requests


def _joined(held: Ranges, more: Ranges) -> Ranges:
    if held and more and held[-1][1] + 1 == more[0][0]:
        return [*held[:-1], (held[-1][0], more[0][1])]
    return [*held, *more]
