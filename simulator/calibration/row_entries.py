"""Which profile lowers a measured row, and which of its kernels the row timed: `rows.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_PATH = Path(__file__).parent / "rows.yaml"


class RowEntry(StrictModel):
    """Rows whose text columns match all patterns, and how they are lowered; see `rows.yaml`."""

    match: Annotated[dict[str, str], Field(min_length=1)]
    profile: str
    graph: Literal["attention", "layer", "linear", "experts", "collective"]
    kernels: tuple[str, ...] | None = None
    family: str | None = None
    judged_as: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.family is None and self.judged_as is None:
            raise KeyFaultError(("judged_as",), "an entry needs 'family' or 'judged_as'")
        return self

    def __hash__(self) -> int:
        return id(self)

    @property
    def judged(self) -> str:
        """Family under which a row's error counts, and with whose rows it is fitted."""
        return self.judged_as or self.family or ""

    def takes(self, texts: Mapping[str, str]) -> bool:
        """Whether text columns match all patterns."""
        return all(fnmatchcase(texts.get(name, ""), text) for name, text in self.match.items())


class RowEntries(StrictModel):
    """All entries, of which the first that matches counts."""

    entries: tuple[RowEntry, ...]


@cache
def row_entries() -> tuple[RowEntry, ...]:
    """Entries of the file."""
    return load_yaml(_PATH, RowEntries).entries


def entry_of(texts: Mapping[str, str]) -> RowEntry | None:
    """Entry of a row by its text columns; None where no profile lowers it."""
    return _entry_of(tuple(sorted(texts.items())))


@cache
def _entry_of(texts: tuple[tuple[str, str], ...]) -> RowEntry | None:
    named = dict(texts)
    return next((entry for entry in row_entries() if entry.takes(named)), None)
