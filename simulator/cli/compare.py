"""`v4sim compare`: steps side by side, from runs on disk or from options with several values."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError, V4SimError
from simulator.basis.sizes import read_tokens
from simulator.cli import step
from simulator.cli.deployment_options import OPTIONS
from simulator.cli.options import (
    CsvFile,
    JsonFile,
    PageFile,
    error_console,
    say_report,
)

if TYPE_CHECKING:
    from reports.report import Report
    from simulator.compare.comparison import Side

# More steps than this are a sweep, and no table that is read side by side.
MOST_STEPS = 24
_SHAPE: dict[str, tuple[Any, Any]] = {
    "batch": (step.Batch, 1),
    "context": (step.Context, 8192),
    "phase": (step.Phase, "decode"),
    "new_tokens": (step.NewTokens, None),
    "fidelity": (step.Fidelity, "tile"),
    "drafts": (step.Drafts, 0),
}
_WITHOUT = ("pp", "cp", "packed_keys", "edits")
_VARIED = {
    **{name: own for name, own in OPTIONS.items() if name not in _WITHOUT},
    **_SHAPE,
}
# Options whose values are read as sizes, such as 128K.
_SIZED = ("context", "new_tokens")
_GROUP = "Steps: several values apart by commas are compared with each other"


def _compare(
    runs: list[Path] | None,
    edits: list[str] | None,
    json: Path | None,
    csv: Path | None,
    page: Path | None,
    out: Path | None,
    **given: str | None,
) -> None:
    """Set steps side by side: what was asked differently, and where the time differs.

    Differences by operation, kind of layer and cause add up to the difference of the steps, in
    whole picoseconds. RUN is a folder that --out of v4sim step, serve, plan or capacity wrote, or
    the JSON of such a run; runs of one command are compared.

    Example: v4sim compare --model v4-flash --count 8 --batch 64 --context 131072
    --chip h200,b200 --engine sglang-0.5,vllm-0.33
    """
    from reports.kinds import report_of
    from simulator.compare.comparison import compare

    left_out: list[str] = []
    if runs:
        named = [name for name, value in given.items() if value is not None]
        if named or edits:
            raise InputError(
                f"runs are given, and --{(named or ['set'])[0].replace('_', '-')} as well: runs "
                "have their options already; give one of both"
            )
        report = _of_runs(runs)
    else:
        sides = _costed({name: value for name, value in given.items() if value}, edits, left_out)
        report = report_of("compare", compare(sides), left_out)
    say_report(report, json=json, csv=csv, page=page, out=out)


def _of_runs(runs: Sequence[Path]) -> Report:
    """The report of runs on disk, which are steps or all of another kind."""
    from reports.kinds import report_of
    from simulator.compare.comparison import compare, side_of_json
    from simulator.compare.runs import compare_runs, kind_of, run_side

    read = [_json_of(run) for run in runs]
    names = _names(runs, [path for path, _ in read])
    own = list(zip(names, read, strict=True))
    if any(kind_of(data) != "step" for _, data in read):
        kinds = {kind_of(data) for _, data in read}
        if "step" in kinds and len(kinds) > 1:
            told = ", ".join(sorted(kind or "unknown" for kind in kinds))
            raise InputError(
                f"runs of different kinds ({told}) have no totals in common; compare runs of one "
                "command"
            )
        found = compare_runs([run_side(name, data, str(path)) for name, (path, data) in own])
        return report_of("compare-runs", found)
    return report_of(
        "compare", compare([side_of_json(name, data, str(path)) for name, (path, data) in own])
    )


def _json_of(run: Path) -> tuple[Path, Any]:
    """A run's JSON and where it lies."""
    import json

    own = (run / name for name in ("summary.json", "report.json"))
    path = next((one for one in own if one.is_file()), None) or step_file(run)
    try:
        return path, json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None


def _names(runs: Sequence[Path], paths: Sequence[Path]) -> list[str]:
    """Runs by the end of their path, which tells them apart, or else by the whole path."""
    names: list[str] = []
    for run, path in zip(runs, paths, strict=True):
        short = path.parent.name if run.is_dir() else f"{path.parent.name}/{path.stem}"
        same = [other for other in runs if other != run and other.name == run.name]
        own = str(run) if same else short
        before = sum(name.partition(" #")[0] == own for name in names)
        names.append(f"{own} #{before + 1}" if before else own)
    return names


def step_file(run: Path) -> Path:
    """The JSON of a run's only step."""
    if run.is_file():
        return run
    if not run.is_dir():
        raise InputError(
            f"{run}: no such run; a run is a folder that --out of v4sim step, serve, plan or "
            "capacity wrote, or the JSON of one"
        )
    found = sorted(
        path
        for path in run.glob("*.json")
        if '"v4sim.step/1"' in path.open(encoding="utf-8", errors="replace").read(200)
    )
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        said = f"several steps ({names}): give one of them" if found else "no step's JSON in it"
        raise InputError(f"{run}: {said}, such as {run}/decode.json")
    return found[0]


def _costed(
    given: Mapping[str, str], edits: Sequence[str] | None, left_out: list[str]
) -> list[Side]:
    """Every combination of the values given; what cannot be costed is said in `left_out`."""
    values = {name: _values(name, text) for name, text in given.items()}
    for name in ("model", "chip"):
        if name not in values:
            raise InputError(
                f"--{name} is missing, and no runs are given; see v4sim compare --help"
            )
    varied = [name for name, own in values.items() if len(own) > 1]
    steps = list(itertools.product(*values.values()))
    if len(steps) > MOST_STEPS:
        raise InputError(
            f"{len(steps):,} steps are asked for, at most {MOST_STEPS} are compared "
            f"({len(steps) - MOST_STEPS:,} too many); leave values out, or see v4sim sweep"
        )
    sides: list[Side] = []
    fault: V4SimError | None = None
    for place, chosen in enumerate(steps, 1):
        options = dict(zip(values, chosen, strict=True))
        name = " ".join(str(options[key]) for key in varied) or str(options["chip"])
        with error_console().status(f"costing step {place} of {len(steps)}: {name}"):
            try:
                sides.append(_side(name, options, varied, edits))
            except V4SimError as error:
                fault = error
                left_out.append(f"{name}: {error.message}")
    if len(sides) < 2 and fault is not None:
        raise fault
    return sides


def _side(
    name: str, options: Mapping[str, Any], varied: Sequence[str], edits: Sequence[str] | None
) -> Side:
    from reports.step_json import question_json
    from simulator.compare.comparison import flat, side_of
    from simulator.cost.question import ask
    from simulator.cost.typical_step import typical_step

    given = {("draft_tokens" if key == "drafts" else key): own for key, own in options.items()}
    asked = ask(**{**given, "edits": edits})
    question = {key: flat(value) for key, value in question_json(asked.question).items()}
    # What a question does not name, such as a share of memory, is known by its option.
    question |= {key: options[key] for key in varied if key not in _NAMED}
    return side_of(name, question, typical_step(asked))


_NAMED = (
    *("model", "chip", "count", "tp", "dp", "ep", "engine", "phase", "batch", "context"),
    *("new_tokens", "fidelity", "drafts", "index_dtype", "kv_dtype", "expert_dtype"),
)


def _values(name: str, text: str) -> list[Any]:
    """The values of an option, of the kind that other commands take."""
    annotation = _VARIED[name][0]
    kinds = typing.get_args(typing.get_args(annotation)[0]) or (typing.get_args(annotation)[0],)
    kind = next((kind for kind in (int, float) if kind in kinds), str)
    found: list[Any] = []
    for part in (part.strip() for part in text.split(",")):
        if name in _SIZED:
            found.append(read_tokens(part, f"--{name.replace('_', '-')}"))
            continue
        try:
            found.append(kind(part))
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise InputError(
                f"--{name.replace('_', '-')} {text}: {part!r} is not {what}; values are apart by "
                "commas"
            ) from None
    return list(dict.fromkeys(found))


def _with_options(command: Any) -> Any:
    """The command with an option for everything that may have several values."""
    keyword = inspect.Parameter.KEYWORD_ONLY

    def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
        return inspect.Parameter(name, keyword, annotation=annotation, default=default)

    runs = Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN RUN ...]", help="Folders or JSON of runs.", show_default=False
        ),
    ]
    parameters = [parameter("runs", runs)]
    for name, (annotation, default) in _VARIED.items():
        own = typing.get_args(annotation)[1]
        said = "" if default in (inspect.Parameter.empty, None) else f" [default: {default}]"
        option = typer.Option(
            "--" + name.replace("_", "-"), metavar="A,B", help=f"{own.help}{said}",
            rich_help_panel=_GROUP,
        )  # fmt: skip
        parameters.append(parameter(name, Annotated[str | None, option]))
    parameters.append(parameter("edits", OPTIONS["edits"][0]))
    parameters += [
        parameter("out", step.OutFolder),
        parameter("page", PageFile),
        parameter("csv", CsvFile),
        parameter("json", JsonFile),
    ]

    def compare(**given: Any) -> Any:
        return command(**given)

    compare.__doc__ = command.__doc__
    compare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    compare.__annotations__ = {p.name: p.annotation for p in parameters}
    return compare


compare = _with_options(_compare)
