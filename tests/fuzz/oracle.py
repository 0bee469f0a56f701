"""Runs a case in process, and says what about its end is a fault of ours."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutations import Case
from tests.fuzz.samples import write_samples

EXIT_CODES = frozenset((0, 1, 2, 3, 4))
HANG_S = 20
ASLEEP_S = 240
_GENERIC = ("cannot be worked with", "bug in v4sim", "more memory than the machine has")
_FITS = ("does not fit", "do not fit", "fits", "exceed", "short", "would")


class HangError(BaseException):
    """The alarm of a case that ran too long."""


@dataclass(frozen=True)
class Ending:
    """How a case ended."""

    code: int
    out: str
    err: str
    fault: str | None

    @property
    def root(self) -> str:
        """The fault without its digits: cases with the same one are one finding."""
        return re.sub(r"\d+", "N", self.fault or "")


def run(case: Case, folder: Path) -> Ending:
    """The case in a folder with the samples; `fault` is None where all is as it should be."""
    from simulator.cli.main import main

    write_samples(folder)
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    words = [*case.words_with_json]
    out, err = io.StringIO(), io.StringIO()
    code, fault = -1, None
    with _inside(folder), warnings.catch_warnings(record=True) as noise:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _alarm():
                code = main(words)
        except HangError:
            fault = f"hang: over {HANG_S} s of work"
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"traceback: {type(error).__name__} in {last.filename}:{last.name}: {error}"
        loud = [w for w in noise if issubclass(w.category, RuntimeWarning | ResourceWarning)]
    written = folder / "o.json"
    fault = fault or _judged(case, code, err.getvalue(), written)
    if fault is None and loud:
        fault = f"noise: {Path(loud[0].filename).name}: {loud[0].message}"
    return Ending(code, out.getvalue(), err.getvalue(), fault)


def _judged(case: Case, code: int, err: str, written: Path) -> str | None:
    line = err.strip().splitlines()[-1] if err.strip() else ""
    if any(word in line for word in _GENERIC):
        return f"generic: {line}"
    if code not in EXIT_CODES:
        return f"exit code {code}: {line}"
    if code == 2 and err.count("error: ") < 1:
        return f"exit code 2 without an error: {err[:200]}"
    if not case.files and not case.options and code not in (0, 3):
        return f"refused: a valid question ends with {code}: {line}"
    if code == 2 and not _named(case, line):
        return f"unnamed: {line}"
    if code == 0 and written.exists():
        try:
            json.loads(written.read_text(), parse_constant=_refused)
        except ValueError as error:
            return f"nan: {error}"
    return None


def _refused(word: str) -> None:
    raise ValueError(f"{word} in JSON")


def _named(case: Case, line: str) -> bool:
    """Whether a refusal names the file or an option that was changed, or quantities."""
    if case.files:
        return any(re.search(rf"{re.escape(name)}", line) for name in case.files)
    # An option may clash with another, which is then the one that is named.
    return "--" in line or any(word in line for word in _FITS)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise HangError

    # Work is counted in time of the processor, which a busy machine leaves as it is.
    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.alarm(ASLEEP_S)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
