"""`v4sim prefix compare`: ways to keep the cache of shared prefixes, on a trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import NOT_OF_A_NODE, OPTIONS, takes_deployment
from simulator.cli.options import JsonFile, command_line, console, error_console, save_json
from simulator.cli.prefix_reference import count_reference, write_hit_curve
from simulator.cli.traffic_options import asked_of, reading_of, takes_traffic, transforms_of

if TYPE_CHECKING:
    from simulator.prefix.comparison import CacheDeployment, PolicyRow
    from simulator.prefix.window_policy import WindowPolicy
    from simulator.prefix.window_shares import SharedRow
    from workloads.traffic.trace import Trace

SCHEMA = "v4sim.prefix_tiers/1"
# What the page sweeps, counted without tiers.
SWEEP_POLICIES = (
    "full,periodic:512,periodic:1024,periodic:2048,periodic:4096,periodic:8192,periodic:16384,"
    "periodic:32768,boundary,periodic:2048+boundary,periodic:4096+boundary,periodic:8192+boundary,"
    "zero,bounded:128"
)
SWEEP_TOKENS = tuple(step * 10**power for power in range(4, 11) for step in (1, 3))


# Options that mean nothing with --reference, and those that mean nothing without it.
_OF_TIERS = (
    *(name for name in OPTIONS if name not in ("model", *NOT_OF_A_NODE)),
    *("node", "tiers", "write", "page_eviction", "window_eviction", "state_eviction", "choose"),
    *("share_link", "share_writes", "drafts", "window_shares", "over_limit", "out"),
)
_OF_REFERENCE = ("capacity_tokens", "eviction", "granule", "quotas", "curve")


@takes_deployment(*NOT_OF_A_NODE, model="v4-flash")
@takes_traffic
def compare(
    deployment: Mapping[str, Any],
    traffic: Mapping[str, Any],
    context: typer.Context,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="Request trace, plain or gzip.")],
    policies: Annotated[
        str,
        typer.Option(
            help="Window policies: full, periodic:TOKENS, boundary, junction, zero, zero:trimmed, "
            "bounded:TOKENS, sglang, vllm:none, vllm:0, vllm:TOKENS, lmcache, hicache, "
            "hicache:tail, mooncake, mooncake:none, mooncake:TOKENS, engine (its own); + joins; "
            "hbm=A/dram=B keeps something else in every tier (others as the last), with semicolons "
            "between policies."
        ),
    ] = "full,periodic:512,boundary,periodic:4096+boundary,zero",
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Count hits in file order: no tiers, no service time."),
    ] = False,
    granule: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            help="With --reference: hits of whole granules, as an engine's, of served prompts "
            "[default: hits may end at any token].",
        ),
    ] = None,
    capacity_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Also one pool of so many tokens: 0.3M,1M (decimal: 0.5M = 500,000).",
        ),
    ] = None,
    eviction: Annotated[
        str,
        typer.Option(
            help="Of that pool: lru, fifo, cost, ttl:SECONDS, lfu:REQUESTS, gdsf, "
            "predict:SECONDS, sieve, s3fifo, arc; bounds: belady (the best for blocks of one "
            "size), pfoo (a relaxation that none passes).",
        ),
    ] = "lru",
    curve: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="With --reference: write hits of an LRU pool of any size, and an SVG beside it.",
        ),
    ] = None,
    quotas: Annotated[
        str | None,
        typer.Option(metavar="TENANT=PART,...", help="Of that pool, tenants of --columns tenant=."),
    ] = None,
    node: Annotated[str, typer.Option(help="Node that serves, or path to YAML.")] = "h200-x8",
    tiers: Annotated[
        str, typer.Option(help="Where prefixes are stored: a name, or path to YAML.")
    ] = "node",
    write: Annotated[
        str, typer.Option(help="To lower tiers: through, back, on-eviction or selective.")
    ] = "through",
    page_eviction: Annotated[
        str, typer.Option(help="Of compressed pages: lru, fifo, cost or ttl:SECONDS.")
    ] = "lru",
    window_eviction: Annotated[str, typer.Option(help="Of windows, likewise.")] = "lru",
    state_eviction: Annotated[
        str | None,
        typer.Option(
            help="Of the compressors' overlap rows in a pool of their own, likewise [default: they "
            "come and go with the windows]."
        ),
    ] = None,
    choose: Annotated[
        bool, typer.Option("--choose", help="Compute where loading would be slower.")
    ] = False,
    share_link: Annotated[
        bool, typer.Option("--share-link", help="Loads of requests wait for each other.")
    ] = False,
    share_writes: Annotated[
        bool, typer.Option("--share-writes", help="Loads from a tier wait for writes to it.")
    ] = False,
    window_shares: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Parts of every tier's room that windows have: shared (one room, LRU over both), "
            "0.1, several with commas, or best (a sweep) [default: as the tiers say].",
        ),
    ] = None,
    drafts: Annotated[
        bool, typer.Option("--drafts", help="The engine drafts tokens: its rule may shorten hits.")
    ] = False,
    spread_seed: Annotated[
        int | None, typer.Option(help="Spread arrivals within the step they were rounded to.")
    ] = None,
    over_limit: Annotated[
        str, typer.Option(help="refuse or drop prompts that the model does not take.")
    ] = "refuse",
    format: Annotated[
        str | None, typer.Option(help="Trace format [default: what the file shows].")
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a block id, where the trace does not say.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a trace that needs repair.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="On tiers: write page and JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Compare ways to keep the sliding windows of shared prefixes, on tiers of storage.

    With --reference, hits alone are counted, as in other replays of the same trace.

    Example: v4sim prefix compare --trace conversation.jsonl --node h200-x8
    --policies full,boundary,zero
    """
    from dataclasses import replace

    from simulator.prefix.comparison import deployment_for
    from simulator.prefix.reference import parse_quotas
    from simulator.prefix.token_sizes import parse_token_sizes
    from simulator.prefix.window_policy import parse_window_policies
    from simulator.prefix.window_shares import parse_shares
    from workloads.traffic.readers import read_trace

    unused = _check_options(context, reference)
    capacities = parse_token_sizes(capacity_tokens) if capacity_tokens is not None else []
    evictions = _evictions(eviction)
    parts = None if quotas is None else parse_quotas(quotas)
    shares = None if window_shares is None else parse_shares(window_shares)
    transforms_of(traffic)  # said before anything is read
    if granule is not None and granule < 1:
        raise InputError(f"a granule of {granule} tokens: give at least 1")
    stored = None
    if not reference:
        stored = deployment_for(
            **deployment,
            node=node,
            tiers=tiers,
            write=write,
            page_eviction=page_eviction,
            window_eviction=window_eviction,
            state_eviction=state_eviction,
            choose=choose,
            share_link=share_link,
            share_writes=share_writes,
            drafts=drafts,
        )
    own = None if stored is None else stored.layout.retention.policy
    chosen = parse_window_policies(policies, own)
    with error_console().status(f"reading {trace.name}"):
        read = read_trace(
            trace,
            format=format,
            strict=strict,
            block_tokens=block_tokens,
            spread_seed=spread_seed,
            over_limit=over_limit,
            **reading_of(traffic),
            max_input_tokens=None
            if stored is None
            else stored.asked.config.max_position_embeddings,
        )
    if not len(read):
        raise InputError(f"trace {read.name} has no request left to count: {'; '.join(read.notes)}")
    read = asked_of(read, traffic)
    if stored is None:
        read = replace(read, notes=(*read.notes, *unused))
        count_reference(
            read, chosen, capacities, evictions, deployment["model"], json, granule, parts
        )
        if curve is not None:
            write_hit_curve(read, granule, curve)
    else:
        _on_tiers(read, chosen, stored, out, json, shares)


def _check_options(context: typer.Context, reference: bool) -> list[str]:
    """Refuse what would be passed over in silence, or say so in a note."""
    given = [
        name
        for name in (*_OF_TIERS, *_OF_REFERENCE)
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if not reference:
        for name in _OF_REFERENCE:
            if name in given:
                raise InputError(
                    f"{_option(name)} belongs to --reference; sizes of tiers are in --tiers, their "
                    "evictions are --page-eviction and --window-eviction"
                )
        return []
    if "out" in given:
        raise InputError("--out writes the page of a comparison on tiers: leave out --reference")
    if "quotas" in given and "capacity_tokens" not in given:
        raise InputError("--quotas are parts of a pool: give --capacity-tokens as well")
    if "eviction" in given and "capacity_tokens" not in given:
        raise InputError(
            "--eviction says what leaves a pool of bounded size: give --capacity-tokens as well"
        )
    unused = [_option(name) for name in _OF_TIERS if name in given]
    return [f"not used with --reference: {', '.join(unused)}"] if unused else []


def _option(name: str) -> str:
    return "--set" if name == "edits" else "--" + name.replace("_", "-")


def _on_tiers(
    trace: Trace,
    policies: list[WindowPolicy],
    deployment: CacheDeployment,
    out: Path | None,
    json: Path | None,
    shares: tuple[float | None, ...] | None = None,
) -> None:
    """Replay, write, print."""
    from simulator.cost.engine_notes import priced_as
    from simulator.cost.memory import room_note
    from simulator.prefix.comparison import compare_policies, too_small
    from simulator.prefix.granularity import rounding_note
    from simulator.prefix.window_policy import engine_rules
    from simulator.prefix.window_shares import at_shares

    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make directory {out}: {error.strerror}") from error
    runs = len(policies) * len(trace) * len(shares or (0,))
    with error_console().status("replaying") as status:

        def advance(done: int) -> None:
            if done % 512 == 0:
                status.update(f"replaying: {done:,} of {runs:,} requests")

        swept = at_shares(trace, policies, deployment, shares, advance) if shares else []
        rows = (
            [one.best_row for one in swept]
            if swept
            else compare_policies(trace, policies, deployment, advance)
        )
        notes = [*trace.notes, rounding_note(trace.block_tokens, deployment.sizes.page_tokens)]
        if not all(policy.exact for policy in policies):
            notes.append("~ marks an approximate policy")
        notes += engine_rules(policies)
        notes += too_small(deployment, policies, trace.block_tokens)
        notes += [*priced_as(deployment.asked), *deployment.asked.config.notes]
        notes += [deployment.layout_note, deployment.loads_note, deployment.rules_note]
        room = room_note(deployment.asked)
        notes += [room] if room else []
        notes += _write_notes(rows)
        unpriced = [tier.name for tier in deployment.tiers[1:] if tier.price is None]
        if unpriced:
            notes.append(f"storage costs leave out {', '.join(unpriced)}, without a price")
        notes.append(deployment.price_text or f"no price of {deployment.asked.chip.name} is known")
        notes += _division(deployment, swept)
        data = _as_json(trace, deployment, rows, notes)
        if swept:
            data["window_shares"] = _shares_json(swept)
        written = []
        if out is not None:
            status.update("writing the page")
            written = _write(out, trace, deployment, rows, data)
        save_json(json, data)
    _print(trace, deployment, rows, notes, swept)
    for path in written:
        console().print(f"wrote {path}", soft_wrap=True)


def _division(deployment: CacheDeployment, swept: list[SharedRow]) -> list[str]:
    """How tiers divide their room between windows and pages, and what that decides."""
    from simulator.prefix.window_shares import ranking_text, share_text

    if swept:
        each = ", ".join(f"{one.policy} {share_text(one.shares[one.best])}" for one in swept)
        text = f"windows' part of every tier's room, at the best for each policy: {each}"
        return [text, ranking_text(swept)]
    parts = ", ".join(f"{t.name} {share_text(t.window_share)}" for t in deployment.tiers)
    return [
        f"windows' part of the room, as the tiers say: {parts}; it may decide the ranking: "
        "--window-shares shared,0.1,0.3,0.6 or best shows each policy at its best"
    ]


def _shares_json(swept: list[SharedRow]) -> dict[str, Any]:
    from simulator.prefix.window_shares import ranking_text, share_text

    return {
        "ranking": ranking_text(swept),
        "policies": [
            {
                "policy": one.policy,
                "best_share": share_text(one.shares[one.best]),
                "ttft_mean_p10_s": one.p10_s,
                "ttft_mean_p90_s": one.p90_s,
                "curve": [
                    {
                        "share": share_text(share),
                        "ttft_mean_s": row.ttft_mean_s,
                        "hit_fraction": row.hit_fraction,
                    }
                    for share, row in zip(one.shares, one.rows, strict=True)
                ],
            }
            for one in swept
        ],
    }


def _write_notes(rows: list[PolicyRow]) -> list[str]:
    """A sentence for every tier whose writes do not keep up."""
    return [
        f"{row.totals.policy}: writes to {tier.name} take {100 * row.write_share[tier.name]:,.1f} "
        f"% of the run and fall up to {tier.write_behind_s:,.1f} s behind: they do not keep up"
        for row in rows
        for tier in row.totals.tiers
        if row.write_share[tier.name] > 1
    ]


def _as_json(
    trace: Trace, deployment: CacheDeployment, rows: list[PolicyRow], notes: list[str]
) -> dict[str, Any]:
    from dataclasses import asdict

    from reports.prefix_table import comparison_json
    from simulator.basis.assumptions import assumptions_of
    from simulator.prefix.array_cache import ArrayCache
    from simulator.prefix.cached_bytes import cached_bytes
    from simulator.prefix.comparison import compare_policies
    from simulator.prefix.hit import HitRule
    from simulator.prefix.prefill_clock import PrefillClock
    from simulator.prefix.replay import Replay
    from simulator.prefix.restore_time import RestoreTimer
    from simulator.prefix.tier import Tier
    from simulator.prefix.tiered_cache import TieredCache
    from simulator.prefix.window_parts import Boundary

    question = deployment.asked.question
    assumed = [
        *(Replay, TieredCache, ArrayCache, Boundary, RestoreTimer, HitRule, compare_policies),
        *(PrefillClock, cached_bytes, Tier.usd_per_hour),
    ]
    return {
        "schema": SCHEMA,
        "trace": trace.name,
        "model": question.model,
        "chip": question.chip,
        "chips": question.count,
        "tensor_parallel": question.layout.tensor,
        "data_parallel": question.layout.data,
        "expert_parallel": question.layout.expert,
        "engine": question.engine,
        "write": deployment.write.name,
        "page_eviction": deployment.page_eviction,
        "window_eviction": deployment.window_eviction,
        "state_eviction": deployment.state_eviction,
        "choose": deployment.choose,
        "share_link": deployment.share_link,
        "share_writes": deployment.share_writes,
        "drafts": deployment.drafts,
        "layer_by_layer": deployment.layer_by_layer,
        "tiers": [tier.model_dump(mode="json") for tier in deployment.tiers],
        "sizes": asdict(deployment.sizes),
        "policies": comparison_json(rows),
        "notes": notes,
        "assumptions": list(assumptions_of(assumed)),
    }


def _write(
    out: Path,
    trace: Trace,
    deployment: CacheDeployment,
    rows: list[PolicyRow],
    data: dict[str, Any],
) -> list[Path]:
    """JSON first, then the page that links to it; the sweeps of its figures go into `data`."""
    from dataclasses import asdict

    from reports.prefix_page import ComparisonPage, write_comparison_page
    from simulator.prefix.reference import reference_counts
    from simulator.prefix.window_geometry import WindowGeometry
    from simulator.prefix.window_policy import parse_window_policies

    tokens = int(trace.input_tokens.sum())
    sizes = [size for size in SWEEP_TOKENS if trace.block_tokens <= size <= 10 * tokens]
    counts = reference_counts(
        trace,
        parse_window_policies(SWEEP_POLICIES),
        WindowGeometry.of_model(deployment.asked.config),
        sizes,
        ("lru", "belady"),
        count_windows=True,
    )
    data["sweep_unlimited"] = [asdict(one) for one in counts.policies]
    data["sweep_capacity"] = [asdict(one) for one in counts.capacities]
    files = {"All figures (JSON)": out / "prefix.json"}
    save_json(files["All figures (JSON)"], data)
    page = out / "prefix.html"
    figures = write_comparison_page(
        page,
        ComparisonPage(
            title=trace.name,
            machine=_machine(deployment),
            rows=rows,
            reference=counts,
            sizes=deployment.sizes,
            notes=data["notes"],
            assumptions=data["assumptions"],
            files=files,
            command=command_line(),
            data=data,
        ),
    )
    return [*files.values(), *figures, page]


def _print(
    trace: Trace,
    deployment: CacheDeployment,
    rows: list[PolicyRow],
    notes: list[str],
    swept: list[SharedRow],
) -> None:
    from reports.prefix_table import comparison_answer, hit_columns, share_columns, tier_columns
    from reports.text_table import left_out, text_table, wrapped

    width = console().width
    console().print(wrapped(comparison_answer(rows, trace.name), width), style="bold")
    shared = [("Mean first token (s) by the windows' part of the room", share_columns(swept))]
    if swept:
        from simulator.prefix.window_shares import pareto_front, ranking_text

        front = ", ".join(row.totals.policy for row in pareto_front(rows))
        console().print(wrapped(f"By room: {ranking_text(swept)}", width))
        console().print(
            wrapped(f"Beaten by none in first tokens, bytes and money at once: {front}.", width)
        )
    for title, columns in (
        *(shared if swept else []),
        (f"Hits and first tokens, {_machine(deployment)}", hit_columns(rows)),
        ("Storage", tier_columns(rows)),
    ):
        console().print(f"\n{title}", style="bold")
        console().print(text_table(columns, width))
        missing = left_out(columns, width)
        if missing:
            console().print(wrapped(missing, width), style="dim")
    for note in notes:
        console().print(wrapped(note, width), style="dim")


def _machine(deployment: CacheDeployment) -> str:
    from simulator.engine.default_engine import engine_text

    question = deployment.asked.question
    return f"{question.model} on {question.count} {question.chip}, {engine_text(question.engine)}"


def _evictions(text: str) -> list[str]:
    """Names of eviction policies, each of them known."""
    from simulator.prefix.reference import eviction_name

    names = [eviction_name(word) for word in text.split(",") if word.strip()]
    if not names:
        raise InputError("no eviction policy given: write lru, fifo, arc, belady or another")
    return list(dict.fromkeys(names))
