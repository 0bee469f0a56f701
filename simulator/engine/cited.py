"""Rules of a layout say where they come from."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from simulator.basis.yaml_loader import KeyFaultError, StrictModel


class Cited(StrictModel):
    """A rule with its origin: where it was read, or why it is guessed."""

    source: str | None = None
    guess: str | None = None

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if bool((self.source or "").strip()) == bool((self.guess or "").strip()):
            raise KeyFaultError(
                ("source",), "a rule needs either a 'source' or a 'guess' with the reason"
            )
        return self

    @property
    def origin(self) -> str:
        """One line for reports."""
        return self.source or f"guessed: {self.guess}"
