"""What is asked: a batch, its tables, and the packed rows and layers to show.

A file of it:

    model: v4-flash
    requests:
      - {past: 300, new: 4}
      - {past: 0, new: 130, row: 3}
    slots: 8
    pool_page_tokens: {c128: 2048}
    layers: [2, 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import (
    KeyFaultError,
    LineMap,
    StrictModel,
    compose_yaml,
    validate_data,
)

Count = Annotated[int, Field(ge=0, le=2**31)]
Positive = Annotated[int, Field(gt=0, le=2**31)]
Values = Literal["auto", "run", "none"]


class RequestSpec(StrictModel):
    """Tokens of a request before the step and those that it adds; `row` of the request pool."""

    past: Count
    new: Positive
    row: Count | None = None

    @property
    def context(self) -> int:
        """Tokens after the step."""
        return self.past + self.new


class AddressQuestion(StrictModel):
    """A batch, its tables and what to show.

    `slots` are the request rows (None: as many as needed); `page_seed` shuffles the order in which
    pages are handed out (None: ascending); `layers` empty shows the first of every kind, `rows`
    empty the last row of every request. `values` says whether a small model runs for the indexer's
    ids; `seed` gives its weights and tokens.
    """

    model: str = "tiny"
    requests: tuple[RequestSpec, ...]
    page_tokens: int = 256
    pool_page_tokens: dict[str, int] = Field(default_factory=dict)
    slots: Positive | None = None
    page_seed: Count | None = None
    layers: tuple[Count, ...] = ()
    rows: tuple[Count, ...] = ()
    values: Values = "auto"
    seed: Count = 7

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.requests:
            raise KeyFaultError(("requests",), "requests is empty, expected 1 request or more")
        return self


class _OptionLines(LineMap):
    """Options have no file and no line to be named."""

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = FileFormatError
    ) -> InputError:
        return InputError(sentence)


def read_question(path: Path | None, given: dict[str, Any]) -> AddressQuestion:
    """The question of a file, of what was given beside it, or of both: what is given wins."""
    data: dict[str, Any] = {}
    if path:
        data, lines = compose_yaml(path)
        validate_data(data, lines, AddressQuestion)
    elif "requests" not in given:
        raise InputError(
            "there is no request to address; give --request PAST:NEW, such as --request 300:4, "
            "or a file with --batch"
        )
    return validate_data(data | given, _OptionLines(Path("options"), {}), AddressQuestion)


def parse_request(text: str) -> dict[str, int]:
    """`past:new` or `past:new:row`."""
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(_is_count(part) for part in parts):
        raise InputError(
            f"request {text!r} is not PAST:NEW or PAST:NEW:ROW in whole numbers; 300:4 adds 4 "
            "tokens to 300"
        )
    numbers = [int(part) for part in parts]
    if not numbers[1]:
        raise InputError(f"request {text!r} adds no token; the step needs 1 or more of each")
    return dict(zip(("past", "new", "row"), numbers, strict=False))


def parse_page(text: str) -> tuple[str, int]:
    """`pool=tokens`."""
    pool, _, tokens = text.partition("=")
    if not pool or not _is_count(tokens):
        raise InputError(f"page {text!r} is not POOL=TOKENS, such as c128=2048")
    return pool, int(tokens)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12
