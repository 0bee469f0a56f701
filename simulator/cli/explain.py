"""`v4sim explain`: why a step takes what it takes, and which numbers would move it most."""

from __future__ import annotations

import json as json_library
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.options import CsvFile, JsonFile, PageFile, error_console, say_report
from simulator.cli.step import (
    Batch,
    Context,
    Drafts,
    ExactContext,
    Fidelity,
    NewTokens,
    OutFolder,
    Phase,
)

if TYPE_CHECKING:
    from simulator.cost.question import AskedStep
    from simulator.cost.result import StepResult

_EDITED = re.compile(r"(?P<name>[^ ]+) \((?P<edits>.*)\)")


@takes_deployment("pp", "cp", model=None, chip=None)
def explain(
    deployment: Mapping[str, Any],
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            help="A folder of v4sim step --out, or a step's JSON.",
            show_default=False,
        ),
    ] = None,
    batch: Batch = 1,
    context: Context = 8192,
    phase: Phase = "decode",
    new_tokens: NewTokens = None,
    fidelity: Fidelity = "tile",
    drafts: Drafts = 0,
    exact_context: ExactContext = False,
    levers: Annotated[
        int, typer.Option(min=1, max=60, help="Numbers to cost in full and to show.")
    ] = 8,
    out: OutFolder = None,
    page: PageFile = None,
    csv: CsvFile = None,
    json: JsonFile = None,
) -> None:
    """The three largest causes of a step, and the numbers that would move it most.

    Each number of the chip and each fitted constant of the engine's kernels is raised a little, all
    else equal; the change of the step for 5 % more follows, and is checked by costing it. Tiles,
    thresholds and pages of the engine's profile are halved and doubled.

    Example: v4sim explain --model v4-flash --chip h200 --count 8 --batch 64 --context 131072
    """
    from reports.kinds import report_of
    from simulator.cost.question import ask
    from simulator.cost.step import cost_step
    from simulator.cost.typical_step import typical_step
    from simulator.whatif.explain import explain as explained

    told: StepTold | None = None
    if run is not None:
        if deployment["model"] or deployment["chip"]:
            raise InputError("a run is given, and --model or --chip as well: give one of both")
        told = _told(run)
        asked, exact_context = told.asked, told.exact
    else:
        for name in ("model", "chip"):
            if not deployment[name]:
                raise InputError(f"--{name} is missing, and no run is given")
        asked = ask(
            **deployment, phase=phase, batch=batch, context=context, new_tokens=new_tokens,
            fidelity=fidelity, draft_tokens=drafts,
        )  # fmt: skip
    costed = cost_step if exact_context else typical_step
    with error_console().status("costing the step") as status:
        if told is not None:
            told.check(costed(asked))
        found = explained(asked, costed, cost_step, shown=levers, note=status.update)
    say_report(report_of("explain", found), json=json, csv=csv, page=page, out=out)


class StepTold:
    """A step of a run, asked again by what its JSON says."""

    def __init__(self, asked: AskedStep, exact: bool, total_ps: int, path: Path) -> None:
        self.asked, self.exact, self.total_ps, self.path = asked, exact, total_ps, path

    def check(self, result: StepResult) -> None:
        """Refuse a run whose step takes another time now, since it would explain another one."""
        if result.total_ps != self.total_ps:
            raise InputError(
                f"{self.path}: its step took {self.total_ps:,} ps, but asked again it takes "
                f"{result.total_ps:,} ({result.total_ps - self.total_ps:+,}): the run had options "
                "that its JSON does not name, or is of another version; give the step's options "
                "instead"
            )


def _told(run: Path) -> StepTold:
    from simulator.cli.compare import step_file
    from simulator.cost.question import ask

    path = step_file(run)
    try:
        data = json_library.loads(path.read_text(encoding="utf-8"))
        question, layout = data["question"], data["question"]["layout"]
        named = _EDITED.fullmatch(question["chip"])
        edits = [edit.replace(" ", "") for edit in named["edits"].split(", ")] if named else None
        options = {
            "model": question["model"],
            "chip": named["name"] if named else question["chip"],
            "edits": edits,
            "count": question["chips"],
            "tp": layout["tensor"],
            "dp": layout["data"],
            "ep": layout["expert"],
            "engine": question["engine"],
            "phase": question["phase"],
            "batch": question["batch_requests"],
            "context": question["context_tokens"],
            "new_tokens": question["new_tokens"] if question["phase"] == "prefill" else None,
            "fidelity": question["fidelity"],
            "draft_tokens": question.get("draft_tokens", 0),
            "index_dtype": question["index_dtype"],
            "kv_dtype": question["kv_dtype"],
            "expert_dtype": question["expert_dtype"],
            "page_tokens": question.get("page_tokens"),
        }
        exact, total_ps = data["period"] is None, data["total_ps"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not the JSON of a step ({error}); v4sim step --out DIR writes it"
        ) from None
    return StepTold(ask(**options), exact, total_ps, path)
