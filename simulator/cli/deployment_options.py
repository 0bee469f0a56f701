"""The options that name a deployment: one group, the same for every command that takes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from simulator.basis.errors import V4SimError
from simulator.cli.launch_option import LaunchCommand, read_launch_of
from simulator.engine.default_engine import DEFAULT_ENGINE

_GROUP = "Deployment"


def _option(kind: Any, text: str, *names: str, known: Any = None) -> Any:
    return Annotated[
        kind, typer.Option(*names, help=text, rich_help_panel=_GROUP, autocompletion=known)
    ]


def _models(incomplete: str) -> list[str]:
    """Names that a shell may complete; so the next ones."""
    from workloads.deepseek_v4.config import list_models

    return [name for name in list_models() if name.startswith(incomplete)]


def _chips(incomplete: str) -> list[str]:
    from hwmodels.chip import list_chips

    return [name for name in list_chips() if name.startswith(incomplete)]


def _engines(incomplete: str) -> list[str]:
    from simulator.engine.profile import list_profiles

    return [name for name in list_profiles() if name.startswith(incomplete)]


Engine = Annotated[
    str | None,
    typer.Option(
        help="Whose kernels and cache layout: a profile's name, or path to YAML [default: "
        f"{DEFAULT_ENGINE}; atom on AMD's chips, ascend on Ascend chips].",
        rich_help_panel=_GROUP,
        autocompletion=_engines,
    ),
]
Edits = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a number of the chip's file, such as memory.RC=60ns; repeatable.",
        rich_help_panel=_GROUP,
    ),
]
# Name of each option: its type and help, and its default (none: it has to be given).
OPTIONS: dict[str, tuple[Any, Any]] = {
    "model": (
        _option(str, "Model or Hugging Face name, or path (YAML, JSON).", known=_models),
        inspect.Parameter.empty,
    ),
    "chip": (
        _option(str, "Chip name, or path to a YAML file.", known=_chips),
        inspect.Parameter.empty,
    ),
    "edits": (Edits, None),
    "count": (_option(int, "Chips; count = tp x dp x pp."), 1),
    "tp": (_option(int | None, "Tensor-parallel degree [default: what dp and pp leave]."), None),
    "dp": (_option(int, "Attention-data-parallel degree."), 1),
    "ep": (_option(int | None, "Expert-parallel degree [default: all ranks if dp > 1]."), None),
    "pp": (_option(int, "Pipeline stages."), 1),
    "cp": (_option(int, "Ranks of a tensor group that share a request's entries."), 1),
    "engine": (Engine, None),
    "exchange": (
        _option(
            str | None,
            "Tokens to experts of other data ranks: deepep, gathered (ep 1) or fused [default: "
            "the engine's].",
        ),
        None,
    ),
    "kv_dtype": (
        _option(
            str | None,
            "Cache rows: fp8, bf16, mxfp4, nvfp4, fp4 (the engine's own of these) or fp8-uniform "
            "[default: the engine's].",
        ),
        None,
    ),
    "index_dtype": (
        _option(str | None, "Index keys: fp8, fp4 or bf16 [default: the engine's]."),
        None,
    ),
    "expert_dtype": (
        _option(
            str | None,
            "Experts: fp4, fp8, bf16 or another line of weight_formats.yaml [default: the "
            "checkpoint's; fp8 where a chip multiplies no fp4].",
        ),
        None,
    ),
    "page_tokens": (
        _option(int | None, "Tokens of a page of the cache [default: the engine's]."),
        None,
    ),
    "packed_keys": (
        _option(
            bool,
            "Budget index keys as they are stored, where the engine budgets another row.",
            "--packed-keys",
        ),
        False,
    ),
    "memory_share": (
        _option(float | None, "Share of memory that the engine takes [default: its own]."),
        None,
    ),
    "max_requests": (
        _option(int | None, "Requests that the engine sets state aside for [default: its own]."),
        None,
    ),
}


# What the node that a command names decides, or what a comparison of caches does not ask.
NOT_OF_A_NODE = ("chip", "count", "pp", "cp", "memory_share", "max_requests", "packed_keys")


def takes_deployment(*without: str, **defaults: Any) -> Callable[[Any], Any]:
    """Give a command the options of a deployment, but for some, in place of its `deployment`.

    The command gets them as a mapping for `ask_deployment`. `defaults` are those of this command.
    A command with a parameter `launch` also takes `--launch`, and gets that as it was read.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        names = [name for name in OPTIONS if name not in without]
        own = dict(inspect.signature(command, eval_str=True).parameters)
        launches = own.pop("launch", None) is not None
        usual = {name: defaults.get(name, OPTIONS[name][1]) for name in names}
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=OPTIONS[name][0],
                default=usual[name],
            )
            for name in names
        ]
        if launches:
            parameters = _with_launch(parameters)
        parameters += [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.items()
            if name != "deployment"
        ]

        def run(**given: Any) -> Any:
            asked = {name: given.pop(name) for name in names}
            _check_constants(asked.get("chip"))
            if launches:
                asked, given["launch"] = read_launch_of(given.pop("launch"), asked, usual)
            try:
                return command(deployment=asked, **given)
            except V4SimError as error:
                if given.get("launch") is not None:
                    error.message = given["launch"].worded(error.message)
                raise

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _with_launch(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters with `--launch`, which may name the model."""
    text = "Model or Hugging Face name, or path (YAML, JSON) [required without --launch]."
    free = [
        p.replace(annotation=_option(str | None, text, known=_models), default=None)
        if p.name == "model"
        else p
        for p in parameters
    ]
    launch = inspect.Parameter(
        "launch", inspect.Parameter.KEYWORD_ONLY, annotation=LaunchCommand, default=None
    )
    return [*free, launch]


def _check_constants(chip: str | None) -> None:
    """Refuse constants of one's own that are of other cores than the chip asked for."""
    from hwmodels.chip import find_chip
    from simulator.kernels.user_constants import check_given_serves, is_given

    if chip is not None and is_given():
        check_given_serves([find_chip(chip)])
