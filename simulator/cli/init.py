"""`v4sim init`: a file of your own, written from one that ships, for the command that takes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError, unknown_name
from simulator.cli.options import STANDARD_OUTPUT, console, to_standard_output

if TYPE_CHECKING:
    from hwmodels.chip_price import ChipPrices
    from simulator.serve.scenario import Traffic

_WRITTEN = "edit it, then"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of file: the folder that its shipped ones are in, the usual one, and who takes it.

    `command` has a place for the file; `check` reads it as that command does.
    """

    folder: Callable[[], Path]
    usual: str
    command: str
    check: Callable[[Path], object]


def init(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="chip, scenario, plan, tiers, engine, model or prices."
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NAME", help="What ships to begin with [default: the usual]."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to [default: my-KIND.yaml]; - for the terminal."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scenario and plan: serve the requests of this trace."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="What the columns of that trace are, as of v4sim trace info."
        ),
    ] = None,
    chip: Annotated[
        list[str] | None,
        typer.Option(help="Plan: consider these chips; scenario: serve on this one. Repeatable."),
    ] = None,
    most_chips: Annotated[int, typer.Option(help="Plan: most chips of each.")] = 32,
    prices: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Scenario and plan: prices of your own, a file a chip; repeatable."
        ),
    ] = None,
) -> None:
    """Write a chip, scenario, plan, tiers, engine, model or price file of your own to edit.

    The command that it says takes the file as it is. Example: v4sim init plan --from chat
    --trace mine.jsonl --chip h200 --chip b200 --most-chips 16
    """
    kinds = _kinds()
    if kind not in kinds:
        raise InputError(unknown_name("kind of file", kind, kinds))
    if out == STANDARD_OUTPUT:
        to_standard_output(True)
    own = kinds[kind]
    found = _shipped(kind, own, source or own.usual)
    path = out or Path(f"my-{kind}.yaml")
    if path != STANDARD_OUTPUT and path.exists():
        raise InputError(f"{path} is there already; give another name with --out, or remove it")
    edits = {"trace": trace, "columns": columns, "chip": chip, "prices": prices}
    if kind not in ("scenario", "plan") and any(edits.values()):
        given = " and ".join(f"--{name}" for name, value in edits.items() if value)
        raise InputError(f"{given} is of a scenario or plan, not of a file of kind {kind}")
    text = found.read_text(encoding="utf-8")
    notes: list[str] = []
    if any(edits.values()):
        traffic = _traffic(trace, columns)
        text = _edited(kind, found, path, traffic, chip or [], most_chips, prices or [], notes)
    command = own.command.format(file=path)
    text = f"# Of {kind} {found.stem} as it ships; {_WRITTEN}: {command}\n{text}"
    if path == STANDARD_OUTPUT:
        print(text, end="")
        return
    _write(path, text, own)
    for note in notes:
        console().print(note, soft_wrap=True)
    console().print(f"wrote {path}; {_WRITTEN}: {command}", soft_wrap=True)


def _traffic(trace: Path | None, columns: str | None) -> Traffic | None:
    """The trace as a scenario names it."""
    from simulator.serve.scenario import Traffic

    if trace is None:
        if columns is not None:
            raise InputError("--columns says how --trace is read; give the trace as well")
        return None
    if not trace.is_file():
        raise InputError(f"{trace}: no such trace file")
    return Traffic(trace=str(trace), columns=columns)


def _served(scenario: dict[str, Any], traffic: Traffic, path: Path, notes: list[str]) -> None:
    """Put a trace into a scenario, and take out what it has no facts for."""
    from simulator.serve.traffic import read_traffic

    read = read_traffic(traffic)  # a trace that cannot be read is refused here
    named = traffic.model_dump(exclude_unset=True, exclude_none=True)
    scenario["traffic"] = {**named, "trace": _beside(Path(str(traffic.trace)), path)}
    if not read.block_tokens and scenario.pop("prefix_cache", None) is not None:
        notes.append(
            "without a prefix cache, since the trace has no block ids that say which prompts share "
            "a prefix"
        )


def _write(path: Path, text: str, own: Kind) -> None:
    """Write a file that its command accepts, or none."""
    from simulator.basis.atomic import write_text

    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    write_text(path, text)
    try:
        own.check(path)
    except InputError:
        path.unlink()
        raise


def _shipped(kind: str, own: Kind, name: str) -> Path:
    from simulator.basis.data_files import find_data_file

    if kind == "model":
        from workloads.deepseek_v4.config import find_model

        name = find_model(name).name  # a Hugging Face name has a model that ships
    return find_data_file(kind, name, own.folder())


def _edited(
    kind: str,
    found: Path,
    path: Path,
    traffic: Traffic | None,
    chips: list[str],
    most_chips: int,
    prices: list[Path],
    notes: list[str],
) -> str:
    """The file with a trace, chips and prices put in; comments of the shipped one are left out."""
    import yaml

    from simulator.basis.yaml_loader import compose_yaml

    data: dict[str, Any] = compose_yaml(found)[0]
    scenario = data["scenario"] if kind == "plan" else data
    if traffic is not None:
        _served(scenario, traffic, path, notes)
    own = {_chip_of(file): _beside(file, path) for file in prices}
    if kind == "plan":
        if chips:
            data["chips"] = [{"chip": chip, "most_chips": most_chips} for chip in chips]
            scenario["chip"] = chips[0]
        entries = {entry["chip"]: entry for entry in data["chips"]}
        for chip, file in own.items():
            _known(chip, entries)["prices"] = file
    else:
        if len(chips) > 1:
            raise InputError(f"a scenario is served on one chip, not on {', '.join(chips)}")
        scenario["chip"] = chips[0] if chips else scenario["chip"]
        for chip, file in own.items():
            _known(chip, {scenario["chip"]: scenario})["prices"] = file
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)


def _known(chip: str, entries: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if chip not in entries:
        raise InputError(
            f"prices are of {chip}, which is not among the chips here: {', '.join(entries)}; name "
            f"it with --chip {chip}"
        )
    return entries[chip]


def _chip_of(file: Path) -> str:
    return _prices(file).chip


def _prices(file: Path) -> ChipPrices:
    from hwmodels.chip_price import ChipPrices
    from simulator.basis.yaml_loader import load_yaml

    return load_yaml(file, ChipPrices)


def _beside(file: Path, written: Path) -> str:
    """A file as the written one names it: relative to its folder."""
    folder = Path.cwd() if written == STANDARD_OUTPUT else written.absolute().parent
    name = os.path.relpath(file.absolute(), folder)
    return name if "/" in name or name.endswith((".yaml", ".yml", ".json")) else f"./{name}"


def _kinds() -> dict[str, Kind]:
    """Kinds by name; adding one is one entry."""
    from hwmodels import chip, chip_price
    from simulator.engine import profile
    from simulator.plan import plan_question
    from simulator.prefix import tier
    from simulator.serve import scenario_file
    from workloads.deepseek_v4 import config

    step = "v4sim step --model v4-flash --chip h200 --count 8"
    return {
        "chip": Kind(
            folder=lambda: Path(chip.__file__).parent / "chips",
            usual="h200",
            command="v4sim step --model v4-flash --chip {file} --count 8",
            check=lambda path: chip.find_chip(str(path)),
        ),
        "scenario": Kind(
            folder=lambda: scenario_file.SCENARIOS,
            usual="chat",
            command="v4sim serve {file}",
            check=scenario_file.open_scenario,
        ),
        "plan": Kind(
            folder=lambda: Path(plan_question.__file__).parent / "plans",
            usual="chat",
            command="v4sim plan {file}",
            check=plan_question.load_plan,
        ),
        "tiers": Kind(
            folder=lambda: Path(tier.__file__).parent / "tiers",
            usual="node",
            command="v4sim prefix compare --trace TRACE --tiers {file}",
            check=lambda path: tier.load_tiers(str(path)),
        ),
        "engine": Kind(
            folder=lambda: Path(profile.__file__).parent / "profiles",
            usual="sglang-0.5",
            command=f"{step} --engine {{file}}",
            check=lambda path: profile.find_profile(str(path)),
        ),
        "model": Kind(
            folder=lambda: Path(config.__file__).parent / "models",
            usual="v4-flash",
            command="v4sim step --model {file} --chip h200 --count 8",
            check=lambda path: config.find_model(str(path)),
        ),
        "prices": Kind(
            folder=lambda: Path(chip_price.__file__).parent / "prices",
            usual="h200",
            command="v4sim serve chat --set prices={file}",
            check=_prices,
        ),
    }
