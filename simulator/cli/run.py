"""`v4sim run`: execute a model in the formats that are costed: what they change, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import Engine
from simulator.cli.options import JsonFile, console, error_console, save_json, tokens_option

if TYPE_CHECKING:
    from simulator.evaluate.formats_run import FormatsResult, Prompt

_PARAMETERS = 50_000_000


def run(
    model: Annotated[
        str,
        typer.Option(help="tiny (the golden file's), or path to a small model's configuration."),
    ] = "tiny",
    quantised: Annotated[
        str,
        typer.Option(
            help="Parts and their formats: cache rows (fp8, mxfp4, nvfp4, bf16), fp4-index, "
            "fp4-experts, fp8-linear, fp8-activations; none for the run without any."
        ),
    ] = "fp8,fp4-index,fp4-experts",
    npz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Own model, weights and prompt: config, input_ids and w/NAME of a golden file.",
        ),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Run all parts together only, not every subset.")
    ] = False,
    block_scale: Annotated[
        float, typer.Option(help="Scales of quantised weights, times this (1: the smallest).")
    ] = 1.0,
    tokens: Annotated[
        int, typer.Option(help="Tokens of a made-up prompt, for models without a golden file.")
    ] = 300,
    seed: Annotated[int, typer.Option(help="Of made-up weights and prompt.")] = 7,
    chip: Annotated[str, typer.Option(help="Chip on which the formats are costed.")] = "b200",
    engine: Engine = None,
    batch: Annotated[int, typer.Option(help="Requests of the costed decode step.")] = 1,
    context: Annotated[
        int | None,
        tokens_option("--context", "Tokens of each of them", "those of the prompt"),
    ] = None,
    drafts: Annotated[
        int,
        typer.Option(
            help="Draft so many tokens a step with a DSpark head (a random one where the model has "
            "none), verify them, and compare with the run without."
        ),
    ] = 0,
    say: Annotated[int, typer.Option(help="With --drafts: tokens that are said.")] = 60,
    json: JsonFile = None,
) -> None:
    """Run a small model in quantised formats: logits, picks and experts against the exact run.

    Exit code 1 when a stored value is further from the true one than half a step of its format.

    Example: v4sim run --model tiny --quantised fp8,fp4-index,fp4-experts
    """
    from reports.text_table import left_out, text_table, wrapped
    from simulator.evaluate.formats_run import parse_formats, run_subsets

    if drafts:
        _speculate(drafts, say, model, npz, tokens, seed, engine, json)
        return
    formats = parse_formats(quantised, block_scale)
    prompt = prompt_of(model, npz, tokens, seed)
    with error_console().status("running"):
        found = run_subsets(prompt, formats)
        found = [found[0], found[-1]] if only else found
    rows = [_row(one, prompt, chip, engine, batch, context) for one in found]
    failed = sum(not row["holds"] for row in rows)
    save_json(json, {"model": prompt.config.name, "runs": rows, "failed": failed})
    width = console().width
    console().print(wrapped(_answer(prompt, rows[-1]), width), style="bold")
    columns = _columns(rows)
    console().print(text_table(columns, width))
    for line in (left_out(columns, width), *_notes(found[-1], chip, engine, rows[-1])):
        if line:
            console().print(wrapped(line, width), style="dim")
    if failed:
        raise typer.Exit(1)


def _speculate(
    drafts: int, say: int, model: str, npz: Path | None, tokens: int, seed: int,
    engine: str | None, json: Path | None,
) -> None:  # fmt: skip
    """Draft, verify, accept; exit code 1 where the tokens are not those of the plain run."""
    from reports.text_table import wrapped
    from simulator.basis.errors import UnsupportedError
    from simulator.basis.whole import within
    from simulator.cache.pool_spec import page_multiple, pools_of
    from simulator.engine.default_engine import DEFAULT_ENGINE
    from simulator.engine.profile import find_profile
    from simulator.evaluate.evaluator import Evaluator
    from simulator.evaluate.request_table import RequestTable
    from simulator.evaluate.speculation import BlockDrafter, greedy_tokens, with_random_head
    from workloads.deepseek_v4.config import model_from_mapping
    from workloads.deepseek_v4.precision import Precision
    from workloads.deepseek_v4.state import model_state

    within("drafts", drafts, 1, 64)
    prompt = prompt_of(model, npz, tokens, seed)
    config, weights = prompt.config, prompt.weights
    own = config.drafts_blocks
    if not own:
        raw = config.model_dump(exclude={"name", "stored", "file_notes"})
        kept = {k: v for k, v in raw.items() if not k.startswith("dspark_")}
        headed, weights = with_random_head(kept, weights, seed)
        config = model_from_mapping(headed, name=config.name)
    rule, block = find_profile(engine or DEFAULT_ENGINE).drafts, config.dspark_block_size or 1
    if drafts > block and not (rule and rule.beyond_block):
        raise UnsupportedError(
            f"{drafts} drafts are asked for, but {engine or DEFAULT_ENGINE} drafts a block of "
            f"{block} ({drafts - block} too many); nearest: --drafts {block}, or --engine vllm-0.33"
        )
    pools = pools_of(model_state(config, Precision()))
    page, most = page_multiple(pools), len(prompt.token_ids) + within("say", say, 1, 4096) + 80

    def table() -> RequestTable:
        return RequestTable(1, most, page_tokens=page, pools=pools)

    drafter = BlockDrafter(config, weights, table(), draft_tokens=drafts)
    plain = Evaluator(config, weights, table())
    row, other = drafter.table.admit(), plain.table.admit()
    anchor = int(drafter.step([(row, prompt.token_ids)]).logits[-1].argmax())
    plain.step([(other, prompt.token_ids)])
    spoken = drafter.speak(row, anchor, say)
    same = spoken.tokens == greedy_tokens(plain, other, anchor, say)
    save_json(
        json,
        {
            "model": config.name,
            "own_head": own,
            "block": block,
            "drafts": drafts,
            "tokens": list(spoken.tokens),
            "accepted_by_step": list(spoken.accepted),
            "tokens_per_step": spoken.per_step,
            "same_as_without_drafts": same,
        },
    )
    head = "its DSpark head" if own else "a DSpark head of random weights"
    console().print(
        wrapped(
            f"{config.name} with {head} says {say} tokens in {len(spoken.accepted)} steps of "
            f"{drafts} drafts: {spoken.per_step:.2f} tokens a step, "
            f"{sum(spoken.accepted)} of {drafts * len(spoken.accepted)} drafts accepted; they are "
            f"{'the same as' if same else 'NOT those'} without drafts.",
            console().width,
        ),
        style="bold" if same else "bold red",
    )
    if not same:
        raise typer.Exit(1)


def prompt_of(model: str, npz: Path | None, tokens: int, seed: int) -> Prompt:
    """What runs: the file's, the golden file's, or a small model with made-up weights."""
    import numpy as np

    from simulator.basis.whole import within
    from simulator.evaluate.formats_run import Prompt
    from simulator.evaluate.golden_file import load_inputs
    from simulator.evaluate.random_weights import random_weights
    from simulator.evaluate.verify import shipped_golden_file
    from workloads.deepseek_v4.config import find_model, model_from_mapping
    from workloads.deepseek_v4.graph import model_parameters

    if npz is None and model == "tiny":
        npz = shipped_golden_file()
    if npz is not None:
        raw, ids, weights = load_inputs(npz)
        config = model_from_mapping(raw, name=npz.stem)
        return Prompt(config=config, weights=weights, token_ids=ids, chunks=(len(ids),))
    config = find_model(model)
    size = sum(tensor.size for tensor in model_parameters(config).values())
    if size > _PARAMETERS:
        raise InputError(
            f"{config.name} has {size:,} parameters, but at most {_PARAMETERS:,} run in numpy "
            f"({size - _PARAMETERS:,} too many); give tiny, a smaller configuration, or --npz"
        )
    raw = config.model_dump(exclude={"name", "stored", "file_notes"})
    within("tokens", tokens, 1, config.max_position_embeddings)
    weights = random_weights(raw, seed)
    ids = np.random.default_rng(seed).integers(0, config.vocab_size, tokens)
    return Prompt(config=config, weights=weights, token_ids=ids, chunks=(tokens,))


def _row(
    found: FormatsResult, prompt: Prompt, chip: str, engine: str | None, batch: int,
    context: int | None,
) -> dict[str, Any]:  # fmt: skip
    from simulator.cost.question import step_of_deployment
    from simulator.cost.step import cost_step
    from simulator.deployment import ask_deployment
    from workloads.deepseek_v4.graph import model_parameters
    from workloads.deepseek_v4.state import model_state

    precision, config = found.formats.costed, prompt.config
    asked = ask_deployment(
        model="tiny",
        chip=chip,
        engine=engine,
        kv_dtype=precision.kv,
        index_dtype=precision.index,
        expert_dtype=precision.expert,
    ).changed(config=config)
    length = len(prompt.token_ids) if context is None else context
    step = cost_step(step_of_deployment(asked, "decode", batch, length, 1, "tile"))
    state = model_state(config, precision)
    return {
        "formats": found.formats.name,
        "logit_change": found.logit_change,
        "logit_rms_over_spread": found.logit_rms,
        "same_token_share": found.same_token,
        "top_k_recall_by_layer": {k: _number(v) for k, v in found.recall.items()},
        "experts_kept_share": _number(found.experts_kept),
        "worst_half_steps": {k: v.worst for k, v in found.rounding.items() if v.values},
        "values_rounded": {k: v.values for k, v in found.rounding.items() if v.values},
        "holds": found.holds,
        "weight_bytes": sum(t.nbytes for t in model_parameters(config, precision).values()),
        "cache_bytes": state.nbytes(length),
        "cache_growth_bytes_per_token": state.growth_bytes_per_token,
        "step_ps": step.total_ps,
        "step_low_ps": step.low_ps,
        "step_high_ps": step.high_ps,
        "priced_as": list(step.priced_as),
        "engine": step.question.engine,
    }


def _number(share: float) -> float | None:
    return share if share == share else None


def _columns(rows: Sequence[dict[str, Any]]) -> list[Any]:
    from reports.text_table import TextColumn
    from simulator.basis.units import format_bytes

    def recall(row: dict[str, Any]) -> str:
        known = [v for v in row["top_k_recall_by_layer"].values() if v is not None]
        return f"{100 * sum(known) / len(known):.1f} %" if known else "–"

    def kept(row: dict[str, Any]) -> str:
        share = row["experts_kept_share"]
        return "–" if share is None else f"{100 * share:.1f} %"

    def worst(row: dict[str, Any]) -> str:
        return f"{max(row['worst_half_steps'].values(), default=0.0):.3f}"

    cells = {
        "formats": [row["formats"] for row in rows],
        "logits\nmost": [f"{row['logit_change']:.3g}" for row in rows],
        "logits\nmean": [f"{100 * row['logit_rms_over_spread']:.2f} %" for row in rows],
        "same\ntoken": [f"{100 * row['same_token_share']:.1f} %" for row in rows],
        "picks\nkept": [recall(row) for row in rows],
        "experts\nkept": [kept(row) for row in rows],
        "worst\nhalf steps": [worst(row) for row in rows],
        "weights": [format_bytes(row["weight_bytes"]) for row in rows],
        "cache": [format_bytes(row["cache_bytes"]) for row in rows],
        "step": [f"{row['step_ps'] / 1e9:.4f} ms" for row in rows],
    }
    ranks = {"worst\nhalf steps": 1, "cache": 2, "experts\nkept": 3}
    return [
        TextColumn(heading=name, cells=own, left=name == "formats", rank=ranks.get(name, 0))
        for name, own in cells.items()
    ]


def _answer(prompt: Prompt, row: dict[str, Any]) -> str:
    holds = "within" if row["holds"] else "NOT within"
    return (
        f"{prompt.config.name}, {len(prompt.token_ids)} tokens, in {row['formats']}: logits change "
        f"by {row['logit_change']:.3g} at most, {100 * row['same_token_share']:.1f} % of best "
        f"tokens stay; every stored value is {holds} half a step of its format."
    )


def _notes(found: FormatsResult, chip: str, engine: str | None, row: dict[str, Any]) -> list[str]:
    layers = ", ".join(
        f"{name} {'–' if share != share else f'{100 * share:.1f} %'}"
        for name, share in found.recall.items()
    )
    return [
        f"Picks kept, by layer with an indexer: {layers}." if layers else "",
        f"Steps: one decode step of this model on {chip} with {row['engine']}; parts left alone "
        "run in float64 and are costed as bf16.",
    ]
