"""The `v4sim` command: one thin module a subcommand, errors as one sentence, exit codes.

Exit codes: 0 done; 1 a check failed; 2 bad input; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from simulator.basis.errors import V4SimError
from simulator.cli import bandwidth, calibrate, chips, claims, demo, models, step, validate, verify

app = typer.Typer(
    name="v4sim",
    help="Cycle-level hardware and cost simulator for serving DeepSeek-V4.",
    epilog="Example: v4sim step --model v4-flash --chip h200 --count 8 --phase decode "
    "--batch 64 --context 131072 --out out/step",
    add_completion=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("step")(step.step)
app.add_typer(models.app, name="models")
app.add_typer(chips.app, name="chips")
app.command("verify")(verify.verify)
app.command("claims")(claims.claims)
app.command("calibrate")(calibrate.calibrate)
app.command("validate")(validate.validate)
app.command("bandwidth")(bandwidth.bandwidth)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Cycle-level hardware and cost simulator for serving DeepSeek-V4."""
    if version:
        from importlib.metadata import version as installed

        print(f"v4sim {installed('v4sim')}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=given or ["--help"], prog_name="v4sim", standalone_mode=False)
    except V4SimError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; nothing is left to say.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except (KeyboardInterrupt, EOFError):
        print("error: interrupted; nothing partial was written", file=sys.stderr)
        return 130
    except Exception as error:
        return _usage_error(error)
    return code if isinstance(code, int) else 0


def _usage_error(error: Exception) -> int:
    """Errors of the option parser as one sentence; anything else is our bug and goes on."""
    message = getattr(error, "format_message", None)
    if message is None:
        if type(error).__name__ == "Abort":
            print("error: interrupted; nothing partial was written", file=sys.stderr)
            return 130
        raise error
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "v4sim"
    commands = list(getattr(getattr(context, "command", None), "commands", None) or ())
    text = " ".join(str(message()).split()).rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        text = f"'{path}' needs a command: {' or '.join(commands)}"
    elif text.startswith("No such command") and "Did you mean" not in text:
        text += f"; known are {', '.join(commands)}"
    if text:
        print(f"error: {text}; see '{path} --help'", file=sys.stderr)
    return int(getattr(error, "exit_code", 2))


if __name__ == "__main__":
    sys.exit(main())
