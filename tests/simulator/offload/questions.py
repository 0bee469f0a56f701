"""The question that the offload tests ask, with changes."""

from __future__ import annotations

from typing import Any

from simulator.offload.question import OffloadQuestion, ask_offload


def asked(**changes: Any) -> OffloadQuestion:
    given = {"model": "v4-flash", "chip": "b200", "count": 2, "dp": 2} | changes
    return ask_offload(**given)
