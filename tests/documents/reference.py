"""`docs/reference.md`: the help of every command and the flags of launch commands, from the code.

`python -m tests.documents.reference` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from simulator.cli.help import PANELS
from simulator.engine.launch import Flag, engine_flags
from tests.documents.console import ROOT, output

PAGE = ROOT / "docs" / "reference.md"
_HEAD = """# Reference

Made from the code by `make docs`. Exit codes: 0 done, 1 a check failed, 2 bad input, 3 does not fit
or no plan, 4 unsupported, 70 a bug of ours, 130 interrupted.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_commands(), *_flags()])


def _commands() -> Iterator[str]:
    from simulator.cli.main import app

    groups = {group.name: group.typer_instance for group in app.registered_groups}
    plain = {command.name for command in app.registered_commands}
    for title, names in PANELS.items():
        yield f"## {title}\n"
        for name in names:
            if name in plain:
                yield _help(f"v4sim {name}")
            elif groups.get(name) is not None:
                own = groups[name]
                assert own is not None
                for command in own.registered_commands:
                    yield _help(f"v4sim {name} {command.name or _name(command.callback)}")


def _name(callback: object) -> str:
    return str(getattr(callback, "__name__", "")).replace("_", "-")


def _help(command: str) -> str:
    text = "\n".join(output(f"{command} --help"))
    return f"### {command}\n\n```text\n{text}\n```\n"


def _flags() -> Iterator[str]:
    yield "## Flags of launch commands\n"
    for name, engine in engine_flags().items():
        yield f"### {name}\n"
        yield f"`{engine.starts[0]} ...`; defaults: {engine.source}.\n"
        yield "| flag | here |\n|---|---|"
        for flag, rule in engine.flags.items():
            also = "".join(f", `{word}`" for word in rule.also)
            yield f"| `{flag}`{also} | {_meaning(rule)} |"
        yield ""


def _meaning(rule: Flag) -> str:
    if rule.sets is not None:
        return f"sets {rule.sets.replace('_', ' ')}"
    return f"no effect: {rule.idle}" if rule.idle else f"refused: {rule.refused}"


def main() -> int:
    """Write the page; with --check, 1 where it differed."""
    text = reference()
    same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
    PAGE.write_text(text, encoding="utf-8")
    return 1 if not same and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
