"""The `v4sim` command: one thin module a subcommand, errors as one sentence, exit codes.

Exit codes: 0 done; 1 a check failed; 2 bad input; 3 a model does not fit; 4 unsupported;
70 a bug of ours; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from simulator.basis.errors import V4SimError
from simulator.cli import (
    address,
    bandwidth,
    calibrate,
    capacity,
    chips,
    claims,
    compare,
    demo,
    explain,
    glossary,
    indexer,
    init,
    layout,
    models,
    offload,
    plan,
    prefix,
    run,
    serve,
    show,
    step,
    sweep,
    trace,
    ui,
    validate,
    verify,
    whatif,
)
from simulator.cli.constants_option import with_constants
from simulator.cli.help import GroupedCommands, with_panels
from simulator.cli.interrupts import INTERRUPTED, was_interrupted
from simulator.cli.options import to_standard_output

BUG = 70  # EX_SOFTWARE of sysexits.h

app = typer.Typer(
    name="v4sim",
    help="Cycle-level hardware and cost simulator for serving DeepSeek-V4.",
    epilog="Example: v4sim step --model v4-flash --chip h200 --count 8 --phase decode "
    "--batch 64 --context 131072 --out out/step",
    add_completion=True,
    rich_markup_mode=None,
    cls=GroupedCommands,
)
app.command("demo")(demo.demo)
app.command("step")(step.step)
app.command("whatif")(whatif.whatif)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.add_typer(models.app, name="models")
app.add_typer(chips.app, name="chips")
app.command("verify")(verify.verify)
app.command("run")(run.run)
app.command("claims")(claims.claims)
app.command("calibrate")(calibrate.calibrate)
app.command("validate")(validate.validate)
app.command("bandwidth")(bandwidth.bandwidth)
app.command("layout")(layout.layout)
app.command("address")(address.address)
app.command("capacity")(capacity.capacity)
app.command("indexer")(indexer.indexer)
app.command("serve")(serve.serve)
app.command("plan")(plan.plan)
app.command("offload")(offload.offload)
app.add_typer(prefix.prefix, name="prefix")
app.add_typer(trace.app, name="trace")
app.command("sweep")(sweep.sweep)
app.command("init")(init.init)
app.command("show")(show.show)
app.command("ui")(ui.ui)
app.command("glossary")(glossary.glossary)
with_constants(app)
with_panels(app)


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
    # Graphs are many small objects that live long: looking through them often finds nothing.
    gc.set_threshold(200_000, 50, 50)
    to_standard_output(False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows `?`
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence(sys.stdout)  # the reader of our output has gone, as `head` does
        return 0
    except OSError as error:
        if not error.filename:
            _silence(sys.stdout)
        where = f"{error.filename}: " if error.filename else "output: "
        return _fail(f"{where}{error.strerror or error}")


def _run(given: list[str]) -> int:
    """One command; what it cannot do is a sentence on standard error."""
    try:
        code = app(args=given or ["--help"], prog_name="v4sim", standalone_mode=False)
        if code == 130:  # the parser's own way of ending an interrupted command
            return _fail(INTERRUPTED, 130)
        return code if isinstance(code, int) else 0
    except V4SimError as error:
        return _fail(error.message, error.exit_code)
    except (KeyboardInterrupt, EOFError):
        return _fail(INTERRUPTED, 130)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        return _fail(INTERRUPTED, 130) if code == 130 else code
    except RecursionError:
        return _fail("an input file is nested too deeply to be read; flatten it")
    except MemoryError:
        return _fail("this needs more memory than the machine has; ask for less at once")
    except OSError:
        raise
    except Exception as error:
        return _usage_error(error)


def _fail(sentence: str, exit_code: int = 2) -> int:
    line = " ".join("".join(c if c.isprintable() else " " for c in sentence).split())
    print(f"error: {line}", file=sys.stderr)
    return exit_code


def _bug(error: Exception) -> int:
    """What is our fault, not the user's: where it happened and where to report it."""
    if was_interrupted():  # in the middle of an import, which made another error of it
        return _fail(INTERRUPTED, 130)
    if os.environ.get("V4SIM_TRACEBACK"):
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno}"
    said = f"{type(error).__name__}: {error}"[:300]
    return _fail(
        f"this is a bug in v4sim, not in what you gave ({said}, at {where}): please report it with "
        "the command line, the files it names and the output of the same command under "
        "V4SIM_TRACEBACK=1",
        BUG,
    )


def _silence(stream: TextIO) -> None:
    """Let what is still buffered go nowhere; a stream that is no file of the system holds none."""
    with contextlib.suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _usage_error(error: Exception) -> int:
    """Errors of the option parser as one sentence; anything else is told as a bug of ours."""
    message = getattr(error, "format_message", None)
    if message is None:
        if type(error).__name__ == "Abort":
            return _fail(INTERRUPTED, 130)
        return _bug(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "v4sim"
    commands = list(getattr(getattr(context, "command", None), "commands", None) or ())
    text = " ".join(str(message()).split()).rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        text = f"'{path}' needs a command: {' or '.join(commands)}"
    elif text.startswith("No such command") and "Did you mean" not in text:
        text += f"; known are {', '.join(commands)}"
    if text:
        return _fail(f"{text}; see '{path} --help'", int(getattr(error, "exit_code", 2)))
    return int(getattr(error, "exit_code", 2))


if __name__ == "__main__":
    sys.exit(main())
