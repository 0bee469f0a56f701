"""`v4sim prefix prove`: exact window policies run against the uncached run, through a real disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from reports.prefix_proof_text import ProofTable
    from simulator.prefix.window_policy import WindowPolicy
    from simulator.prove.proof import ModelProof
    from workloads.deepseek_v4.config import ModelConfig


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
    from rich.progress import Progress

    from simulator.prove.proof import Prover, default_policies, plan_lengths, steps_of

    plans = [
        (config, plan_lengths(config, cuts), policies or default_policies(config))
        for config in models
    ]
    total = sum(steps_of(lengths, len(chosen)) for _, lengths, chosen in plans)
    proofs = []
    with Progress(console=error_console(), transient=True) as progress:
        task = progress.add_task("proving", total=total)
        for config, lengths, chosen in plans:
            prover = Prover(config, blocks, lengths, seed)

            def advance(what: str, name: str = config.name) -> None:
                progress.update(task, advance=1, description=f"{name}: {what}")

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
