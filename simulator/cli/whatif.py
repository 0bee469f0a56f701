"""`v4sim whatif`: a step on a chip as it is and with numbers of the chip changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError, V4SimError
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.options import JsonFile, console, error_console, save_json
from simulator.cli.progress import progress
from simulator.cli.step import Batch, Context, ExactContext, Fidelity, NewTokens, Phase

if TYPE_CHECKING:
    from simulator.cost.question import AskedStep
    from simulator.cost.result import StepResult
    from simulator.whatif.change import Costed, StepChange
    from simulator.whatif.fields import FieldChange

Fields = Annotated[
    list[str] | None,
    typer.Option(
        metavar="all|KEY,KEY",
        help="Halve and double numbers of the chip one at a time, to the next legal value: all "
        "that its file gives, or those named (also of the memory's preset, such as memory.RC).",
    ),
]


class InterruptedFieldsError(V4SimError):
    """Ctrl-C: the numbers that were changed so far are printed."""

    exit_code = 130


@takes_deployment("pp", "cp")
def whatif(
    deployment: Mapping[str, Any],
    batch: Batch = 1,
    context: Context = 8192,
    phase: Phase = "decode",
    new_tokens: NewTokens = None,
    fidelity: Fidelity = "tile",
    exact_context: ExactContext = False,
    fields: Fields = None,
    json: JsonFile = None,
) -> None:
    """Cost a step on a chip as it is and with --set edits, kernel by kernel.

    Kernels' times are the parts of the step that wait for them, which add up to the step. With
    --fields numbers of the chip (as edited, where it is) are changed one at a time.

    Example: v4sim whatif --model v4-flash --chip b200 --count 8 --batch 64
    --set memory.bandwidth=10TB/s --fields all
    """
    from simulator.cost.question import ask
    from simulator.whatif.change import step_change, with_edits
    from simulator.whatif.fields import chosen_fields

    edits: Sequence[str] = deployment["edits"] or ()
    if not edits and not fields:
        raise InputError(
            "nothing is changed: give edits of the chip, such as --set memory.RC=60ns, or --fields "
            "all"
        )
    asked = ask(
        **{**deployment, "edits": None},
        phase=phase,
        batch=batch,
        context=context,
        new_tokens=new_tokens,
        fidelity=fidelity,
    )
    changed = with_edits(asked, edits)
    keys = chosen_fields(changed.chip, fields or ())
    costed = _costing(exact_context)
    with error_console().status("costing the step") as status:
        base = costed(changed)
        change = None
        if edits:
            status.update("costing the step on the chip as it is")
            change = step_change(costed(asked), base)
    _answer(changed, base, change, keys, costed, json)


def _costing(exact: bool) -> Costed:
    """How a step is costed: alone, or as the mean over its period."""
    from simulator.cost.step import cost_step
    from simulator.cost.typical_step import typical_step

    return cost_step if exact else typical_step


def _answer(
    asked: AskedStep,
    base: StepResult,
    change: StepChange | None,
    keys: Sequence[str],
    costed: Costed,
    json: Any,
) -> None:
    """Print the change at once, then change the fields, then write what was asked for."""
    from reports.whatif_text import print_change, print_fields, whatif_json

    if change is not None:
        print_change(console(), change)
    found, whole = _fields_changed(asked, base, keys, costed)
    if keys:
        if change is not None:
            console().print()
        print_fields(console(), base, found)
    if not whole:
        raise InterruptedFieldsError(
            f"interrupted after {len(found):,} of {2 * len(keys):,} changes of fields: those are "
            "printed, and no JSON is written"
        )
    if json is not None:
        save_json(json, whatif_json(change, base, found))


def _fields_changed(
    asked: AskedStep, base: StepResult, keys: Sequence[str], costed: Costed
) -> tuple[list[FieldChange], bool]:
    """Changes of fields with a bar on standard error, and whether they are all."""
    from simulator.whatif.fields import FACTORS, field_changes

    found: list[FieldChange] = []
    if not keys:
        return found, True
    with progress("fields", len(FACTORS) * len(keys)) as tick:
        try:
            for change in field_changes(asked, base, keys, costed):
                found.append(change)
                tick()
        except KeyboardInterrupt:
            return found, False
    return found, True
