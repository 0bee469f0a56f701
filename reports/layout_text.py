"""A layout sweep as sentences and tables, for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from reports.layout_rows import attention_shares
from reports.memory_text import TextTable, percent
from simulator.layout.sweep import OWN, LayoutCost, LayoutPoint
from simulator.layout.sweep_request import AskedSweep

_NAMES = {
    "engine": "as the engine groups",
    "separate": "pools apart",
    "buckets": "buckets (vLLM 0.22)",
    "one-block": "one block (vLLM 0.33)",
}


@dataclass(frozen=True, slots=True)
class Cuts:
    """Points along each of the three choices, through the base."""

    own: LayoutCost
    pages: tuple[LayoutCost, ...]
    paddings: tuple[LayoutCost, ...]
    groupings: tuple[LayoutCost, ...]

    @property
    def granule(self) -> int:
        """Tokens of the smallest page in which every pool ends whole entries."""
        return lcm(*(pool.ratio for pool in self.own.pools))

    @property
    def granule_words(self) -> str:
        """The same as it comes about, such as lcm(4, 128)."""
        ratios = sorted({pool.ratio for pool in self.own.pools if pool.ratio > 1})
        return f"lcm({', '.join(map(str, ratios))})" if len(ratios) > 1 else str(self.granule)

    def page(self, tokens: int) -> LayoutCost | None:
        """The point of the page cut with a size."""
        return next((cost for cost in self.pages if cost.page_tokens == tokens), None)


def cuts_of(asked: AskedSweep, costs: Sequence[LayoutCost]) -> Cuts:
    """Points of the sweep that differ from its base in one choice only."""
    base, found = asked.base, {cost.point: cost for cost in costs}

    def along(*names: str) -> tuple[LayoutCost, ...]:
        return tuple(
            cost for point, cost in found.items() if point != OWN and _same(point, base, names)
        )

    return Cuts(found[OWN], along("page_tokens"), along("padding"), along("grouping"))


def _same(point: LayoutPoint, base: LayoutPoint, free: Sequence[str]) -> bool:
    return replace(point, **{name: getattr(base, name) for name in free}) == base


def grouping_name(name: str) -> str:
    """A grouping in words."""
    return _NAMES[name]


def layout_answer(asked: AskedSweep, cuts: Cuts) -> str:
    """What matters most, in a few sentences."""
    question = asked.question
    head = f"{question.groupings.config.name} as {asked.engine} stores it, on {question.chip.name}"
    least, most = cuts.page(cuts.granule), cuts.pages[-1]
    if asked.pool != "all" or least is None:
        first = cuts.pages[0]
        told = [
            _page_words(cost, asked) for cost in ([first, most] if most is not first else [most])
        ]
        return f"{head}: {'; '.join(told)}."
    words = [
        f"{head}: {cuts.granule} tokens, {cuts.granule_words}, are the smallest page in which "
        f"every pool ends whole entries. With them {_costs(least)}"
    ]
    if not same_pages(cuts.own, least):
        words.append(f"as it is, with pages of {_own_pages(cuts.own)}, {_costs(cuts.own)}")
    if most is not least:
        words.append(
            f"at {most.page_tokens:,} tokens a hit loses {_tokens(most.lost_tokens_uniform)} and "
            f"{percent(most.wasted_share)} of what a request holds is waste"
        )
    return "; ".join(words) + "."


def same_pages(one: LayoutCost, other: LayoutCost) -> bool:
    """Whether every pool has pages of the same tokens."""
    pages = [{cut.name: cut.page_tokens for cut in cost.pools} for cost in (one, other)]
    return pages[0] == pages[1]


def own_tokens(cuts: Cuts) -> int:
    """Tokens of the engine's own page: of the pool that is swept, or of all."""
    pool = cuts.pages[0].point.pool
    pages = {cut.name: cut.page_tokens for cut in cuts.own.pools}
    return pages.get(pool, cuts.own.page_tokens)


def _own_pages(own: LayoutCost) -> str:
    longer = [
        f", {cut.page_tokens:,} of {cut.name}"
        for cut in own.pools
        if cut.page_tokens > own.page_tokens
    ]
    return f"{own.page_tokens:,} tokens{''.join(longer)}"


def _costs(cost: LayoutCost) -> str:
    return (
        f"a hit loses {_tokens(cost.lost_tokens_uniform)}, padding is "
        f"{percent(cost.padding_share)}, {percent(cost.index_tiles.share)} of the index kernel's "
        f"tiles of {cost.index_tile_keys} keys are empty, reads get "
        f"{percent(cost.dram_efficiency)} of DRAM's peak"
    )


def _page_words(cost: LayoutCost, asked: AskedSweep) -> str:
    what = "pages" if asked.pool == "all" else f"{asked.pool} pages"
    return f"with {what} of {cost.page_tokens:,} tokens {_costs(cost)}"


def _tokens(number: float) -> str:
    return f"{number:,.1f} tokens"


def cut_table(asked: AskedSweep, cuts: Cuts) -> TextTable:
    """The engine's own choice, then pages, paddings and groupings one at a time."""
    base = asked.base
    rows = [(f"{asked.engine}, as it is", cuts.own)]
    rows += [(f"page {cost.page_tokens:,}{_mark(cost, cuts)}", cost) for cost in cuts.pages]
    rows += [(f"padding {cost.point.padding.name}", cost) for cost in cuts.paddings]
    rows += [(grouping_name(cost.point.grouping), cost) for cost in cuts.groupings]
    pool = "all pools" if asked.pool == "all" else f"the {asked.pool} pool"
    return TextTable(
        title="What a choice costs",
        note=f"Pages of {pool} at padding {base.padding.name}, {grouping_name(base.grouping)}; "
        f"paddings and groupings at pages of {base.page_tokens:,}. Waste: padding, part-filled "
        "pages and slack of blocks, of what a request of the mix holds. Reads, of the cache, are "
        "memory's time of one request in a decode step.",
        headings=(
            "choice", "padding\n%", "waste\n%", "hits\nround to", "lost\na hit", "DRAM\n%",
            "tiles\nempty %", "step\nms", "requests", "padding\nB/token", "reads\nus", "table\nB",
            "lost a hit\nof the mix", "index run\nB", "runs a\nlayer",
        ),
        rows=tuple((name, *_cells(cost)) for name, cost in rows),
    )  # fmt: skip


def _mark(cost: LayoutCost, cuts: Cuts) -> str:
    whole = cost.point.pool == "all" and cost.page_tokens == cuts.granule
    return (f" = {cuts.granule_words}" if whole else "") + (
        " (engine's)" if same_pages(cost, cuts.own) else ""
    )


def _cells(cost: LayoutCost) -> tuple[str, ...]:
    index = next((run for run in cost.runs if run.pool.endswith("_index")), None)
    return (
        f"{100 * cost.padding_share:.2f}",
        f"{100 * cost.wasted_share:.1f}",
        f"{cost.granule_tokens:,}",
        f"{cost.lost_tokens_uniform:,.1f}",
        f"{100 * cost.dram_efficiency:.1f}",
        f"{100 * cost.index_tiles.share:.1f}",
        "-" if cost.step_ps is None else f"{cost.step_ps * 1e-9:,.3f}",
        f"{cost.requests:,.1f}",
        f"{cost.padding_bytes_per_token:,.2f}",
        f"{cost.read_s * 1e6:,.2f}",
        f"{cost.table_bytes:,.0f}",
        f"{cost.lost_tokens_mix:,.1f}",
        f"{index.useful_bytes:,.0f}" if index else "-",
        f"{index.runs:,.1f}" if index else "-",
    )


def pool_table(name: str, cost: LayoutCost) -> TextTable:
    """Pages of every pool of one choice, and the runs that a decode step reads of them."""
    runs = {run.pool: run for run in cost.runs}
    rows = []
    for one in cost.pools:
        run = runs.get(one.name)
        reads = ("-",) * 4
        if run is not None:
            start = f"{run.start_bytes:,}"
            reads = (f"{run.runs:,.1f}", f"{run.useful_bytes:,.0f}", start, percent(run.efficiency))
        rows.append(
            (
                one.name.replace("_", " "),
                f"{one.page_rows:,} x {one.stride_bytes:,}",
                f"{one.page_bytes:,}",
                f"{100 * one.page_padding:.2f}",
                f"{one.padding_bytes_per_token:,.2f}" if one.lives == "context" else "-",
                *reads,
            )
        )
    return TextTable(
        title=f"Pools of {name}",
        note="Runs of one layer and request in a decode step, on average over the mix: their "
        "useful bytes, and the size of which their start is a multiple; states are read in rows.",
        headings=("pool", "rows x B", "page\nB", "padding\n%", "padding\nB/token", "runs", "run\nB",
                  "starts\nat", "DRAM"),
        rows=tuple(rows),
    )  # fmt: skip


def _in_flight(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"


def layout_notes(asked: AskedSweep, cuts: Cuts) -> list[str]:
    """What else to know, a sentence each."""
    question, step = asked.question, asked.step.question
    load = question.load
    shares = ", ".join(f"{name} {percent(s)}" for name, s in attention_shares(asked).items())
    notes = [
        f"Mix of {question.mix.requests:,} requests: {question.mix.text}; the step decodes a "
        f"token of each on {step.count} {question.chip.name} as {step.layout}.",
        f"Requests: of {load.context_tokens:,} tokens in {question.budget_bytes / 2**30:,.1f} GiB "
        f"of cache, {_in_flight(load.in_flight_tokens)} in flight; pools apart grow as they need, "
        "the engine's own rule may set more aside.",
        f"Attention kernel, whatever the pages: tiles of 64 entries stay empty by {shares}.",
    ]
    if question.groupings.kv != step.kv_dtype:
        notes.append(
            f"The step reads {step.kv_dtype} rows: it is not costed with {question.groupings.kv}."
        )
    slack = {name: share for name, share in cuts.own.slack_of_block.items() if share}
    if slack:
        told = ", ".join(f"{name} {percent(share)}" for name, share in slack.items())
        notes.append(f"Unused in {asked.engine}'s own blocks: {told}.")
    return [*notes, *(f"Left out: {sentence}." for sentence in asked.left_out)]
