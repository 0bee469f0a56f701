"""Published serving figures, each with the scenario that comes nearest to what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml
from simulator.serve.scenario import Scenario

_PATH = Path(__file__).parent / "serving.yaml"


class ServingRow(StrictModel):
    """A published run. `published`: figures by measure; `bands`: largest difference (relative, or
    in points where the measure is a share) that is tested, none where settings are not known.

    `scenario` is run, with `other` beside it where the figure compares two runs; rows without one
    are computed under `name`. `why`: what makes ours differ, told where it does.
    """

    name: str
    setting: str
    source: str
    published: dict[str, float]
    bands: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    scenario: Scenario | None = None
    other: Scenario | None = None
    why: str | None = None

    @model_validator(mode="after")
    def _check_bands(self) -> Self:
        for measure in self.bands:
            if measure not in self.published:
                raise KeyFaultError(("bands", measure), f"{measure} has a band, but no figure")
        return self


class _RowFile(StrictModel):
    """Rows by name, in the order in which they are printed."""

    sources: dict[str, str]
    rows: tuple[ServingRow, ...]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        seen: set[str] = set()
        for place, row in enumerate(self.rows):
            if row.name in seen:
                raise KeyFaultError(("rows", place, "name"), f"{row.name} is there twice")
            seen.add(row.name)
            if row.source not in self.sources:
                raise KeyFaultError(
                    ("rows", place, "source"),
                    f"source is {row.source!r}, expected one of {', '.join(self.sources)}",
                )
        return self


def serving_rows(path: Path = _PATH) -> tuple[tuple[ServingRow, ...], Mapping[str, str]]:
    """All rows, and the sources by key."""
    file = load_yaml(path, _RowFile)
    return file.rows, file.sources
