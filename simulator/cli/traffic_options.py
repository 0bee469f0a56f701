"""The options that say what is asked of a trace: one group, the same for every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError

if TYPE_CHECKING:
    from workloads.traffic.trace import Trace
    from workloads.traffic.transforms import Transforms

_GROUP = "Requests"


def _option(kind: Any, text: str, *names: str, metavar: str | None = None) -> Any:
    return Annotated[kind, typer.Option(*names, help=text, rich_help_panel=_GROUP, metavar=metavar)]


OPTIONS: dict[str, tuple[Any, Any]] = {
    "columns": (
        _option(
            str | None,
            "Columns of a CSV or JSONL of no known format: time=NAME:ms,input=NAME,output=NAME,"
            "session=NAME; also wait, cached, ids.",
            metavar="PART=NAME,...",
        ),
        None,
    ),
    "ignore": (
        _option(str | None, "Columns that may be left out.", metavar="NAME,..."),
        None,
    ),
    "estimate_tokens": (
        _option(
            float | None,
            "Estimate lengths of text at so many characters a token.",
            metavar="CHARACTERS",
        ),
        None,
    ),
    "live": (
        _option(
            int | None,
            "Sessions open at once from 0 s on; the next begins when one ends, service takes no "
            "time [default: as the trace has them].",
        ),
        None,
    ),
    "rate": (_option(float, "Sessions start so many times as fast."), 1.0),
    "sample": (_option(float | None, "Take a share of the sessions, such as 0.1."), None),
    "sample_seed": (_option(int, "Of that draw."), 0),
    "window": (
        _option(
            str | None,
            "Take requests that arrive from one second to another, such as 600:1200.",
            metavar="FROM:TO",
        ),
        None,
    ),
    "warm_up": (_option(int, "Requests that fill the cache first and are not counted."), 0),
}


_READING = ("columns", "ignore", "estimate_tokens")


def reading_of(traffic: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the group that say how a file is read, as `read_trace` takes them."""
    names = (traffic["ignore"] or "").split(",")
    return {
        "columns": traffic["columns"],
        "ignore": tuple(name.strip() for name in names if name.strip()),
        "chars_per_token": traffic["estimate_tokens"],
    }


def takes_traffic(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of OPTIONS; it gets them as a mapping, `traffic`."""
    own = inspect.signature(command, eval_str=True).parameters
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in OPTIONS.items()
    ]
    kept = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for n, p in own.items() if n != "traffic"
    ]
    parameters = [*kept, *added]

    def run(**given: Any) -> Any:
        asked = {name: given.pop(name) for name in OPTIONS}
        return command(traffic=asked, **given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def transforms_of(traffic: Mapping[str, Any]) -> Transforms:
    """What the options ask for; raises InputError for a window that is none."""
    from workloads.traffic.transforms import Transforms

    given = {name: value for name, value in traffic.items() if name not in _READING}
    text = given.pop("window")
    return Transforms(window_s=None if text is None else _window(text), **given)


def asked_of(trace: Trace, traffic: Mapping[str, Any]) -> Trace:
    """A trace as the options ask for it."""
    return transforms_of(traffic).apply(trace)


def _window(text: str) -> tuple[float, float]:
    begin, colon, end = text.partition(":")
    try:
        if colon:
            return float(begin or 0), float(end or "inf")
    except ValueError:
        pass
    raise InputError(f"--window {text!r}: give two times in seconds with a colon, such as 600:1200")
