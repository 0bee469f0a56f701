"""`v4sim prefix`: prefix caching of the heterogeneous cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import NOT_OF_A_NODE, takes_deployment
from simulator.cli.options import JsonFile, console, error_console, save_json
from simulator.cli.prefix_compare import compare
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from reports.prefix_proof_text import ProofTable
    from reports.text_table import TextColumn
    from simulator.prefix.comparison import CacheDeployment
    from simulator.prefix.crossover import Crossover
    from simulator.prefix.window_policy import WindowPolicy
    from simulator.prove.proof import ModelProof
    from workloads.deepseek_v4.config import ModelConfig


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
            f"a prefix of {max(lengths):,} tokens (--prefixes) and {new_tokens:,} new ones "
            f"(--new-tokens) is not 1 to {longest:,} tokens, which "
            f"{stored.asked.question.model} takes"
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
    _print_proof(
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


def _print_proof(
    found: list[Crossover], deployment: CacheDeployment, machine: str, new_tokens: int
) -> None:
    from reports.text_table import print_table, wrapped
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
        print_table(console(), _columns(one))


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


def prove(
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="tiny, flash-like-8 (16, 32), pro-like-8 (16, 32), or YAML of sliding_window and "
            "compress_ratios; may be given again [default: the latter six]."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Window policies with commas, such as full,periodic:90+boundary,zero:trimmed "
            "[default: one of every kind]."
        ),
    ] = None,
    cut: Annotated[
        list[int] | None,
        typer.Option(help="Tokens of a prefix; may be given again [default: four lengths]."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights and tokens.", min=0)] = 7,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the block files here [default: removed again]."),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Prove window policies by running them on small models of random weights, in float64.

    A prefix is run, what the policy stores goes to disk, all pools are filled with NaN, the stored
    part is read back, new tokens follow by the policy's rule: every value must be finite and equal
    to the uncached run's to 1e-9. Searches for the smallest exact replay. Exit code 1 when a
    check fails.

    Example: v4sim prefix prove --model flash-like-16 --policy full,periodic:90,zero:trimmed
    """
    from reports.prefix_proof_rows import proofs_to_json
    from simulator.prefix.window_policy import parse_window_policies
    from simulator.prove.full_size import full_size_replays
    from simulator.prove.small_model import default_models, small_model

    models = [small_model(name) for name in model] if model else default_models()
    policies = None if policy is None else parse_window_policies(policy)
    with _blocks(folder) as blocks:
        proofs = _proofs(models, policies, cut or [], blocks, seed)
    replays = full_size_replays()
    save_json(json, proofs_to_json(proofs, replays))
    _print(proofs)
    if not all(proof.holds for proof in proofs):
        raise typer.Exit(1)


@contextmanager
def _blocks(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    try:
        with TemporaryDirectory(prefix="v4sim-blocks-") as made:
            yield Path(made)
    except FileNotFoundError as error:
        raise InputError(f"no folder for block files: {error}; give one as --folder") from None


def _proofs(
    models: Sequence[ModelConfig],
    policies: list[WindowPolicy] | None,
    cuts: Sequence[int],
    blocks: Path,
    seed: int,
) -> list[ModelProof]:
    """One proof a model, with progress over all of them."""
    from simulator.prove.proof import Prover, default_policies, plan_lengths, steps_of

    plans = [
        (config, plan_lengths(config, cuts), policies or default_policies(config))
        for config in models
    ]
    total = sum(steps_of(lengths, len(chosen)) for _, lengths, chosen in plans)
    proofs = []
    with progress("proving", total) as tick:
        for config, lengths, chosen in plans:
            prover = Prover(config, blocks, lengths, seed)

            def advance(what: str, name: str = config.name) -> None:
                tick(what=f"{name}: {what}")

            proofs.append(prover.prove(chosen, advance))
    return proofs


def _print(proofs: Sequence[ModelProof]) -> None:
    from reports.prefix_proof_text import (
        OVERLAP_NOTE,
        bounded_table,
        full_size_table,
        policy_table,
        proof_answer,
        search_table,
    )
    from reports.text_table import wrapped
    from simulator.basis.assumptions import assumptions_of
    from simulator.prefix.window_parts import Bounded
    from simulator.prove.full_size import full_size_replays
    from simulator.prove.replay_pass import WindowFrom

    width = console().width
    console().print(wrapped(proof_answer(proofs), width), style="bold")
    for proof in proofs:
        _print_table(policy_table(proof))
    console().print()
    console().print(wrapped(OVERLAP_NOTE, width), style="dim")
    _print_table(search_table(proofs))
    _print_table(bounded_table(proofs))
    _print_table(full_size_table(full_size_replays()))
    for sentence in assumptions_of([Bounded, WindowFrom]):
        console().print(wrapped(f"Assumes: {sentence}", width), style="dim")


def _print_table(table: ProofTable) -> None:
    from reports.text_table import left_out, text_table, wrapped

    width = console().width
    console().print(f"\n{table.title}", style="bold")
    for line in (table.note, left_out(table.columns, width)):
        if line:
            console().print(wrapped(line, width), style="dim")
    console().print(text_table(table.columns, width))


prefix = typer.Typer(
    help="Prefix caching: what to keep of a shared prefix, and what it is worth.",
    epilog="Example: v4sim prefix prove --model flash-like-16",
    no_args_is_help=True,
    rich_markup_mode=None,
)
prefix.command("prove")(prove)
prefix.command("compare")(compare)
prefix.command("crossover")(crossover)
