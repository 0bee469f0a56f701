"""Published serving figures that are counted rather than served, by the name of their row."""

from __future__ import annotations

from collections.abc import Callable

from simulator.claims.figures import decode_graph
from workloads.run_stats import RunStats
from workloads.state_layout import Tail


def index_share(context: int) -> dict[str, float]:
    """Share of index keys in the cache bytes that a decode step of Flash reads, FP8 keys, in %."""
    graph, stats = decode_graph("v4-flash", context, "fp8"), RunStats()
    index = total = 0.0
    for node in graph.nodes:
        for read in graph.work(node, stats).reads:
            region = graph.regions[node.regions[read.region]]
            if isinstance(region.growth, Tail):
                continue
            nbytes = read.distinct * region.format.nbytes
            total += nbytes
            index += nbytes if region.kind == "csa_index" else 0.0
    return {"index_share": 100 * index / total}


def hisparse_gain() -> dict[str, float]:
    """Throughput with C4 entries on the host over that without, as far as the run is known."""
    from simulator.offload.decode import DecodeTimer
    from simulator.offload.published import HISPARSE, published_cases
    from simulator.offload.question import ask_offload
    from simulator.offload.study import stated_misses

    question = ask_offload(
        model=HISPARSE.model,
        chip=HISPARSE.chip,
        count=HISPARSE.count,
        prompt_tokens=HISPARSE.prompt_tokens,
        output_tokens=HISPARSE.output_tokens,
    )
    cases = published_cases(DecodeTimer(question, stated_misses(question)), question)
    known = next(case for case in cases if "as published" in case.settings)
    return {"tokens_gain": known.comparison.gain or 0.0}


COMPUTED: dict[str, Callable[[], dict[str, float]]] = {
    "index-share-32k": lambda: index_share(32 * 1024),
    "index-share-128k": lambda: index_share(128 * 1024),
    "hisparse": hisparse_gain,
}
