"""Options that commands take beside their own: `--constants FILE`, and `--force` with `--out DIR`.

Constants of a user's come before the package's. A folder that holds another question's results is
replaced with `--force` alone.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from simulator.basis.errors import InputError, V4SimError
from simulator.cli.faults import placed

NAME = "constants"
FORCE = "force"
_FORCE = Annotated[
    bool,
    typer.Option(
        f"--{FORCE}", help="Replace the results of another question in the folder of --out."
    ),
]
_OPTION = Annotated[
    Path | None,
    typer.Option(
        f"--{NAME}",
        metavar="FILE",
        help="Constants of your own, as 'v4sim calibrate DIR --out FILE' writes them; they come "
        "before installed ones and the package's.",
    ),
]


def with_constants(app: typer.Typer) -> None:
    """Gives every command of an application, and of the groups below it, the option."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_option(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_constants(group.typer_instance)


def _with_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with one more option, in whose run the file's constants are in use."""

    @wraps(command)
    def run(**given: Any) -> Any:
        try:
            return with_file(given)
        except V4SimError as error:
            placed(error, signature, given)
            raise
        except BrokenPipeError:
            raise
        except OSError as error:
            if not error.filename:
                raise
            refused = InputError(f"{error.filename}: {error.strerror or error}")
            placed(refused, signature, given)
            raise refused from error

    def with_file(given: dict[str, Any]) -> Any:
        from simulator.cli.run_record import recorded
        from simulator.kernels.user_constants import active_files, given_constants

        given = dict(given)
        path = given.pop(NAME)
        force = given.pop(FORCE) if takes_force else False
        if path is not None and not path.is_file():
            raise InputError(
                f"--constants {path}: no such file; 'v4sim calibrate DIR --out FILE' writes one"
            )
        with given_constants(path):
            if active_files():
                from simulator.calibration.user_file import check_active_files

                check_active_files()
            return recorded(command, given, force=force)

    signature = inspect.signature(command, eval_str=True)
    takes_force = _writes_a_folder(signature)
    option = inspect.Parameter(
        NAME, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTION
    )
    forced = inspect.Parameter(
        FORCE, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_FORCE
    )
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            *(
                p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for p in signature.parameters.values()
            ),
            *([forced] if takes_force else ()),
            option,
        ]
    )
    run.__annotations__ = {
        **typing.get_type_hints(command, include_extras=True),
        **({FORCE: _FORCE} if takes_force else {}),
        NAME: _OPTION,
    }
    return run


def _writes_a_folder(signature: inspect.Signature) -> bool:
    """Whether `--out` names a folder of results, which then holds the record of its run."""
    out = signature.parameters.get("out")
    return out is not None and any(
        getattr(fact, "metavar", None) == "DIR"
        for fact in getattr(out.annotation, "__metadata__", ())
    )
