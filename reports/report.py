"""One answer as a value, from which terminal, page, JSON, CSV and SVG are made.

A `Report` is made from frozen records by one function a kind (`reports/kinds.py`) and knows no
renderer. Exact values stand in the fields of its tables and in `data`; how they read stands beside.

    Report(
        kind="capacity", title="Capacity of v4-flash on 8 x b200", answer="20 requests fit ...",
        data={"requests": 20.01},
        cards=(Card(label="requests at once", value="20"),),
        sections=(Section(id="limits", title="Limits", parts=(limits_table,)),),
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | int | float | bool | None
_DASH = "–"


def plain_text(value: Cell) -> str:
    """A cell in words: whole numbers with thousands apart, others to four digits."""
    if value is None:
        return _DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a table: exact `values` under a `name` with its unit, and how they read.

    Columns of the highest `rank` are the first that a narrow terminal leaves out, those of rank 0
    never. Columns of text are `left`, numbers are not; `is_text` says so where values are
    words already. `about` is said of the column, `abouts` row by row, when pointed at.
    """

    name: str
    heading: str
    values: Sequence[Cell]
    show: Callable[[Any], str] | None = None
    rank: int = 0
    about: str = ""
    is_text: bool | None = None
    abouts: Sequence[str] = ()

    @property
    def left(self) -> bool:
        """Whether it is text, which begins at the left."""
        if self.is_text is not None:
            return self.is_text
        return any(isinstance(value, str) for value in self.values)

    @property
    def cells(self) -> list[str]:
        """The values as they read."""
        return [
            plain_text(value) if self.show is None or value is None else self.show(value)
            for value in self.values
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Fields of equal length under a title; with `total`, the last row is that of all.

    A terminal shows the first `shown` rows and says how many more there are, with 0 only that;
    pages show all.
    """

    id: str
    title: str
    fields: tuple[Field, ...]
    note: str = ""
    total: bool = False
    shown: int | None = None

    def __post_init__(self) -> None:
        lengths = {len(field.values) for field in self.fields}
        assert len(lengths) == 1, f"columns of {self.id} differ in length: {lengths}"

    @property
    def count(self) -> int:
        """Rows, that of all included."""
        return len(self.fields[0].values)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A stretch of a figure's x axis to look at alone; it shows traces of this `meta` or none."""

    name: str
    start: float
    end: float
    meta: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Traces and layout as plain plotly dictionaries, in the part of their form that
    `reports/svg.py` draws; `note` says how to read it.
    """

    id: str
    title: str
    drawing: Mapping[str, Any]
    note: str = ""
    views: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """Part of a page that no other form has, such as bars; `text` is what a terminal prints."""

    id: str
    title: str
    html: str
    text: str = ""


Part = ReportTable | Figure | Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under one title, to which the page links; those of a `pair` stand side by side."""

    id: str
    title: str
    parts: tuple[Part, ...] = ()
    texts: tuple[str, ...] = ()
    pair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A number that has to be seen first: `value` as it reads, with its unit; `label` below it."""

    label: str
    value: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence not to be overlooked: a proof that holds, a warning, a law that is broken."""

    text: str
    state: Literal["good", "warning", "broken"] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An answer of one `kind`: one sentence, what supports it, and all of its figures as `data`.

    `answer` is one sentence; `basis` sentences say what was costed. `sections` come in the order in
    which they are read. `data` are plain JSON values, units in names. `main_table` is the one that
    stands for the report where there is room for one, the first unless named.
    """

    kind: str
    title: str
    answer: str
    data: Mapping[str, Any]
    sections: tuple[Section, ...] = ()
    cards: tuple[Card, ...] = ()
    kicker: str = ""
    basis: tuple[str, ...] = ()
    said: tuple[Said, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    units: str = ""
    main_table: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [section.id for section in self.sections]
        ids += [part.id for section in self.sections for part in section.parts]
        ids += ["figures", "files", "notes", "assumptions"]  # which every page has
        twice = {name for name in ids if ids.count(name) > 1}
        assert not twice, f"ids of {self.kind} occur twice: {twice}"

    @property
    def tables(self) -> tuple[ReportTable, ...]:
        """All tables, in the order of the page."""
        return tuple(part for part in self.parts if isinstance(part, ReportTable))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in the order of the page."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What all sections hold."""
        return tuple(part for section in self.sections for part in section.parts)

    def table(self, name: str = "") -> ReportTable:
        """The table of this id, or the main one. Raises StopIteration where there is none."""
        name = name or self.main_table
        return next(table for table in self.tables if not name or table.id == name)
