"""`v4sim demo`: the main job with nothing to choose: two steps of V4-Flash on 8 x H200."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.options import (
    JsonFile,
    console,
    error_console,
    save_json,
    say_files,
    write_files,
)

if TYPE_CHECKING:
    from simulator.cost.result import ProofLine

MODEL, CHIP, COUNT = "v4-flash", "h200", 8
# (phase, batch, context after the step)
STEPS = (("decode", 64, 131072), ("prefill", 1, 8192))


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path(
        "out/demo"
    ),
    json: JsonFile = None,
) -> None:
    """Cost a decode and a prefill step of V4-Flash on 8 x H200, and prove the graph right.

    Example: v4sim demo --out out/demo
    """
    from reports.step_json import proof_json, step_to_json
    from reports.terminal import print_step
    from simulator.cost.question import ask
    from simulator.cost.typical_step import typical_step

    with error_console().status("running the golden file through the graph"):
        proof = _prove()
    results = []
    for phase, batch, context in STEPS:
        asked = ask(model=MODEL, chip=CHIP, count=COUNT, phase=phase, batch=batch, context=context)
        with error_console().status(f"costing the {phase} step"):
            result = typical_step(asked)
        results.append((phase.capitalize(), result))
    with error_console().status("writing the report"):
        files = write_files(out, results, proof)
    steps = {title.lower(): step_to_json(result) for title, result in results}
    save_json(json, steps | {"proof": proof_json(proof)})
    for title, result in results:
        print_step(console(), result, proof=proof if title == results[0][0] else None)
        console().print()
    say_files(files)


def _prove() -> ProofLine:
    from simulator.cost.result import ProofLine
    from simulator.evaluate.golden_file import GoldenFile
    from simulator.evaluate.verify import (
        ACTIVATION_TOLERANCE,
        LOGITS_TOLERANCE,
        shipped_golden_file,
        verify_file,
    )

    path = shipped_golden_file()
    checks = list(verify_file(path))
    logits = [check.difference for check in checks if check.quantity == "logits"]
    activations = [check.difference for check in checks if check.quantity != "logits"]
    return ProofLine(
        golden_name=path.name,
        layers=GoldenFile.load(path).config["num_hidden_layers"],
        logits_difference=max(logits),
        logits_tolerance=LOGITS_TOLERANCE,
        activations_difference=max(activations),
        activations_tolerance=ACTIVATION_TOLERANCE,
        checks=len(checks),
    )
