"""`v4sim glossary`: what the words of commands and reports mean."""

from __future__ import annotations

from typing import Annotated

import typer

from simulator.basis.errors import InputError, nearest_name
from simulator.cli.options import JsonFile, console, save_json


def glossary(
    word: Annotated[
        str | None,
        typer.Argument(metavar="[WORD]", help="Show entries whose name or text has this word."),
    ] = None,
    json: JsonFile = None,
) -> None:
    """Say what the words of commands and reports mean, in plain sentences.

    Example: v4sim glossary window
    """
    from reports.glossary import glossary_groups
    from reports.text_table import wrapped

    groups = glossary_groups()
    if word is not None:
        wanted = word.lower()
        shown = {
            title: {n: t for n, t in terms.items() if wanted in n.lower() or wanted in t.lower()}
            for title, terms in groups.items()
        }
        groups, every = {title: terms for title, terms in shown.items() if terms}, groups
        if not groups:
            near = nearest_name(word, [name for terms in every.values() for name in terms])
            hint = f"; did you mean {near!r}?" if near else ""
            raise InputError(f"no entry of the glossary has {word!r}{hint}")
    save_json(json, {"glossary": groups})
    for place, (title, terms) in enumerate(groups.items()):
        if place:
            console().print()
        console().print(title, style="bold")
        for name, text in terms.items():
            console().print(wrapped(f"{name}: {text}.", console().width, 2))
