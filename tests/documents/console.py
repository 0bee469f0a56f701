"""Commands in documents, with what they print: read, run, compared line by line, written anew.

A block of a document that is marked `console` has commands after `$ `, each followed by its output.
The sections of a document (from one `## ` to the next) are run apart, each in a folder of its own,
so that what one writes the next may use only within a section. `| head -N`, `| tail -N` and
`| sed -n A,Bp` after a command are cut here, and are what a reader would type too. A section with
a line `<!-- long -->` runs only where V4SIM_WHOLE is set.

`python -m tests.documents.console` writes all outputs anew (`--check` fails on a difference).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.cli.main import main as v4sim

ROOT = Path(__file__).parents[2]
WIDTH = 100
LONG = "<!-- long -->"
_CUT = re.compile(r"\s\|\s(head|tail) -n? ?(\d+)$|\s\|\ssed -n '?(\d+),(\d+)p'?$")
# Wall times, versions, folders of this machine, and plugin noise: what may differ by run.
_MASKS = (
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|ms) (?=of wall|wall)"), "# s "),
    (re.compile(r"\bv4sim \d+\.\d+\.\d+\S*"), "v4sim #"),
    (re.compile(r"(?:/private)?/(?:tmp|var|home|root|work)/[^\s,;:)]*"), "/PATH"),
)


@dataclass(frozen=True)
class Command:
    """One command of a block; `first` and `stop` are the lines of its output in the document."""

    text: str
    first: int
    stop: int
    expected: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A section of a document, with its commands in order."""

    document: str
    title: str
    is_long: bool
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        """For the list of tests."""
        return f"{self.document}: {self.title}"


def documents() -> list[Path]:
    """README and all pages of docs, but the reference, which is made from the code."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sections(path: Path) -> list[Section]:
    """Sections with commands."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [0, *(i for i, line in enumerate(lines) if line.startswith("## "))]
    found = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        commands = tuple(_commands(lines, start, stop))
        if commands:
            title = lines[start].lstrip("# ") or path.stem
            is_long = LONG in lines[start:stop]
            found.append(Section(str(path.relative_to(ROOT)), title, is_long, commands))
    return found


def _commands(lines: list[str], start: int, stop: int) -> Iterator[Command]:
    inside, at = False, start
    while at < stop:
        if lines[at].startswith("```"):
            inside = not inside and lines[at].strip() == "```console"
            at += 1
            continue
        if not inside or not lines[at].startswith("$ "):
            at += 1
            continue
        text = lines[at][2:]
        while text.endswith("\\"):
            at += 1
            text = text[:-1].rstrip() + " " + lines[at].strip()
        first = at = at + 1
        while at < stop and not lines[at].startswith(("$ ", "```")):
            at += 1
        end = at
        while end > first and not lines[end - 1].strip():
            end -= 1
        yield Command(text, first, end, tuple(lines[first:end]))


def output(command: str) -> list[str]:
    """Lines that a command prints, in the present folder."""
    cut = _CUT.search(command)
    whole = command[: cut.start()] if cut else command
    words = shlex.split(whole)
    plain = whole.startswith("v4sim ") and not re.search(r"[|><]|&&", whole.replace("->", ""))
    told = _own(words[1:]) if plain else _shell(whole)
    lines = [line.rstrip() for line in told.splitlines()]
    if cut is not None and cut[1] == "head":
        lines = lines[: int(cut[2])]
    elif cut is not None and cut[1] == "tail":
        lines = lines[-int(cut[2]) :]
    elif cut is not None:
        lines = lines[int(cut[3]) - 1 : int(cut[4])]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _own(words: list[str]) -> str:
    """A command of ours, run in this process."""
    from simulator.cli import progress
    from simulator.cli.options import console

    progress.LINE_EVERY_S = float("inf")  # how far it has come depends on the machine
    told = io.StringIO()
    before, arguments = dict(os.environ), sys.argv
    os.environ["COLUMNS"], sys.argv = str(WIDTH), ["v4sim", *words]
    console.cache_clear()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            v4sim(words)
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.argv = arguments
        console.cache_clear()
    return told.getvalue()


def _shell(text: str) -> str:
    """Any other command."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PATH": path}
    done = subprocess.run(
        text, shell=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    return done.stdout


def masked(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, word in _MASKS:
        line = pattern.sub(word, line)
    return line


def run_section(section: Section) -> list[list[str]]:
    """Outputs of all commands, run in a folder of its own."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="v4sim-docs-") as folder:
        os.chdir(folder)
        try:
            return [output(command.text) for command in section.commands]
        finally:
            os.chdir(here)


def differences(section: Section) -> list[str]:
    """Commands whose output is not the document's, with both."""
    found = []
    for command, printed in zip(section.commands, run_section(section), strict=True):
        ours, theirs = [masked(x) for x in printed], [masked(x) for x in command.expected]
        if ours != theirs:
            shown = "\n".join([f"$ {command.text}", "document:", *theirs, "now:", *ours])
            found.append(shown)
    return found


def write(path: Path) -> bool:
    """Put today's outputs into a document; True where it changed."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for section in reversed(sections(path)):
        outputs = run_section(section)
        for command, printed in reversed(list(zip(section.commands, outputs, strict=True))):
            if [masked(x) for x in printed] != [masked(x) for x in command.expected]:
                lines[command.first : command.stop] = printed
        print(f"ran {section.name}", flush=True)
    text = "\n".join(lines) + "\n"
    changed = text != path.read_text(encoding="utf-8")
    if changed:
        path.write_text(text, encoding="utf-8")
    return changed


def main() -> int:
    """Write all documents anew; with --check, 1 where one differed."""
    given = [Path(word).resolve() for word in sys.argv[1:] if not word.startswith("-")]
    changed = [path for path in given or documents() if write(path)]
    for path in changed:
        print(f"changed {path.relative_to(ROOT)}")
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
