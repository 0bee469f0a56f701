"""A refusal names the option or the file that it is about, as the user typed it."""

from __future__ import annotations

import re

import pytest

from simulator.cli.main import main

# What is given, and how the refusal begins.
REFUSED = {
    "step --model nope --chip h200": "--model nope: unknown model",
    "step --model v4-flash --chip ./none.yaml": "--chip ./none.yaml: no such chip file",
    "init prices --from ../x": "--from ../x: no such prices file",
    # The word of the kind stands in the message, too.
    "init model --from <s>": "--from <s>: unknown model",
    "init engine --from a": "--from a: unknown engine",
    "plan nope": "[QUESTION] nope: unknown plan",
    "chips show nope": "NAME nope: unknown chip",
    "serve none.yaml": "none.yaml: no such scenario file",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_opens_with_its_place(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert re.match(re.escape(f"error: {REFUSED[words]}"), capsys.readouterr().err)
