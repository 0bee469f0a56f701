"""`v4sim prefix crossover`: from which length on a stored prefix is worth loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import NOT_OF_A_NODE, takes_deployment
from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from reports.text_table import TextColumn
    from simulator.prefix.comparison import CacheDeployment
    from simulator.prefix.crossover import Crossover

SCHEMA = "v4sim.prefix_crossover/1"


@takes_deployment(*NOT_OF_A_NODE, model="v4-flash")
def crossover(
    deployment: Mapping[str, Any],
    policies: Annotated[str, typer.Option(help="Window policies, as in prefix compare.")] = (
        "full,boundary,zero:trimmed"
    ),
    prefixes: Annotated[
        str, typer.Option(metavar="LIST", help="Prefix lengths in tokens to print.")
    ] = "1024,8192,65536,262144",
    new_tokens: Annotated[int, typer.Option(help="Tokens after the prefix.")] = 128,
    node: Annotated[str, typer.Option(help="Node that serves, or path to YAML.")] = "h200-x8",
    tiers: Annotated[
        str, typer.Option(help="Where prefixes are stored: a name, or path to YAML.")
    ] = "node",
    json: JsonFile = None,
) -> None:
    """Compare loading a prefix from each tier with computing it, one request at a time.

    Example: v4sim prefix crossover --model v4-pro --node b200-x8
    """
    from simulator.engine.default_engine import engine_text
    from simulator.prefix.comparison import deployment_for, restore_setup
    from simulator.prefix.crossover import crossover as cross
    from simulator.prefix.token_sizes import parse_token_sizes
    from simulator.prefix.window_policy import parse_window_policies

    lengths = parse_token_sizes(prefixes, "prefix length")
    stored = deployment_for(**deployment, node=node, tiers=tiers)
    chosen = parse_window_policies(policies, stored.layout.retention.policy)
    longest = stored.asked.config.max_position_embeddings
    if new_tokens < 1 or max(lengths) + new_tokens > longest:
        raise InputError(
            f"a prefix of {max(lengths):,} tokens and {new_tokens:,} new ones is not 1 to "
            f"{longest:,} tokens, which {stored.asked.question.model} takes"
        )
    lower = stored.tiers[1:]
    if not lower:
        raise InputError("these tiers hold nothing but the device: add one below it to load from")
    found = []
    with error_console().status("timing prefixes"):
        timer, rules = restore_setup(stored)
        for policy in chosen:
            own = rules(policy)
            own.check()
            found += [cross(timer, own, tier, lengths, new_tokens) for tier in lower]
    save_json(json, _as_json(found, stored, node, new_tokens))
    _print(
        found,
        stored,
        f"{stored.asked.config.name} on {node}, {engine_text(stored.asked.question.engine)}",
        new_tokens,
    )


def _as_json(
    found: list[Crossover], deployment: CacheDeployment, node: str, new_tokens: int
) -> dict[str, Any]:
    from dataclasses import asdict

    from simulator.basis.assumptions import assumptions_of
    from simulator.prefix.crossover import crossover as cross
    from simulator.prefix.prefill_clock import PrefillClock
    from simulator.prefix.restore_time import RestoreTimer

    question = deployment.asked.question
    return {
        "schema": SCHEMA,
        "model": question.model,
        "node": node,
        "chip": question.chip,
        "engine": question.engine,
        "tensor_parallel": question.layout.tensor,
        "data_parallel": question.layout.data,
        "expert_parallel": question.layout.expert,
        "layer_by_layer": deployment.layer_by_layer,
        "new_tokens": new_tokens,
        "crossovers": [asdict(one) for one in found],
        "assumptions": list(assumptions_of([cross, RestoreTimer, PrefillClock])),
    }


def _print(
    found: list[Crossover], deployment: CacheDeployment, machine: str, new_tokens: int
) -> None:
    from reports.text_table import text_table, wrapped
    from simulator.cost.memory import room_note

    width = console().width
    answer = (
        f"{machine}: time to the first token of a stored prefix with {new_tokens:,} new tokens, "
        f"loaded from one tier against computed. {deployment.layout_note}; "
        f"{deployment.loads_note}."
    )
    console().print(wrapped(answer, width), style="bold")
    room = room_note(deployment.asked)
    if room:
        console().print(wrapped(f"Note: {room}.", width))
    for one in found:
        wins = (
            "never wins up to the longest"
            if one.wins_from is None
            else f"wins from {one.wins_from:,} tokens on"
        )
        console().print(f"\n{one.policy} from {one.tier}: loading {wins}", style="bold")
        console().print(text_table(_columns(one), width))


def _columns(one: Crossover) -> list[TextColumn]:
    from reports.text_table import TextColumn

    duels = one.duels
    ms = [
        ("load\nms", 0, [duel.plan.loading_ns for duel in duels]),
        ("of it\nlatency", 0, [duel.plan.latency_ns for duel in duels]),
        ("compute\nms", 1, [duel.plan.compute_ns for duel in duels]),
        ("of it\nreplay", 3, [duel.plan.replay_ns for duel in duels]),
        ("first\ntoken ms", 0, [duel.plan.ttft_ns for duel in duels]),
        ("without\ncache ms", 0, [duel.recompute_ns for duel in duels]),
    ]
    ratio = [duel.recompute_ns / max(1, duel.plan.ttft_ns) for duel in duels]
    loaded = [f"{duel.plan.load_bytes / 1e6:,.1f}" for duel in duels]
    objects = [f"{duel.plan.load_objects:,}" for duel in duels]
    hit = [f"{duel.plan.hit.loaded_tokens:,}" for duel in duels]
    return [
        TextColumn(heading="prefix", cells=[f"{duel.prefix_tokens:,}" for duel in duels]),
        TextColumn(heading="hit", cells=hit, rank=2),
        TextColumn(heading="load\nMB", cells=loaded),
        TextColumn(heading="objects", cells=objects, rank=0),
        *(
            TextColumn(heading=name, cells=[f"{ns / 1e6:,.1f}" for ns in values], rank=rank)
            for name, rank, values in ms
        ),
        TextColumn(heading="times\nfaster", cells=[f"{value:.2f}" for value in ratio]),
    ]
