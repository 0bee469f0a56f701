"""`--launch`: an engine's launch command in place of our own options, which agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError

if TYPE_CHECKING:
    from simulator.engine.launch import Launch

LaunchCommand = Annotated[
    str | None,
    typer.Option(
        "--launch",
        metavar="COMMAND",
        help="The engine's launch command in quotes, in place of the options that it decides: "
        "'vllm serve MODEL --tensor-parallel-size 8', 'python -m sglang.launch_server "
        "--model-path MODEL --tp 8', 'trtllm-serve MODEL --tp_size 8'. What it leaves out has the "
        "engine's own default.",
        rich_help_panel="Deployment",
    ),
]


def read_launch_of(
    command: str | None, asked: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], Launch | None]:
    """Options of a deployment with what a launch command decides, and the command as it was read.

    `defaults`: values of options that are as good as not given. Raises InputError for what the two
    say differently, all at once.
    """
    found = dict(asked)
    if command is None:
        if asked.get("model") is None and "model" in asked:
            raise InputError("Missing option '--model', or a --launch command that names it")
        return found, None
    from hwmodels.chip import find_chip
    from simulator.engine.launch import read_launch

    chip = asked.get("chip")
    launch = read_launch(command, None if chip is None else find_chip(chip), asked.get("engine"))
    clashes = []
    for name, value in launch.deployment.items():
        given = asked.get(name)
        if given not in (None, defaults.get(name)) and given != value:
            clashes.append(f"--{name.replace('_', '-')} {given} and {_says(launch, name)} {value}")
        found[name] = value
    if clashes:
        raise InputError(
            f"options contradict the launch command: {'; '.join(clashes)}; give one of each pair"
        )
    if found.get("model") is None:
        raise InputError("the launch command names no model; add it there, or give --model")
    return _with_limits(found, launch), launch


def _with_limits(found: dict[str, Any], launch: Launch) -> dict[str, Any]:
    """Tokens a step, and requests at once where the engine sets state aside for them."""
    from simulator.engine.profile import find_profile, layout_of
    from simulator.engine.sizing_rules import WindowSizing

    found["step_tokens"] = launch.step_tokens
    if launch.running_requests is not None and found.get("max_requests") is None:
        sizing = layout_of(find_profile(found["engine"])).sizing
        if isinstance(sizing, WindowSizing):
            found["max_requests"] = launch.running_requests
    return found


def _says(launch: Launch, name: str) -> str:
    same = {"tp": ("tp", "ranks"), "count": ("tp", "ranks", "dp"), "ep": ("ep", "experts_spread")}
    flags = [launch.flags[key] for key in same.get(name, (name,)) if key in launch.flags]
    return f"{' and '.join(flags) or 'the default'} of the command, which is"


def agreed(option: str, given: int | None, launched: int | None, default: int | None = None) -> Any:
    """An option's value where a launch command may say it too. Raises InputError if they differ."""
    if launched is None:
        return given
    if given not in (None, default) and given != launched:
        raise InputError(f"{option} is {given:,}, but the launch command says {launched:,}")
    return launched


def refuse_more(launch: Launch | None, requests: int, data: int) -> None:
    """Raise InputError for more requests at once than a launch command lets run."""
    if launch is None or launch.running_requests is None:
        return
    most = launch.running_requests * data
    if requests > most:
        raise InputError(
            f"{requests:,} requests are asked for, but {launch.flags['running_requests']} of the "
            f"launch command lets {most:,} run at once ({requests - most:,} too many)"
        )


def launch_text(launch: Launch) -> str:
    """What the flags became, and which of them move no cost."""
    parts = [f"From the launch command: {'; '.join(launch.read)}."]
    if launch.idle:
        parts.append(f"Of no effect on the answer: {'; '.join(launch.idle)}.")
    if launch.environment:
        parts.append(f"Environment variables are not read: {', '.join(launch.environment)}.")
    return " ".join(parts)


def launch_json(launch: Launch) -> dict[str, Any]:
    """The same as data."""
    return {
        "command": launch.command,
        "read": list(launch.read),
        "idle": list(launch.idle),
        "environment_not_read": list(launch.environment),
    }
