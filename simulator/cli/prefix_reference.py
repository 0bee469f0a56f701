"""`v4sim prefix compare --reference`: hits counted in file order, without tiers or time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.options import console, error_console, save_json

if TYPE_CHECKING:
    from reports.text_table import TextColumn
    from simulator.prefix.reference import ReferenceCounts
    from simulator.prefix.window_policy import WindowPolicy
    from workloads.traffic.trace import Trace

SCHEMA = "v4sim.prefix_reference/1"
# Whose layout says how many bytes windows and pages have.
_SIZES_OF = "ideal"


def count_reference(
    trace: Trace,
    policies: list[WindowPolicy],
    capacities: list[int],
    evictions: list[str],
    model: str,
    json: Path | None,
    granule: int | None = None,
    quotas: dict[str, float] | None = None,
) -> None:
    """Count, write, print."""
    from simulator.basis.assumptions import assumptions_of
    from simulator.engine.physical_layout import bind_layout
    from simulator.engine.profile import find_profile, layout_of
    from simulator.prefix.bounds import pfoo_hits
    from simulator.prefix.cached_bytes import cached_bytes
    from simulator.prefix.granularity import in_granules, rounding_note
    from simulator.prefix.known_prefix import marked_boundary
    from simulator.prefix.pool_bounds import pool_objects
    from simulator.prefix.reference import reference_counts
    from simulator.prefix.window_geometry import WindowGeometry
    from simulator.prefix.window_parts import Bounded
    from simulator.prefix.window_policy import engine_rules
    from workloads.deepseek_v4.config import find_model
    from workloads.traffic.transforms import live_sessions, recorded_starts

    config = find_model(model)
    geometry = WindowGeometry.of_model(config)
    layout = layout_of(find_profile(_SIZES_OF))
    passes = 1 + len(evictions) * bool(capacities)
    with error_console().status("counting hits") as status:

        def advance(done: int) -> None:
            if done % 4096 == 0:
                share = done / max(1, passes * len(trace))
                status.update(f"counting hits: {100 * share:.0f} % of {len(trace):,} requests")

        counts = reference_counts(
            trace,
            policies,
            geometry,
            capacities,
            evictions,
            advance,
            granule_tokens=granule,
            quotas=quotas,
            sizes=cached_bytes(bind_layout(layout, config)),
        )
    assumed: list[object] = [reference_counts, marked_boundary]
    if capacities:
        assumed += [pfoo_hits, pool_objects]
    if trace.order:
        assumed += [live_sessions, recorded_starts]
    if granule is not None:
        assumed.append(in_granules)
    if not all(policy.exact for policy in policies):
        assumed.append(Bounded)
    notes = [
        *trace.notes,
        rounding_note(trace.block_tokens, granule or 1),
        *(f"policy {p.name} is approximate" for p in policies if not p.exact),
        *engine_rules(policies),
    ]
    save_json(json, _as_json(counts, model, notes, assumptions_of(assumed)))
    _print(counts, model, notes)


def write_hit_curve(trace: Trace, granule: int | None, path: Path) -> None:
    """Hits of LRU pools of every size, from one pass: CSV, and SVG beside it."""
    from reports.hit_curve import write_curves
    from simulator.prefix.granularity import in_granules
    from simulator.prefix.known_prefix import run_lists
    from simulator.prefix.lru_distance import reuse_groups

    pooled = trace if granule is None else in_granules(trace, granule)
    with error_console().status("reuse distances"):
        groups = reuse_groups(run_lists(pooled), len(pooled))
        bends, hits = groups.curve(pooled.warm_up)
    block, inputs = pooled.block_tokens, int(trace.input_tokens[trace.warm_up :].sum())
    for file in write_curves(path, [(trace.name, bends * block, hits * block, inputs)]):
        console().print(f"wrote {file}", soft_wrap=True)


def _as_json(
    counts: ReferenceCounts, model: str, notes: list[str], assumptions: tuple[str, ...]
) -> dict[str, Any]:
    from dataclasses import asdict

    data: dict[str, Any] = {"schema": SCHEMA, "model": model, **asdict(counts)}
    for row in (*data["policies"], *data["capacities"]):
        for name in ("hit_tokens", "served_hit_tokens"):
            row[name.replace("tokens", "fraction")] = row[name] / max(1, counts.input_tokens)
    return {**data, "notes": notes, "assumptions": list(assumptions)}


def _print(counts: ReferenceCounts, model: str, notes: list[str]) -> None:
    from reports.text_table import print_table, wrapped

    width = console().width
    known = counts.known_blocks / max(1, counts.blocks)
    answer = (
        f"{counts.trace}: {counts.order}; {counts.requests:,} requests, "
        f"{counts.input_tokens:,} input tokens, "
        f"{counts.blocks:,} blocks of {counts.block_tokens} ({counts.distinct_blocks:,} distinct, "
        f"{100 * known:.2f} % seen before). {_what(counts)}"
    )
    console().print(wrapped(answer, width), style="bold")
    console().print(f"\nWindow policies, unlimited capacity, {model}", style="bold")
    print_table(console(), _policy_columns(counts))
    if counts.capacities:
        console().print("\nOne shared pool of bounded size, windows left aside", style="bold")
        print_table(console(), _capacity_columns(counts))
        console().print("\nBounds of that pool, whatever leaves first", style="bold")
        print_table(console(), _bound_columns(counts))
        console().print(
            "\nBounds of a pool of pages and windows, of the bytes that requests use", style="bold"
        )
        print_table(console(), _window_bound_columns(counts))
    for note in notes:
        console().print(wrapped(note, width), style="dim")


def _what(counts: ReferenceCounts) -> str:
    """What is a hit."""
    if counts.granule_tokens is None:
        return (
            "Hits are shares of all input tokens, counted over whole prompts; served ones leave "
            "the last token of each to be computed."
        )
    return (
        f"Hits are shares of all input tokens, whole granules of {counts.granule_tokens:,} tokens "
        "of served prompts, which compute their last token; pools count known granules to the end."
    )


def _policy_columns(counts: ReferenceCounts) -> list[TextColumn]:
    from reports.text_table import TextColumn

    rows = counts.policies
    hit = [_percent(row.hit_tokens, counts) for row in rows]
    served = [_percent(row.served_hit_tokens, counts) for row in rows]
    lost = [f"{row.window_lost_tokens:,}" for row in rows]
    replayed = [f"{row.replayed_requests:,}" for row in rows]
    kind = ["exact" if row.exact else "approximate" for row in rows]
    return [
        TextColumn(heading="policy", cells=[row.policy for row in rows], left=True),
        TextColumn(heading="hit", cells=hit),
        TextColumn(heading="served", cells=served, rank=1),
        TextColumn(heading="known tokens\nlost to windows", cells=lost, rank=3),
        TextColumn(heading="requests\nreplayed", cells=replayed, rank=4),
        TextColumn(heading="result", cells=kind, left=True, rank=2),
    ]


def _capacity_columns(counts: ReferenceCounts) -> list[TextColumn]:
    from reports.text_table import TextColumn

    rows = counts.capacities
    served = [_percent(row.served_hit_tokens, counts) for row in rows]
    return [
        TextColumn(heading="eviction", cells=[row.eviction for row in rows], left=True),
        TextColumn(heading="tokens", cells=[f"{row.capacity_tokens:,}" for row in rows]),
        TextColumn(heading="hit", cells=[_percent(row.hit_tokens, counts) for row in rows]),
        TextColumn(heading="served", cells=served, rank=1),
        TextColumn(heading="peak blocks", cells=[f"{row.peak_blocks:,}" for row in rows], rank=2),
    ]


def _bound_columns(counts: ReferenceCounts) -> list[TextColumn]:
    """The best eviction of blocks, at least and at most."""
    from reports.text_table import TextColumn

    rows = counts.bounds
    lower = [_percent(row.lower_hit_tokens, counts) for row in rows]
    upper = [_percent(row.upper_hit_tokens, counts) for row in rows]
    gap = [_percent(row.gap_tokens, counts) for row in rows]
    return [
        TextColumn(heading="tokens", cells=[f"{row.capacity_tokens:,}" for row in rows]),
        TextColumn(heading="farthest next use\n(the best there is)", cells=lower),
        TextColumn(heading="at most\n(relaxed)", cells=upper),
        TextColumn(heading="gap", cells=gap),
    ]


def _window_bound_columns(counts: ReferenceCounts) -> list[TextColumn]:
    """The best eviction of pages and windows, at least and at most."""
    from reports.text_table import TextColumn

    rows = counts.window_bounds

    def share(name: str) -> list[str]:
        return [f"{100 * getattr(row, name) / max(1, row.used_bytes):.2f} %" for row in rows]

    return [
        TextColumn(heading="windows", cells=[row.policy for row in rows], left=True),
        TextColumn(heading="tokens", cells=[f"{row.capacity_tokens:,}" for row in rows]),
        TextColumn(
            heading="room GB", cells=[f"{row.capacity_bytes / 1e9:,.2f}" for row in rows], rank=1
        ),
        TextColumn(heading="farthest next use\ntimes bytes", cells=share("lower_bytes")),
        TextColumn(heading="at most\n(relaxed)", cells=share("upper_bytes")),
        TextColumn(heading="gap", cells=share("gap_bytes")),
    ]


def _percent(tokens: int, counts: ReferenceCounts) -> str:
    return f"{100 * tokens / max(1, counts.input_tokens):.2f} %"
