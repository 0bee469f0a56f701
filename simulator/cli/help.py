"""Help in plain text with commands and options in groups, each description whole."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Groups of the top commands, in this order; a command that is in none ends under "More".
PANELS: dict[str, tuple[str, ...]] = {
    "First minutes": ("demo", "init", "ui", "glossary", "show"),
    "One step and memory": ("step", "whatif", "compare", "explain", "capacity"),
    "Serving and planning": ("serve", "sweep", "plan"),
    "KV cache and prefixes": ("prefix", "trace", "layout", "address", "indexer", "offload"),
    "Facts": ("models", "chips", "bandwidth"),
    "Proof and accuracy": ("verify", "run", "claims", "validate", "calibrate"),
}


class GroupedCommands(TyperGroup):
    """A group whose help lists commands under headings, with their whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the lists."""
        names = self.list_commands(ctx)
        placed = {name for panel in PANELS.values() for name in panel}
        panels = dict(PANELS) if any(name in placed for name in names) else {}
        panels["More" if panels else "Commands"] = tuple(n for n in names if n not in placed)
        for title, own in panels.items():
            rows = [(name, _first(self.get_command(ctx, name))) for name in own if name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands."""
        format_panels(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class PanelledCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lists: arguments, options of no group, then each group."""
        format_panels(self, ctx, formatter)


def format_panels(command: Any, ctx: Any, formatter: Any) -> None:
    """Options of a command by the heading that each names."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if row is None:
            continue
        named = getattr(parameter, "rich_help_panel", None)
        plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panels.setdefault(named or plain, []).append(row)
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _first(command: Any) -> str:
    """First paragraph of a command's help."""
    text = (command.help or command.short_help or "") if command is not None else ""
    return " ".join(text.split("\n\n")[0].split())


def with_panels(app: typer.Typer) -> None:
    """Give every command of an application, and of the groups below it, such a help."""
    for command in app.registered_commands:
        command.cls = PanelledCommand
    for group in app.registered_groups:
        group.cls = GroupedCommands
        if group.typer_instance is not None:
            group.typer_instance.info.cls = GroupedCommands
            with_panels(group.typer_instance)
